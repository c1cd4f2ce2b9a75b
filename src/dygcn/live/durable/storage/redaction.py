"""Entries of the log whose events of forgotten ids were taken out; sequence and chain value stay.

Cursors and sinks name chain values, so these must not change. The body of a redacted entry begins with a mark
and a checksum of its own, over the chain value that stays and the events that are left.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from dygcn.errors import StorageError
from dygcn.live.durable.storage.letters import DeadLetter, events_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from dygcn.live.durable.storage.tables import Entry

_MARK = hashlib.blake2b(b"a redacted entry of dygcn", digest_size=16).digest()
_NUMBER = re.compile("-?[0-9]{1,19}")
_BEGIN, _WORD = re.compile(r"(?<![\w-])(?=.)", re.DOTALL), re.compile(r"[\w-]")
_HEAD = 2 * len(_MARK)
_PATIENCE, _BETWEEN = 10.0, 0.05  # seconds that readers in other processes are waited for


def redacted(entry: Entry, body: bytes) -> bytes:
    """Return the body of an entry once it is redacted, which holds what is left of the original one.

    Examples
    --------
    >>> from dygcn.live.durable.storage.tables import Entry
    >>> clear_body(redacted(Entry(7, 7, "events", "clicks", 41, b"all events", b"chain value"), b"events"))
    b'events'
    """
    return _MARK + _checksum(entry, body) + body


def clear_body(body: bytes) -> bytes:
    """Return the body of an entry without the mark of a redaction, if it has one."""
    return body[_HEAD:] if body.startswith(_MARK) else body


def is_redacted(entry: Entry) -> bool:
    """Say whether an entry was redacted, and is what was written then."""
    if not isinstance(entry.body, bytes) or not entry.body.startswith(_MARK):
        return False
    return entry.body[:_HEAD] == _MARK + _checksum(entry, entry.body[_HEAD:])


def _checksum(entry: Entry, body: bytes) -> bytes:
    about = f"{entry.seq} {entry.batch_id} {entry.kind} {entry.position} {len(entry.stream)} {entry.stream}"
    digest = hashlib.blake2b(entry.chain, digest_size=16, person=b"dygcn redacted")
    digest.update(f"{about} {len(body)}".encode() + body)
    return digest.digest()


def named_in(letter: DeadLetter) -> tuple[Iterator[int | str], float | None]:
    """Return what a dead letter may name, values of its event and words anywhere, and the event's time."""
    event: object = None
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        event = msgspec.json.decode(letter.event)
    t = event.get("t") if isinstance(event, dict) else None
    return _named(letter, event), t if type(t) in (int, float) else None


def _named(letter: DeadLetter, event: object) -> Iterator[int | str]:
    for word in {*_words(letter.event), *_words(letter.reason)}:
        yield word
        if _NUMBER.fullmatch(word):
            yield int(word)
    with suppress(RecursionError):
        yield from _values(event)


def text_finder(ids: Sequence[int | str]) -> Callable[[str], bool]:
    """Return what says whether a text has one of some ids in it, and no longer word around it.

    Ids are looked for as they are, and as JSON and Python write them, whole or as bytes. The work does not
    depend on how many there are.

    Examples
    --------
    >>> finds = text_finder(["dan-miller", "zo\u00eb"])
    >>> finds("of dan-miller, say"), finds("dan-miller-2"), finds(str("zo\u00eb".encode()))
    (True, False, True)
    """
    texts = {form for one in ids for form in _forms(one)}
    lengths = sorted({len(text) for text in texts})

    def finds(text: str) -> bool:
        return any(
            text[begin : begin + length] in texts and not _WORD.match(text, begin + length)
            for begin in (found.start() for found in _BEGIN.finditer(text))
            for length in lengths
        )

    return finds


def _forms(one: int | str) -> set[str]:
    if not isinstance(one, str):
        return {str(one)}
    escaped = {json.dumps(one)[1:-1], msgspec.json.encode(one).decode()[1:-1]}
    return {form for form in {one, *escaped, repr(one)[1:-1], repr(one.encode())[2:-1]} if form}


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


def rewritten(
    entries: Sequence[Entry], left_of: Callable[[int, bytes], bytes | None]
) -> list[tuple[bytes, int]]:
    """Return the new body and the sequence of each entry that changes.

    Parameters
    ----------
    left_of
        Returns what is left of the body of a sequence; None: all of it.
    """
    changed = []
    for entry in entries:
        left = left_of(entry.seq, clear_body(entry.body))
        if left is not None:
            changed.append((redacted(entry, left), entry.seq))
    return changed
