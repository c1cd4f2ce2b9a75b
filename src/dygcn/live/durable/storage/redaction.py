"""What dead letters name: where ids that were forgotten are looked for."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from dygcn.live.durable.storage.dead_letters import DeadLetter, events_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_NUMBER = re.compile("-?[0-9]{1,19}")
_BEGIN, _WORD = re.compile(r"(?<![\w-])(?=.)", re.DOTALL), re.compile(r"[\w-]")


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
