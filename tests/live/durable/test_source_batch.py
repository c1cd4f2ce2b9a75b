"""Parts of the way in: what is cut off, refused, grouped and named in a dead letter."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dygcn.engine.events import join_events, python_ids, read_events, rows_of
from dygcn.errors import OptionError
from dygcn.live.durable import source_batch as module
from dygcn.live.durable.source_batch import APPLIED, Receipt, SourceBatch, as_texts, groups, read_offset
from dygcn.live.durable.storage.dead_letters import DeadLetter

MANY = read_events([(n, n + 1) for n in range(10)])


def sources(part):
    return python_ids(part.batch.src).tolist()


def letter(row):
    return DeadLetter("http:a", 0, row, "bad", "{}")


# ---- what is allowed ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stream", "position"),
    [
        ("a", -1),
        ("", 0),
        ("", 2**70),
        ("a", 2**63),
        ("a", -2),
        ("a", 1.0),
        ("a", True),
        ("a", np.int64(3)),
        ("a", None),
        ("a\n", 1),
        ("a\x00", 1),
        ("\ud800", 1),
        ("x" * 201, 1),
        ("ü" * 101, 1),
    ],
)
def test_a_stream_or_position_that_cannot_be_kept(stream, position):
    with pytest.raises(OptionError):
        SourceBatch(MANY, stream, position).check()


@pytest.mark.parametrize(
    ("stream", "position"), [("", -1), ("a", 0), ("a", 2**63 - 1), ("x" * 200, 1), ("ü/ 3", 1)]
)
def test_a_stream_and_position_that_can(stream, position):
    SourceBatch(MANY, stream, position).check()


def test_whole_numbers():
    assert [type(read_offset(n)) for n in (3, np.int64(3), np.uint8(3))] == [int] * 3
    for wrong in (1.0, "1", None):
        with pytest.raises(OptionError, match="whole number"):
            read_offset(wrong)


# ---- without what was applied before -----------------------------------------------------------------


@settings(deadline=None)
@given(st.integers(0, 20), st.sets(st.integers(0, 9)), st.integers(0, 40))
def test_numbers_that_were_applied_are_left_out(first, bad, last):
    """Ten events, some of them bad: rows and numbers still belong together."""
    rows = np.array([row for row in range(10) if row not in bad], np.int64)
    dead = tuple(letter(row) for row in sorted(bad))
    part = SourceBatch(rows_of(MANY, rows), "http:a", first + 9, first, rows, dead)
    rest = part.after(last)
    assert sources(rest) == [row for row in rows.tolist() if first + row > last]
    assert rest.rows.tolist() == sources(rest)
    assert [one.row for one in rest.dead] == [row for row in sorted(bad) if first + row > last]
    assert rest.offset == part.offset


def test_a_part_without_numbers_is_left_whole():
    part = SourceBatch(MANY, "kafka:a/0", 9)
    assert part.after(5) is part


# ---- cutting -----------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.sets(st.integers(0, 9)), st.sampled_from([77, -1]), st.booleans())
def test_refused_events_become_letters_and_the_others_stay(gone, position, joined):
    rows, origins = np.arange(10) * 3, np.arange(10) + 100
    part = SourceBatch(
        MANY, "a", position, None, rows, (letter(1),), message=5, origins=origins if joined else None
    )
    kept = part.without({row: f"reason {row}" for row in sorted(gone)}, 99)
    assert sources(kept) == [row for row in range(10) if row not in gone]
    assert kept.rows is rows or kept.rows.tolist() == [3 * row for row in sources(kept)]
    places = [100 + row if joined else max(position, 5) for row in sorted(gone)]
    found = [(one.stream, one.offset, one.row, one.reason) for one in kept.dead[1:]]
    wanted = [("a", place, 3 * row, f"reason {row}") for place, row in zip(places, sorted(gone), strict=True)]
    assert found == wanted
    assert kept.dead[0] == letter(1)
    assert [json.loads(one.event)["src"] for one in kept.dead[1:]] == sorted(gone)
    assert (kept.offset, kept.stream, kept.message) == (position, "a", 5)
    if joined:
        assert kept.origins.tolist() == [100 + row for row in sources(kept)]


def test_a_dead_letter_without_a_message_has_the_sequence():
    refused = SourceBatch(rows_of(MANY, np.array([3]))).without({0: "too heavy"}, 5)
    assert (refused.dead[0].stream, refused.dead[0].offset, refused.dead[0].row) == ("", 5, 0)
    assert (len(refused.batch), len(refused.rows), refused.dead[0].reason) == (0, 0, "too heavy")


def test_pieces_are_the_whole_and_only_the_last_counts(monkeypatch):
    monkeypatch.setattr(module, "MOST_EVENTS", 4)
    part = SourceBatch(MANY, "a", 9, 0, now=3.0)
    chunks = list(part.chunks())
    assert [len(chunk.batch) for chunk in chunks] == [4, 4, 2]
    assert [chunk.offset for chunk in chunks] == [-1, -1, 9]
    assert {chunk.now for chunk in chunks} == {3.0}
    assert python_ids(join_events([p.batch for p in chunks]).src).tolist() == sources(part)
    for n in (0, 4):
        short = SourceBatch(rows_of(MANY, np.arange(n)), "a", 9)
        assert list(short.chunks()) == [short]
    assert [p.offset for p in SourceBatch(rows_of(MANY, np.arange(8)), "a", 9).chunks()] == [-1, 9]


@pytest.mark.parametrize(
    ("event", "text"),
    [
        ((1, 2), {"src": 1, "dst": 2, "op": 1}),
        (("ä", "b", 3, -1), {"src": "ä", "dst": "b", "op": -1, "t": 3}),
        ((1, 2, 0.5, 1, 1e30), {"src": 1, "dst": 2, "op": 1, "t": 0.5, "weight": 1e30}),
    ],
)
def test_an_event_as_text(event, text):
    assert [json.loads(one) for one in as_texts(read_events([event, event]), np.array([1]))] == [text]


# ---- grouping ----------------------------------------------------------------------------------------


KINDS = {
    "plain": SourceBatch(read_events([(1, 2)])),
    "dated": SourceBatch(read_events([(1, 2, 3, 1)])),
    "strings": SourceBatch(read_events([("a", "b")])),
    "empty": SourceBatch(read_events([])),
    "now": SourceBatch(read_events([(1, 2)]), now=3.0),
    "empty now": SourceBatch(read_events([]), now=3.0),
}


def grouped(*names):
    fresh = [(KINDS[name], Receipt(APPLIED)) for name in names]
    found = list(groups(fresh))
    assert [one for group in found for one in group] == fresh
    return [len(group) for group in found]


def test_parts_that_are_alike_are_one_group():
    assert grouped() == []
    assert grouped("plain", "plain", "empty", "plain") == [4]
    assert grouped("dated", "dated") == [2]
    assert grouped("empty", "empty", "dated", "empty") == [4]


def test_parts_that_are_not_are_several():
    assert grouped("plain", "dated", "dated", "plain") == [1, 2, 1]
    assert grouped("plain", "strings", "plain") == [1, 1, 1]
    assert grouped("plain", "now", "plain") == [1, 1, 1]
    assert grouped("now", "now") == [1, 1]
    assert grouped("plain", "empty", "dated") == [2, 1]
    assert grouped("empty now", "plain") == [1, 1]


@settings(deadline=None)
@given(st.lists(st.sampled_from(sorted(KINDS)), max_size=12))
def test_every_group_is_one_batch(names):
    fresh = [(KINDS[name], Receipt(APPLIED)) for name in names]
    found = list(groups(fresh))
    assert [one for group in found for one in group] == fresh
    for group in found:
        join_events([part.batch for part, _ in group])
        assert len(group) == 1 or all(part.now is None for part, _ in group)
