"""Rows as JSON: every number becomes the same float32 again, whoever reads it."""

import json

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as draw

from dygcn.engine.records import Rows
from dygcn.errors import SinkError
from dygcn.serving.sinks import json_rows
from dygcn.serving.sinks.json_rows import deleted_below_message, left_messages, row_messages, vector_texts
from dygcn.testing.sink_checks import EXTREME_IDS, ODD_IDS, ODD_NUMBERS
from dygcn.testing.sink_model import made_up_history, make_rows, replayed

FINITE = draw.integers(0, 2**32 - 1).filter(lambda bits: (bits >> 23) & 0xFF != 0xFF)


def from_bits(bits):
    return np.array(bits, np.uint32).view(np.float32).reshape(1, -1)


def assert_read_back(vectors):
    for text, vector in zip(vector_texts(vectors), vectors, strict=True):
        for read in (json.loads, msgspec.json.decode):
            numbers = read(b"[" + text + b"]")
            assert np.array(numbers, np.float64).astype(np.float32).tobytes() == vector.tobytes()
        directly = [np.float32(number) for number in text.decode().split(",")]
        assert np.array(directly, np.float32).tobytes() == vector.tobytes()


@settings(max_examples=300, deadline=None)
@given(draw.lists(FINITE, min_size=1, max_size=20))
def test_numbers_come_back_bit_for_bit(bits):
    assert_read_back(from_bits(bits))


def test_odd_numbers_come_back_bit_for_bit():
    assert_read_back(np.array([ODD_NUMBERS], np.float64).astype(np.float32))


@pytest.mark.parametrize("exponent", range(0, 255, 6))
def test_numbers_of_every_size_come_back_bit_for_bit(exponent):
    random = np.random.default_rng(exponent)
    for size in range(exponent, min(exponent + 6, 255)):
        bits = (size << 23) | random.integers(0, 2**23, 400, dtype=np.uint32)
        assert_read_back(from_bits(bits | random.integers(0, 2, 400, dtype=np.uint32) << 31))


def test_numbers_are_as_short_as_can_be():
    assert vector_texts(np.array([[0.1, 1 / 3, 2.0, 1e10]], np.float32)) == [b"0.1,0.33333334,2,1e+10"]


def test_zeros_keep_their_sign():
    assert vector_texts(np.array([[0.0, -0.0]], np.float32)) == [b"0,-0.0"]
    assert np.signbit(json.loads("-0.0"))
    assert json.loads("-0") == 0
    assert not np.signbit(json.loads("-0"))


def test_texts_that_are_too_short_are_not_used(monkeypatch):
    def rounded(numbers):
        return pa.array([f"{number:.3g}" for number in numbers.tolist()])

    monkeypatch.setattr(json_rows, "_shortest", rounded)
    assert_read_back(np.array([[0.1, 1 / 3, 1234567.0, -1e-45]], np.float32))


def test_rounded_numbers_would_be_noticed(monkeypatch):
    near = json_rows.vector_texts
    monkeypatch.setitem(globals(), "vector_texts", lambda vectors: near(vectors + np.float32(1e-3)))
    with pytest.raises(AssertionError):
        test_odd_numbers_come_back_bit_for_bit()


def test_any_memory_layout():
    wide = np.arange(24, dtype=np.float32).reshape(4, 6)
    expected = [b"0,2,4", b"6,8,10", b"12,14,16", b"18,20,22"]
    assert vector_texts(wide[:, ::2]) == expected
    assert vector_texts(np.asfortranarray(wide[:, ::2])) == expected
    assert vector_texts(np.zeros((0, 3), np.float32)) == []


def test_messages():
    last = 2**63 - 1
    rows = make_rows({'a\n"é\\': last}, left={"b\0": last}, dim=1, generation=last)
    rows.vectors[:] = 0.5
    history = (
        f'"generation":{last},"epoch":"{rows.history.epoch}","version":{last},"chain":"{rows.history.chain}"'
    )
    assert list(row_messages(rows, "here")) == [f'{{"id":"a\\n\\"é\\\\",{history},"vector":[0.5]}}'.encode()]
    assert left_messages(rows) == [f'{{"id":"b\\u0000",{history},"left":true}}'.encode()]
    assert deleted_below_message(12, rows.history) == f'{{"deleted_below":12,{history}}}'.encode()


@pytest.mark.parametrize("ids", [EXTREME_IDS, ODD_IDS])
def test_ids_come_back(ids):
    rows = make_rows(dict.fromkeys(ids, 1), left=dict.fromkeys(ids, 1), dim=2)
    for messages in (row_messages(rows, "here"), left_messages(rows)):
        assert tuple(json.loads(message)["id"] for message in messages) == ids


def test_more_rows_than_lie_in_memory_at_once(monkeypatch):
    monkeypatch.setattr(json_rows, "_AT_ONCE", 7)
    rows = make_rows(dict.fromkeys(range(50), 7), dim=3)
    held = replayed(row_messages(rows, "here"))
    assert [history for history, _ in held.values()] == [rows.history] * 50
    assert np.array([vector for _, vector in held.values()]).tobytes() == rows.vectors.tobytes()


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_what_json_cannot_say_is_refused_before_anything_is_said(number):
    rows = make_rows(dict.fromkeys(range(2000), 1), dim=2)
    rows.vectors[1999, 1] = number
    with pytest.raises(SinkError, match="here: the vector of 1999 is not finite, and JSON has no word"):
        next(row_messages(rows, "here"))


def test_no_rows():
    none = np.empty(0, np.int64)
    rows = Rows(none, np.zeros((0, 2), np.float32), none, none, none, made_up_history(1))
    assert list(row_messages(rows, "here")) == left_messages(rows) == []
