"""Dead letters in the file of the log: written, listed, and deleted when replayed or discarded.

Beyond a hundred bad events of a message, events share letters: a letter costs ten times an ordinary event.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Any

import msgspec

ALONE, TOGETHER = 100, 100  # events of a message with a letter each; events that share one
_LONGEST = 16 << 10  # characters of the events that share one
_SHARED = re.compile(r"\d+ events of one message, ")
_EVENTS = msgspec.json.Decoder(list[tuple[int, str | None, str]])  # row, another reason, event
MOST_DEAD_LETTERS = 100_000
_AT_ONCE = 500  # numbers in one statement
_FIELDS = "id, checksum, stream, position, row, reason, event, received"
# The highest number that there ever was: a number that was taken away must never name another letter.
_HIGHEST = (
    "max(coalesce((SELECT max(id) FROM dead_letters), 0), "
    "coalesce((SELECT value FROM about WHERE name = 'letters'), 0))"
)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An event that could not be applied, and the reason; or several of one message, see `events_of`."""

    stream: str
    offset: int
    row: int  # inside its message, -1: the message itself
    reason: str
    event: str
    received: float = 0.0


def bury(db: sqlite3.Connection, dead: Sequence[DeadLetter]) -> None:
    """Insert dead letters, inside a transaction; one of the same message and row stays as it is."""
    now = time.time()
    rows = []
    for d in shared(dead):
        letter = _text(d.stream), d.offset, d.row, _text(d.reason), _text(d.event), now
        rows.append((*letter, letter_sum(letter)))
    db.executemany(
        "INSERT INTO dead_letters (id, stream, position, row, reason, event, received, checksum) "
        f"VALUES ({_HIGHEST} + 1, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        rows,
    )
    db.execute(
        "DELETE FROM dead_letters WHERE id <= (SELECT max(id) FROM dead_letters) - ?", (MOST_DEAD_LETTERS,)
    )


def shared(dead: Sequence[DeadLetter]) -> list[DeadLetter]:
    """Return the dead letters to write: events of one message with similar reasons share one."""
    found: list[DeadLetter] = []
    for _, run in groupby(dead, attrgetter("stream", "offset")):
        letters = list(run)
        found += letters[:ALONE]
        kinds: dict[str, list[DeadLetter]] = {}
        for letter in letters[ALONE:]:
            kinds.setdefault(letter.reason.partition(";")[2], []).append(letter)
        for alike in kinds.values():
            for start in range(0, len(alike), TOGETHER):
                found += _joined(alike[start : start + TOGETHER])
    return found


def _joined(letters: list[DeadLetter]) -> list[DeadLetter]:
    """Return one dead letter for several events of a message, or more if one would be too long."""
    half, first, last = len(letters) // 2, letters[0], letters[-1]
    if half == 0:
        return letters
    if sum(len(one.event) for one in letters) > _LONGEST:
        return [*_joined(letters[:half]), *_joined(letters[half:])]
    rows = f"between rows {first.row} and {last.row}"
    reason = f"{len(letters)} events of one message, {rows}; first: {first.reason}"
    alike = [None if one.reason == first.reason else _text(one.reason) for one in letters]
    events = zip((one.row for one in letters), alike, (_text(one.event) for one in letters), strict=True)
    return [replace(first, reason=reason, event=_text(msgspec.json.encode(list(events)).decode()))]


def events_of(letter: DeadLetter) -> list[DeadLetter]:
    """Return a dead letter for each event in one, with its own row and reason; usually just itself."""
    if _SHARED.match(letter.reason) is None:
        return [letter]
    try:
        events = _EVENTS.decode(letter.event)
    except msgspec.DecodeError:
        return [letter]
    first = letter.reason.partition("; first: ")[2]
    return [
        replace(letter, row=row, reason=first if why is None else why, event=event)
        for row, why, event in events
    ]


def without_dropped(
    letters: Sequence[tuple[int, DeadLetter]], drop: Callable[[DeadLetter], bool]
) -> tuple[list[int], list[DeadLetter]]:
    """Return the numbers of dead letters to delete, and new ones for their events that stay."""
    gone: list[int] = []
    left: list[DeadLetter] = []
    for number, letter in letters:
        events = events_of(letter)
        kept = [one for one in events if not drop(one)]
        if len(kept) < len(events):
            gone.append(number)
            left += kept
    return gone, left


def settle(db: sqlite3.Connection, numbers: Sequence[int]) -> None:
    """Delete dead letters, inside a transaction."""
    db.execute(f"INSERT OR REPLACE INTO about SELECT 'letters', {_HIGHEST}")
    db.executemany("DELETE FROM dead_letters WHERE id = ?", [(number,) for number in numbers])


def newest(
    db: sqlite3.Connection, limit: int, before: int | None, stream: str | None, reason: str | None
) -> list[Any]:
    """Return rows of dead letters, newest first, of a stream or with some words in the reason."""
    bound = (1 << 63) - 1 if before is None else before
    return db.execute(
        f"SELECT {_FIELDS} FROM dead_letters WHERE id < ? AND (? IS NULL OR stream = ?) "
        "AND (? IS NULL OR instr(reason, ?) > 0) ORDER BY id DESC LIMIT ?",
        (bound, stream, stream, reason, reason, limit),
    ).fetchall()


def named(db: sqlite3.Connection, numbers: Collection[int]) -> list[Any]:
    """Return the rows of dead letters by number, in order; unknown numbers are left out."""
    found, wanted = [], sorted(set(numbers))
    for start in range(0, len(wanted), _AT_ONCE):
        some = wanted[start : start + _AT_ONCE]
        marks = ", ".join("?" * len(some))
        found += db.execute(
            f"SELECT {_FIELDS} FROM dead_letters WHERE id IN ({marks}) ORDER BY id", some
        ).fetchall()
    return found


def letter_sum(letter: tuple[object, ...]) -> bytes:
    """Return the checksum of the fields of a dead letter, in the order of `DeadLetter`."""
    return hashlib.blake2b(repr(letter).encode("utf-8", "replace"), digest_size=8).digest()


def _text(text: str) -> str:
    """Return a text without lone surrogates, which SQLite cannot store."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
