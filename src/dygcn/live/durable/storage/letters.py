"""Dead letters in the file of the log: written, listed, and taken away when replayed or discarded."""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

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
    """An event that could not be applied, and why."""

    stream: str
    position: int
    row: int  # inside its message, -1: the message itself
    reason: str
    event: str
    received: float = 0.0


def bury(db: sqlite3.Connection, dead: Sequence[DeadLetter]) -> None:
    """Write letters, inside a transaction; one of the same message and row is there already, and stays."""
    now = time.time()
    rows = []
    for d in dead:
        letter = _text(d.stream), d.position, d.row, _text(d.reason), _text(d.event), now
        rows.append((*letter, letter_sum(letter)))
    db.executemany(
        "INSERT INTO dead_letters (id, stream, position, row, reason, event, received, checksum) "
        f"VALUES ({_HIGHEST} + 1, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        rows,
    )
    db.execute(
        "DELETE FROM dead_letters WHERE id <= (SELECT max(id) FROM dead_letters) - ?", (MOST_DEAD_LETTERS,)
    )


def settle(db: sqlite3.Connection, numbers: Sequence[int]) -> None:
    """Take letters away, inside a transaction."""
    db.execute(f"INSERT OR REPLACE INTO about SELECT 'letters', {_HIGHEST}")
    db.executemany("DELETE FROM dead_letters WHERE id = ?", [(number,) for number in numbers])


def newest(
    db: sqlite3.Connection, limit: int, before: int | None, stream: str | None, reason: str | None
) -> list[Any]:
    """Return rows of letters, newest first: of a stream, or whose reason has some words in it."""
    bound = (1 << 63) - 1 if before is None else before
    return db.execute(
        f"SELECT {_FIELDS} FROM dead_letters WHERE id < ? AND (? IS NULL OR stream = ?) "
        "AND (? IS NULL OR instr(reason, ?) > 0) ORDER BY id DESC LIMIT ?",
        (bound, stream, stream, reason, reason, limit),
    ).fetchall()


def named(db: sqlite3.Connection, numbers: Collection[int]) -> list[Any]:
    """Return the rows of letters by their numbers, in order; a number without a letter has none."""
    found, wanted = [], sorted(set(numbers))
    for start in range(0, len(wanted), _AT_ONCE):
        some = wanted[start : start + _AT_ONCE]
        marks = ", ".join("?" * len(some))
        found += db.execute(
            f"SELECT {_FIELDS} FROM dead_letters WHERE id IN ({marks}) ORDER BY id", some
        ).fetchall()
    return found


def letter_sum(letter: tuple[object, ...]) -> bytes:
    """Return the checksum of the fields of a letter, in the order of `DeadLetter`."""
    return hashlib.blake2b(repr(letter).encode("utf-8", "replace"), digest_size=8).digest()


def _text(text: str) -> str:
    """Return a text that can be kept: half a surrogate pair cannot."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
