"""Log lines: one record, one line, in printable ASCII, whatever is in the values."""

import io
import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dygcn.errors import OptionError
from dygcn.serving.observing import logs
from dygcn.serving.observing.events import EVENTS, note
from dygcn_lab.testbed.seeding import seeded

HOSTILE = [
    "a\nb",
    "a\r\n2026-01-01T00:00:00Z error forged",
    "\x1b[2J",
    "\x7f",
    "\x9b31m",
    "\u2028",
    "\ud800",
    '"',
    "=",
]
VALUES = st.one_of(st.text(), st.sampled_from(HOSTILE), st.integers(), st.floats(), st.booleans(), st.none())


@pytest.fixture(autouse=True)
def _as_it_was():
    root, ours = logging.getLogger(), logging.getLogger("dygcn")
    before = root.level, ours.level, list(root.handlers)
    yield
    root.setLevel(before[0])
    ours.setLevel(before[1])
    root.handlers[:] = before[2]


def lines_of(form, level="info", **fields):
    written = io.StringIO()
    logs.configure(form, level, written)
    note("source.lost", **fields)
    return written.getvalue()


def check_one_line(value):
    for form in ("text", "json"):
        written = lines_of(form, source=value, after=1)
        assert written.endswith("\n")
        body = written[:-1]
        assert all(" " <= letter <= "~" for letter in body), body
        if form == "json":
            found = json.loads(body)
            assert found["event"] == "source.lost"
            assert found["after"] == 1
            if isinstance(value, str) and len(value) <= logs.LONGEST:
                assert found["source"] == value
        else:
            assert body.endswith(" after=1")


@given(VALUES)
def test_a_record_is_one_line_of_printable_ascii(value):
    check_one_line(value)


@pytest.mark.parametrize("value", HOSTILE[:6])
def test_a_value_that_is_not_escaped_would_be_noticed(value):
    with seeded(logs, "escaped", str), pytest.raises(AssertionError):
        check_one_line(value)


def test_a_long_value_has_an_end():
    assert len(lines_of("text", source="x" * 100_000)) < 2 * logs.LONGEST


def test_levels_hold_for_us_and_others_only_warn():
    written = io.StringIO()
    logs.configure("text", "warning", written)
    note("service.ready")
    note("source.lost", source="one")
    logging.getLogger("elsewhere").info("chatter")
    logging.getLogger("elsewhere").warning("careful\nforged")
    first, second, end = written.getvalue().split("\n")
    assert "source.lost source=one" in first
    assert '"careful\\nforged" logger=elsewhere' in second
    assert end == ""


def test_called_again_it_replaces_what_it_set():
    first, second = io.StringIO(), io.StringIO()
    logs.configure("text", "info", first)
    logs.configure("json", "info", second)
    note("service.ready")
    assert first.getvalue() == ""
    assert json.loads(second.getvalue())["event"] == "service.ready"


def test_a_traceback_is_part_of_its_line():
    written = io.StringIO()
    logs.configure("text", "info", written)
    try:
        raise ValueError("inner")
    except ValueError as error:
        note("request.failed", route="/status", exc_info=error)
    assert written.getvalue().count("\n") == 1
    assert "ValueError: inner" in written.getvalue()


@pytest.mark.parametrize(("form", "level"), [("xml", "info"), ("text", "loud")])
def test_wrong_options_are_named(form, level):
    with pytest.raises(OptionError, match="allowed is"):
        logs.configure(form, level)


def test_every_event_has_a_sentence():
    assert all(about and name.count(".") == 1 for name, (_, about) in EVENTS.items())
    with pytest.raises(KeyError):
        note("something.else")
