"""Dead letters of a message with many bad events: few rows are written, and no event is lost."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dygcn
from dygcn.engine.events import read_events
from dygcn.engine.events.wire import decode_events
from dygcn.errors import OptionError
from dygcn.live.durable import dead_letters
from dygcn.live.durable.dead_letters import chosen, parts_of
from dygcn.live.durable.source_batch import SourceBatch
from dygcn.live.durable.storage.dead_letters import ALONE, TOGETHER, DeadLetter, events_of, shared

NONE = read_events([], "int64")
MANY = 1_000
REASONS = st.sampled_from(
    ["t is 9; allowed is at most 8", "weight is 0; allowed is more", "é \ud800", "", "7; 8"]
)


@pytest.fixture
def live(tmp_path):
    with dygcn.open(tmp_path / "graph", dygcn.fit([(1, 2), (2, 3)], dim=4)) as live:
        yield live


def take_in(live, events, position=7):
    """Take in a message; return what became of it."""
    found = decode_events(json.dumps(events).encode(), "json", "int64")
    dead = tuple(DeadLetter("clicks", position, bad.row, bad.reason, bad.text) for bad in found.bad)
    [receipt] = live._ingest([SourceBatch(found.batch, "clicks", position, rows=found.rows, dead=dead)])
    return receipt


def replay(live, **wanted):
    found, missing = chosen(live._log, **wanted)
    receipts = live._ingest(parts_of(found, "int64", None))
    return sum(one.applied for one in receipts), sum(one.dead for one in receipts), missing


def kept(live):
    """Return the rows and reasons of all events that are kept, in the order of rows."""
    letters = [one for _, letter in live._log.dead_letters(10_000) for one in events_of(letter)]
    return sorted((one.row, one.reason) for one in letters)


@given(
    st.lists(st.tuples(st.integers(0, 2), REASONS, st.text(max_size=3)), max_size=12),
    st.integers(1, 100),
)
def test_every_event_keeps_its_message_row_reason_and_text(some, times):
    dead = [
        DeadLetter("s", position, row, reason, text)
        for row, (position, reason, text) in enumerate(some * times)
    ]
    dead.sort(key=lambda one: one.offset)
    found = shared(dead)
    again = [one for letter in found for one in events_of(letter)]
    assert sorted(map(_as_kept, again)) == sorted(map(_as_kept, dead))
    assert len({(one.stream, one.offset, one.row) for one in found}) == len(found)
    kinds = len({(d.offset, d.reason.partition(";")[2]) for d in dead})
    assert len(found) <= 3 * ALONE + kinds + len(dead) / TOGETHER


def _as_kept(letter):
    texts = (text.encode("utf-8", "replace").decode() for text in (letter.reason, letter.event))
    return letter.stream, letter.offset, letter.row, *texts


def test_long_events_share_less():
    dead = [DeadLetter("s", 0, row, "too long", "x" * 1_000) for row in range(300)]
    assert max(len(letter.event) for letter in shared(dead)) < 20_000


def test_a_message_of_bad_events_is_few_letters_and_counts_them_all(live):
    receipt = take_in(live, [{"src": row, "dst": 9, "weight": -1 - row} for row in range(MANY)])
    assert (receipt.applied, receipt.dead) == (0, MANY)
    assert live._log.count_dead_letters() == ALONE + (MANY - ALONE) // TOGETHER
    assert [row for row, _ in kept(live)] == list(range(MANY))
    assert kept(live)[-1][1].startswith("weight is -1000; allowed")


def test_what_shares_a_letter_is_replayed_and_what_is_still_bad_stays(live):
    """Events of two kinds of reasons: those of the graph go when it is mended."""
    take_in(
        live, [{"src": row, "dst": 9, "t": 5} if row % 2 else {"src": row, "dst": 9} for row in range(MANY)]
    )
    assert len(kept(live)) == MANY // 2  # those without a time, beside others
    assert replay(live, stream="clicks") == (MANY // 2, 0, [])
    assert live._log.count_dead_letters() == 0
    assert MANY - 2 in live
    take_in(live, [{"src": row, "dst": 9, "weight": -1} for row in range(MANY)], 8)
    assert replay(live, stream="clicks") == (0, MANY, [])
    assert [row for row, _ in kept(live)] == list(range(MANY))


def test_a_shared_letter_that_is_cut_to_its_first_event_would_be_noticed(live, monkeypatch):
    monkeypatch.setattr(dead_letters, "events_of", lambda letter: events_of(letter)[:1])
    with pytest.raises(AssertionError):
        test_what_shares_a_letter_is_replayed_and_what_is_still_bad_stays(live)


def test_a_shared_letter_is_mended_by_as_many_events(live):
    take_in(live, [{"src": 1.5, "dst": 10_000 + row} for row in range(200)])
    [(number, letter)] = [one for one in live._log.dead_letters(1_000) if one[1].row == ALONE]
    assert len(events_of(letter)) == 100
    for wrong in ({"src": 1, "dst": 2}, [{"src": 1, "dst": 2}] * 99, 7):
        with pytest.raises(OptionError, match=f"letter {number} holds 100 events"):
            chosen(live._log, corrected={number: json.dumps(wrong).encode()})
    events = [{"src": 1, "dst": 20_000 + row} for row in range(99)] + [{"src": "x", "dst": 3}]
    assert replay(live, corrected={number: json.dumps(events).encode()}) == (99, 1, [])
    assert kept(live)[-1] == (199, 'src is "x"; allowed are whole numbers within int64, never floats')
    assert replay(live, numbers=[number]) == (0, 0, [number])


def test_times_and_no_times_in_one_letter_are_replayed_in_turn(live):
    """One batch has times or has none: events with times go first, the others stay until asked again."""
    events = [{"src": row, "dst": 9, **({"t": 5} if row % 2 else {})} for row in range(300)]
    dead = tuple(DeadLetter("s", 1, row, "too heavy", json.dumps(one)) for row, one in enumerate(events))
    live._ingest([SourceBatch(NONE, "s", 1, dead=dead)])
    assert replay(live, stream="s") == (200, 100, [])  # the first hundred have letters of their own
    assert {reason[:12] for _, reason in kept(live)} == {"t is missing"}
    assert replay(live, stream="s")[:2] == (100, 0)
    assert live._log.count_dead_letters() == 0


def test_a_letter_that_only_looks_shared_is_itself():
    for letter in (
        DeadLetter("s", 0, 0, "2 events of one message, between rows 0 and 1; first: x", "no list"),
        DeadLetter("s", 0, 0, "7 is not an event", '[[0,"","{}"]]'),
    ):
        assert events_of(letter) == [letter]
