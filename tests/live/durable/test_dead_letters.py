"""A dead letter that is replayed goes in the transaction that logs its event: never lost, never doubled."""

import sqlite3

import numpy as np
import pytest

import dygcn
from dygcn.engine.events import read_events
from dygcn.errors import WriteFailed
from dygcn.live.durable.source_batch import SourceBatch
from dygcn.live.durable.storage.dead_letters import DeadLetter
from dygcn.live.durable.storage.log import EventLog

LETTERS = tuple(DeadLetter("clicks", 7, row, "too late", f'{{"src":{row},"dst":9}}') for row in range(3))
NONE = read_events([], "int64")


class Cut(BaseException):
    """The power is gone."""


@pytest.fixture
def reopen(tmp_path):
    """Open a folder with three dead letters, again and again; the one before is left as a crash leaves it."""
    model = dygcn.fit([(1, 2), (2, 3)], dim=4)
    opened = [dygcn.open(tmp_path / "graph", model)]
    opened[0]._ingest([SourceBatch(NONE, "clicks", 7, dead=LETTERS)])

    def again():
        opened.pop().close()
        opened.append(dygcn.open(tmp_path / "graph"))
        return opened[-1]

    yield again
    opened.pop().close()


def replay(letters, events):
    """Return a part that replays letters; the event of each, None: it cannot be read."""
    good = [row for row, event in enumerate(events) if event is not None]
    batch = read_events([events[row] for row in good], "int64")
    dead = tuple(
        DeadLetter(one.stream, one.offset, one.row, "still bad", one.event)
        for (_, one), event in zip(letters, events, strict=True)
        if event is None
    )
    return SourceBatch(batch, rows=np.array(good, np.int64), dead=dead, replayed=tuple(letters))


def numbers(live):
    return [number for number, _ in live._log.letters(range(100))]


def test_a_letter_goes_with_its_event_and_one_that_is_bad_stays(reopen):
    live = reopen()
    letters = live._log.letters(range(100))
    [receipt] = live._ingest([replay(letters, [(0, 9), None, (2, 9)])])
    assert (receipt.applied, receipt.dead) == (2, 1)
    assert {0, 2, 9} <= set(live.ids().tolist())
    [(number, left)] = live._log.letters(range(100))
    assert (left.stream, left.offset, left.row, left.reason) == ("clicks", 7, 1, "still bad")
    assert number > max(one for one, _ in letters)  # a number never names another letter
    live = reopen()
    assert {0, 2, 9} <= set(live.ids().tolist())
    assert len(numbers(live)) == 1


def test_what_the_graph_refuses_stays_with_its_name_and_new_reason(reopen):
    live = reopen()
    letters = live._log.letters(range(100))
    part = replay(letters, [(0, 9), (1, 9), (2, 9)])
    [one] = part.without({1: "too heavy"}, 5).dead
    assert (one.stream, one.offset, one.row, one.reason) == ("clicks", 7, 1, "too heavy")


def test_two_replays_of_one_letter_apply_it_once(reopen):
    live = reopen()
    letters = live._log.letters(range(100))
    first, second = replay(letters[:2], [(0, 9), (1, 9)]), replay(letters[1:], [(1, 8), (2, 9)])
    receipts = live._ingest([first, second])
    assert [one.applied for one in receipts] == [2, 1]
    assert 8 not in live
    [late] = live._ingest([first])
    assert late.applied == 0
    assert numbers(live) == []


def test_a_letter_that_is_replayed_twice_would_be_noticed(reopen, monkeypatch):
    monkeypatch.setattr(SourceBatch, "of_letters", lambda self, left: self)
    with pytest.raises(AssertionError):
        test_two_replays_of_one_letter_apply_it_once(reopen)


class Dying:
    """A connection that dies at a statement."""

    def __init__(self, real, at):
        self._real, self._at = real, at

    def execute(self, statement, *values):
        if statement == self._at:
            raise sqlite3.OperationalError("the power is gone")
        return self._real.execute(statement, *values)

    def __getattr__(self, name):
        return getattr(self._real, name)


def test_a_crash_before_the_commit_loses_no_letter(reopen):
    live = reopen()
    letters = live._log.letters(range(100))
    live._log._db = Dying(live._log._db, "COMMIT")
    with pytest.raises(WriteFailed):
        live._ingest([replay(letters, [(0, 9), (1, 9), (2, 9)])])
    live = reopen()
    assert (9 in live, numbers(live)) == (False, [number for number, _ in letters])
    assert live._ingest([replay(letters, [(0, 9), (1, 9), (2, 9)])])[0].applied == 3
    assert (9 in live, numbers(live)) == (True, [])


def test_a_crash_behind_the_commit_doubles_no_letter(reopen, monkeypatch):
    live = reopen()
    letters = live._log.letters(range(100))

    def cut(*_):
        raise Cut

    monkeypatch.setattr(live._live, "_apply", cut)
    with pytest.raises(Cut):
        live._ingest([replay(letters, [(0, 9), (1, 9), (2, 9)])])
    live = reopen()
    assert (9 in live, numbers(live)) == (True, [])


def test_a_letter_that_goes_on_its_own_would_be_noticed(reopen, monkeypatch):
    append = EventLog.append

    def two_steps(self, entries, batch_id, dead=(), settled=()):
        if settled:
            real = self._db
            self._db = getattr(real, "_real", real)
            self.discard(settled)
            self._db = real
        return append(self, entries, batch_id, dead)

    monkeypatch.setattr(EventLog, "append", two_steps)
    with pytest.raises(AssertionError):
        test_a_crash_before_the_commit_loses_no_letter(reopen)


def test_letters_that_stay_behind_would_be_noticed(reopen, monkeypatch):
    append = EventLog.append
    monkeypatch.setattr(EventLog, "append", lambda self, e, b, dead=(), settled=(): append(self, e, b, dead))
    with pytest.raises(AssertionError):
        test_a_crash_behind_the_commit_doubles_no_letter(reopen, monkeypatch)
