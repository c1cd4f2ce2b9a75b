"""Vectors as JSON: every number becomes the same float32 again, and none is longer than needed."""

import json

import msgspec
import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as draw

from dygcn.serving import json_text
from dygcn.serving.json_text import encode, vector_text
from dygcn.testing.sink_checks import ODD_NUMBERS

FINITE = draw.integers(0, 2**32 - 1).filter(lambda bits: (bits >> 23) & 0xFF != 0xFF)
SUBNORMAL = draw.integers(0, 2**23 - 1)
ROUNDED_TWICE = 0x15AE43FD


def from_bits(bits):
    return np.array(bits, np.uint32).view(np.float32)


def assert_read_back(vector):
    text = vector_text(vector)
    for read in (json.loads, msgspec.json.decode, orjson.loads):
        assert np.array(read(text), np.float64).astype(np.float32).tobytes() == vector.tobytes()
    directly = [np.float32(number) for number in text.decode()[1:-1].split(",")]
    assert np.array(directly, np.float32).tobytes() == vector.tobytes()


@settings(max_examples=300, deadline=None)
@given(draw.lists(FINITE | SUBNORMAL, min_size=1, max_size=20))
def test_numbers_come_back_bit_for_bit(bits):
    assert_read_back(from_bits(bits))


@settings(max_examples=300, deadline=None)
@given(FINITE | SUBNORMAL)
def test_no_text_with_fewer_digits_would_do(bits):
    number = from_bits([bits])[0]
    mantissa = json.loads(vector_text(from_bits([bits])))[0]
    digits = len(f"{mantissa!r}".lower().partition("e")[0].replace("-", "").replace(".", "").strip("0"))
    if digits > 1 and bits & 0x7FFFFFFF != ROUNDED_TWICE:
        assert np.float32(f"{number:.{digits - 2}e}") != number


def test_odd_numbers_come_back_bit_for_bit():
    assert_read_back(np.array(ODD_NUMBERS, np.float64).astype(np.float32))


@pytest.mark.parametrize("exponent", range(0, 255, 6))
def test_numbers_of_every_size_come_back_bit_for_bit(exponent):
    random = np.random.default_rng(exponent)
    for size in range(exponent, min(exponent + 6, 255)):
        bits = (size << 23) | random.integers(0, 2**23, 400, dtype=np.uint32)
        assert_read_back(from_bits(bits | random.integers(0, 2, 400, dtype=np.uint32) << 31))


def test_the_number_that_would_be_rounded_twice_comes_back():
    assert_read_back(from_bits([ROUNDED_TWICE, ROUNDED_TWICE | 1 << 31]))


def test_that_it_is_not_looked_for_would_be_noticed(monkeypatch):
    monkeypatch.setattr(json_text, "_ROUNDED_TWICE", b"never")
    with pytest.raises(AssertionError):
        test_the_number_that_would_be_rounded_twice_comes_back()


def test_rounded_numbers_would_be_noticed(monkeypatch):
    near = vector_text
    monkeypatch.setitem(globals(), "vector_text", lambda vector: near(vector + np.float32(1e-3)))
    with pytest.raises(AssertionError):
        test_odd_numbers_come_back_bit_for_bit()


def test_numbers_are_short():
    assert vector_text(np.array([0.1, 1 / 3, 2.0], np.float32)) == b"[0.1,0.33333334,2.0]"


def test_zeros_keep_their_sign():
    assert vector_text(np.array([0.0, -0.0], np.float32)) == b"[0.0,-0.0]"


def test_any_memory_layout():
    wide = np.arange(12, dtype=np.float32).reshape(2, 6)
    expected = b"[[0.0,2.0,4.0],[6.0,8.0,10.0]]"
    assert vector_text(wide[:, ::2]) == vector_text(np.asfortranarray(wide[:, ::2])) == expected
    assert vector_text(np.zeros((0, 3), np.float32)) == b"[]"


def test_ids_that_look_like_that_number_stay_as_they_are():
    found = encode({"id": "7.038531e-26", "vector": from_bits([ROUNDED_TWICE])})
    assert found == b'{"id":"7.038531e-26","vector":[7.0385307e-26]}'


def test_only_vectors_and_scores_have_json():
    assert encode(np.array([0.5, np.nan])) == b"[0.5,null]"
    for array in (np.zeros(2, np.int64), np.zeros(2, np.float16)):
        with pytest.raises(NotImplementedError, match="ndarray has no JSON"):
            encode(array)
