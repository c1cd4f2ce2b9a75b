"""A service that answers nonsense, or about somebody else: always one error, by name."""

import asyncio

import httpx
import msgspec
import numpy as np
import pyarrow as pa
import pytest

from dygcn.client import AsyncClient, Client
from dygcn.errors import ServiceError
from dygcn.schema import answers
from dygcn.serving.service.web import arrow_answer

NONSENSE = {
    "nothing": b"",
    "text": b"<html>",
    "a number too large": b'{"sequence":0,"id":"a","vector":[1e999]}',
    "another shape": b'{"sequence":0,"id":"a","vector":{"x":[1]}}',
    "a matrix": b'{"sequence":0,"id":"a","vector":[[1.0]]}',
    "ragged": b'{"sequence":0,"id":"a","vector":[[1.0],2]}',
    "deep": b'{"sequence":0,"id":"a","vector":' + b"[" * 100_000,
    "not UTF-8": b'{"sequence":0,"id":"\xff","vector":[1.0]}',
    "cut": b'{"sequence":0,"id":"a","vec',
}
CALLS = {
    "vector": ("a",),
    "vectors": (["a"],),
    "nearest": ("a",),
    "nearest vector": ([1.0],),
    "nearest ids": (["a"],),
    "recommend": ("a",),
    "score": ("a", "b"),
    "neighbors": ("a",),
    "explain": ("a",),
    "explain_change": ("a", [("a", "b")]),
    "what_if": ([("a", "b")],),
    "update": ([("a", "b")],),
    "page": (),
    "status": (),
    "dead_letters": (),
    "replay": ([1],),
    "discard": ([1],),
}


def answering(body, status=200):
    return httpx.MockTransport(lambda request: httpx.Response(status, content=body))


def ask(name, args, body, status=200):
    with Client("http://h", transport=answering(body, status), timeout=0.2) as client:
        return getattr(client, name.split()[0])(*args)


@pytest.mark.parametrize("name", CALLS)
def test_nonsense_is_one_error(name):
    for body in NONSENSE.values():
        with pytest.raises(ServiceError, match="cannot be used"):
            ask(name, CALLS[name], body)


def test_the_other_client_raises_the_same():
    async def ask_it():
        async with AsyncClient("http://h", transport=answering(NONSENSE["deep"])) as client:
            await client.vector("a")

    with pytest.raises(ServiceError, match="cannot be used"):
        asyncio.run(ask_it())


def test_a_refusal_that_cannot_be_read_is_one_error():
    for body in NONSENSE.values():
        with pytest.raises(ServiceError, match="400"):
            ask("vector", ("a",), body, 400)


SHARES = {"squared_length": 1.0, "own": 1.0, "rounding": 0.0, "degree": 1, "neighbors": [], "others": 0.0}
ABOUT = {
    "vector": {"vector": [1.0]},
    "recommend": {"score_kind": "cosine", "nodes": [], "missing": []},
    "neighbors": {"degree": 0, "neighbors": []},
    "explain": SHARES,
    "explain_change": {"distance": 1.0, "waiting": {"distance": 1.0, "share": 1.0}, "events": []},
}


@pytest.mark.parametrize("name", ABOUT)
def test_an_answer_about_another_node_is_refused(name):
    def body(id):
        return msgspec.json.encode({"sequence": 0, "id": id, **ABOUT[name]})

    rest = CALLS[name][1:]
    for asked, other in (("a", "b"), (1, 2), ("../status", "a"), ("7", "07"), ("a", 7)):
        with pytest.raises(ServiceError, match="was asked for"):
            ask(name, (asked, *rest), body(other))
    for asked, same in (("a", "a"), (1, 1), ("7", 7), ("007", 7), (7, "7"), (np.int64(7), 7)):
        assert ask(name, (asked, *rest), body(same)).id == same


def test_answers_about_many_have_nobody_else():
    def near(id):
        found = {"sequence": 0, "score_kind": "cosine", "of": [{"id": id, "nodes": []}], "missing": []}
        return msgspec.json.encode(found)

    assert ask("nearest", (np.array([1, 2]),), near(2)).of[0].id == 2
    with pytest.raises(ServiceError, match="was not asked for"):
        ask("nearest", ([1, 2],), near(3))
    rows = arrow_answer({"id": pa.array(["a", "b"])}, np.ones((2, 3), np.float32), 5).body
    assert ask("vectors", (["b", "a", "c"],), rows).missing == ["c"]
    with pytest.raises(ServiceError, match="'b', which was not asked for"):
        ask("vectors", (["a", "c"],), rows)
    scores = b'{"sequence":0,"score_kind":"log-odds","scores":[1.0,2.0]}'
    assert ask("score", ("a", ["b", "b"]), scores).scores.tolist() == [1.0, 2.0]
    with pytest.raises(ServiceError, match="2 scores for 1 pairs"):
        ask("score", ("a", "b"), scores)


def stream(**columns):
    table = pa.table(columns).replace_schema_metadata({"sequence": "1"})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    "columns",
    [
        {"id": ["a"]},
        {"id": ["a"], "vector": [1.0]},
        {"id": ["a"], "vector": [[1.0]]},
        {"id": [["a"]], "vector": pa.FixedSizeListArray.from_arrays(pa.array([1.0]), 1)},
        {"id": ["a"], "vector": pa.FixedSizeListArray.from_arrays(pa.array(["x"]), 1)},
    ],
)
def test_other_columns_are_one_error(columns):
    with pytest.raises(ServiceError, match="cannot be used"):
        ask("vectors", (["a"],), stream(**columns))


def test_a_body_that_was_changed_anywhere_is_one_error_or_an_answer():
    rows = arrow_answer({"id": pa.array(["a", "b"])}, np.ones((2, 3), np.float32), 5).body
    random = np.random.default_rng(0)
    for _ in range(300):
        body = bytearray(rows)
        for at in random.integers(0, len(body), 3):
            body[at] = random.integers(256)
        try:
            found = ask("vectors", (["a", "b"],), bytes(body[: random.integers(1, len(body) + 1)]))
        except ServiceError:
            continue
        assert isinstance(found, answers.ManyVectors)
