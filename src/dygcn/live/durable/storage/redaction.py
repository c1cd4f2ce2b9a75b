"""Entries of the log whose events of forgotten ids were taken out; sequence and chain value stay.

Cursors and sinks name chain values, so these must not change. The body of a redacted entry begins with a mark
and a checksum of its own, over the chain value that stays and the events that are left.
"""

from __future__ import annotations

import hashlib
import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from dygcn.errors import StorageError
from dygcn.live.durable.storage.letters import DeadLetter, events_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from dygcn.live.durable.storage.tables import Entry

_MARK = hashlib.blake2b(b"a redacted entry of dygcn", digest_size=16).digest()
_NUMBER = re.compile("-?[0-9]{1,18}")
_HEAD = 2 * len(_MARK)
_PATIENCE, _BETWEEN = 10.0, 0.05  # seconds that readers in other processes are waited for


def redacted(chain: bytes, seq: int, body: bytes) -> bytes:
    """Return the body of a redacted entry, which holds what is left of the original one.

    Examples
    --------
    >>> clear_body(redacted(b"chain value", 7, b"events"))
    b'events'
    """
    return _MARK + _checksum(chain, seq, body) + body


def clear_body(body: bytes) -> bytes:
    """Return the body of an entry without the mark of a redaction, if it has one."""
    return body[_HEAD:] if body.startswith(_MARK) else body


def is_redacted(entry: Entry) -> bool:
    """Say whether an entry was redacted, and is what was written then."""
    if not isinstance(entry.body, bytes) or not entry.body.startswith(_MARK):
        return False
    return entry.body[:_HEAD] == _MARK + _checksum(entry.chain, entry.seq, entry.body[_HEAD:])


def _checksum(chain: bytes, seq: int, body: bytes) -> bytes:
    return hashlib.blake2b(
        chain + str(seq).encode() + body, digest_size=16, person=b"dygcn redacted"
    ).digest()


def names_any(letter: DeadLetter, ids: Callable[[list[int | str]], bool]) -> bool:
    """Say whether a dead letter names one of some ids: as a value of its event, or anywhere as a word.

    Parameters
    ----------
    ids
        Says whether any of these values is one of the ids.
    """
    words = {*_words(letter.event), *_words(letter.reason)}
    values: list[int | str] = [*words, *(int(word) for word in words if _NUMBER.fullmatch(word))]
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        values += _values(msgspec.json.decode(letter.event))
    return ids(values)


def without_dropped(
    letters: Sequence[tuple[int, DeadLetter]], drop: Callable[[DeadLetter], bool]
) -> tuple[list[int], list[DeadLetter]]:
    """Return the numbers of dead letters that go, and letters for what is left of those with many events."""
    gone: list[int] = []
    left: list[DeadLetter] = []
    for number, letter in letters:
        events = events_of(letter)
        kept = [one for one in events if not drop(one)]
        if len(kept) < len(events):
            gone.append(number)
            left += kept
    return gone, left


def _words(text: str) -> list[str]:
    """Return what stands in quotes or between blanks, whole and without marks around it."""
    found = []
    for quote in ("'", '"', None):
        found += text.split(quote)
    return found + [word.strip("\"'`()[]{}<>,;:") for word in found]


def _values(event: object) -> list[int | str]:
    """Return every number and text in a decoded event."""
    if isinstance(event, dict):
        return [value for part in (*event, *event.values()) for value in _values(part)]
    if isinstance(event, list):
        return [value for part in event for value in _values(part)]
    return [event] if isinstance(event, str) or type(event) is int else []


def purge(db: sqlite3.Connection, path: Path, truncated: Callable[[], bool]) -> None:
    """Write the file anew, so that no free page holds what was deleted, and empty the journal.

    Parameters
    ----------
    truncated
        Tries to empty the journal, and says whether it did.

    Raises
    ------
    StorageError
        If another program goes on reading the journal.
    """
    db.execute("VACUUM")
    until = time.monotonic() + _PATIENCE
    while not truncated():
        if time.monotonic() > until:
            raise StorageError(f"{path} is being read by another program, so old bytes of it stay; try again")
        time.sleep(_BETWEEN)


def rewritten(entries: Sequence[Entry], left_of: Callable[[bytes], bytes | None]) -> list[tuple[bytes, int]]:
    """Return the new body and the sequence of each entry that changes.

    Parameters
    ----------
    left_of
        Returns what is left of a body; None: all of it.
    """
    changed = []
    for entry in entries:
        left = left_of(clear_body(entry.body))
        if left is not None:
            changed.append((redacted(entry.chain, entry.seq, left), entry.seq))
    return changed
