"""Numbers that are slow to read are few for the length of a message, or their rows are refused unread."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dygcn.engine.events import wire
from dygcn.engine.events.wire import decode_events
from dygcn.engine.events.wire_numbers import BYTES_A_NUMBER, FEW, count_long_exponents, reads_slowly


def counted(text):
    return count_long_exponents(np.frombuffer(text.encode(), np.uint8)) if text else 0


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("1e300", 1),
        ("[1E+300,-2.5e-310,1e99,1e-99,12e+07]", 2),
        ("1e0300", 1),
        ('["1e300", "\\"1e300", "\\\\", 1e300]', 1),
        ('"1e300', 0),
        ("[true, false, 1e]", 0),
        ("1e12345678", 1),
        ("1e3001e300", 2),
        ('{"e300":1e299}', 1),
        ("e", 0),
        ("1e+", 0),
    ],
)
def test_exponents_of_numbers_are_counted_and_those_of_strings_are_not(text, count):
    assert counted(text) == count


NUMBERS = st.sampled_from(["1e300", "1.5e-310", "1e99", "7", "0.25", "-3E+100"])
VALUES = st.recursive(
    st.one_of(NUMBERS, st.text(max_size=8).map(json.dumps), st.text('e"\\1', max_size=8).map(json.dumps)),
    lambda inner: st.lists(inner, max_size=5).map(lambda parts: "[" + ", ".join(parts) + "]"),
)


@settings(max_examples=300, deadline=None)
@given(VALUES)
def test_the_count_is_that_of_a_real_parser(text):
    found = []
    json.loads(text, parse_float=lambda number: found.append(number) or 0.0)
    slow = [one for one in found if len(one.lower().partition("e")[2].lstrip("+-")) >= 3]
    assert counted(text) == len(slow)


def body_of(count, weight, form="json"):
    rows = [f'{{"src": {n}, "dst": {n + 1}, "weight": {weight}}}' for n in range(count)]
    return ("\n".join(rows) if form == "ndjson" else f"[{', '.join(rows)}]").encode()


@pytest.mark.parametrize("form", ["json", "ndjson"])
def test_few_such_numbers_are_read_and_many_are_refused_row_by_row(form):
    few = decode_events(body_of(FEW, "1e300", form), form, "int64")
    assert (len(few.batch), few.bad) == (FEW, ())
    many = decode_events(body_of(100, "1e300", form), form, "int64")
    assert (len(many.batch), len(many.bad)) == (0, 100)
    assert all("exponent" in one.reason and "1e300" in one.text for one in many.bad)
    mixed = body_of(100, "1e300", form).replace(b'"dst": 8, "weight": 1e300', b'"dst": 8, "weight": 2.5')
    found = decode_events(mixed, form, "int64")
    assert (found.rows.tolist(), found.batch.weight.tolist(), len(found.bad)) == ([7], [2.5], 99)


def test_a_long_message_may_have_more_of_them():
    padded = b"[" + b" " * BYTES_A_NUMBER * 84 + body_of(100, "1e300")[1:]
    assert len(decode_events(padded, "json", "int64").batch) == 100


def test_ids_that_look_like_exponents_are_no_numbers():
    rows = [{"src": f"9f3e{n:04d}ab", "dst": f"1e{n:04d}"} for n in range(100)]
    found = decode_events(json.dumps(rows).encode(), "json", "string")
    assert (len(found.batch), found.bad) == (100, ())


@pytest.mark.parametrize("form", ["json", "ndjson"])
def test_no_row_with_such_a_number_reaches_the_decoder_of_numbers(monkeypatch, form):
    """Counted, not timed: the decoder sees rows that are quick to read."""
    seen = []

    class Watched:
        def __init__(self, whole):
            self._whole = whole

        def decode(self, body):
            seen.append(counted(body.decode()))
            return self._whole.decode(body)

    for table in (wire._EVENTS, wire._LISTS):
        monkeypatch.setitem(table, "int64", Watched(table["int64"]))
    decode_events(body_of(5000, "1e300", form), form, "int64")
    hidden = b'[{"src": 1, "dst": "x", "more": [' + b"1e300," * 5000 + b"1]}]"
    assert len(decode_events(hidden, form, "int64").bad) == 1
    assert sum(seen) == 0


def test_a_decoder_that_is_handed_everything_would_be_noticed(monkeypatch):
    monkeypatch.setattr(wire, "reads_slowly", lambda body: False)
    with pytest.raises(AssertionError):
        test_no_row_with_such_a_number_reaches_the_decoder_of_numbers(monkeypatch, "json")


def test_short_bodies_are_not_looked_at():
    assert not reads_slowly(b"1e300," * 13)
