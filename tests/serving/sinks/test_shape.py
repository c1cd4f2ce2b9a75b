"""What a sink was opened for."""

import dataclasses

import numpy as np
import pytest

from dygcn.engine.records import History
from dygcn.errors import SinkError
from dygcn.serving.sinks.sink import Shape, check_finite
from dygcn.testing.sink_model import made_up_history, make_rows


@pytest.mark.parametrize(
    ("ids", "dim"),
    [
        ("int32", 4), ("", 4), ("int64", 0), ("string", -1),
        ("user:int64", 4), ("user:int64,item:float", 4), ("user:int64,user:int64", 4),
    ],
)  # fmt: skip
def test_shapes_that_are_none(ids, dim):
    with pytest.raises(SinkError, match="allowed are the types int64 and string, one of both for each kind"):
        Shape(ids, dim)


def test_shapes_with_kinds():
    shape = Shape("user:int64,item:int64", 3)
    assert shape == Shape("shop:string,item:int64", 3) == Shape(str(shape).rpartition(":")[0], 3)
    assert (str(shape), shape.stored, shape.with_kinds) == ("kind:string:3", "string", True)
    assert not Shape("string", 3).with_kinds
    shape.check(make_rows({"item:a:b": 1}, left={"user:": 1}, dim=3), "here")
    for wrong in (make_rows({"item": 1}, dim=3), make_rows({7: 1}, dim=3)):
        with pytest.raises(SinkError, match="here takes ids of type kind:string"):
            shape.check(wrong, "here")
    for there in ("string:3", "int64:3"):
        with pytest.raises(SinkError, match=f"holds rows of the shape {there} .type of ids, size of vectors"):
            shape.refuse("here", there)


def test_rows_of_the_shape_pass():
    for version in (0, 2**63 - 1):
        rows = make_rows({1: version}, left={3: version}, dim=3, generation=version)
        Shape("int64", 3).check(rows, "here")
    Shape("string", 3).check(make_rows({"a": 1}, left={"b": 1}, dim=3), "here")
    for ids in ("int64", "string", "a:int64,b:int64"):
        Shape(ids, 3).check(make_rows({}, dim=3), "here")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"vectors": np.zeros((2, 4), np.float32)},
            r"takes float32 vectors of size 3; got float32 of .*4\)",
        ),
        ({"vectors": np.zeros((2, 3), np.float64)}, "got float64"),
        ({"vectors": np.zeros(6, np.float32)}, r"\(6,\)"),
        ({"vectors": np.zeros((1, 3), np.float32)}, "not equally many"),
        ({"ids": np.array(["a", "b"], object)}, "here takes ids of type int64; got an array of object"),
        ({"ids": np.array([1.0, 2.0])}, "float64"),
        ({"ids": np.array([1, 2], np.int32)}, "int32"),
        ({"left": np.array(["a"], object)}, "object"),
        ({"history": made_up_history(-1)}, "allowed are a generation and a sequence from 0"),
        ({"history": made_up_history(1, 2**63)}, "allowed are a generation and a sequence from 0"),
        ({"history": History(1, "0", 1, "0" * 32)}, "an epoch of 16 and a chain of 32 hexadecimal digits"),
        ({"history": History(1, "0" * 16, 1, "x" * 32)}, "an epoch of 16 and a chain of 32"),
    ],
)
def test_rows_of_other_shapes_are_refused(change, said):
    rows = dataclasses.replace(make_rows({1: 1, 2: 1}, left={3: 1}, dim=3), **change)
    with pytest.raises(SinkError, match=said):
        Shape("int64", 3).check(rows, "here")


@pytest.mark.parametrize("ids", [np.array([1, 2]), np.array(["a", 2], object), np.array(["a", None], object)])
def test_texts_are_texts(ids):
    rows = dataclasses.replace(make_rows({"a": 1, "b": 1}, dim=3), ids=ids)
    with pytest.raises(SinkError, match="here takes ids of type string"):
        Shape("string", 3).check(rows, "here")


def test_what_is_there_is_compared():
    Shape("int64", 3).refuse("here", "int64:3")
    for there in ("int64:4", "string:3", ""):
        with pytest.raises(SinkError, match="write to another target, or delete these rows"):
            Shape("int64", 3).refuse("here", there)


def test_the_first_id_that_is_not_finite_is_named():
    rows = make_rows({"a": 1, "b": 1, "c": 1}, dim=3)
    check_finite(rows, "here", "why")
    rows.vectors[1:, 2] = np.inf
    with pytest.raises(SinkError, match="here: the vector of 'b' is not finite, and why"):
        check_finite(rows, "here", "why")
    check_finite(make_rows({}, dim=3), "here", "why")
