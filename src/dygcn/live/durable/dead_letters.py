"""Replay of dead letters: which are chosen, and the batches that apply their events and delete them."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from dygcn.engine.events import join_events
from dygcn.engine.events.row_errors import NO_TIME, NOT_READ
from dygcn.engine.events.wire import decode_events, without_forgets
from dygcn.errors import OptionError
from dygcn.live.durable.source_batch import SourceBatch
from dygcn.live.durable.storage.dead_letters import DeadLetter, events_of
from dygcn.live.durable.storage.log import EventLog

MOST = 1_000  # letters at once


class ChosenLetter(NamedTuple):
    """A dead letter of one event, and the event to apply instead; several may have one number."""

    number: int
    letter: DeadLetter
    event: bytes


def chosen(
    log: EventLog,
    numbers: Collection[int] = (),
    corrected: Mapping[int, bytes] | None = None,
    stream: str | None = None,
    reason: str | None = None,
) -> tuple[list[ChosenLetter], list[int]]:
    """Return the chosen dead letters with the events to apply, and the unknown numbers."""
    events = dict(corrected or {})
    if len(numbers) + len(events) > MOST:
        raise OptionError(f"the request names more letters than {MOST}; name fewer")
    wanted = {*numbers, *events}
    by_filter = stream is not None or reason is not None
    if bool(wanted) == by_filter:
        raise OptionError("name either numbers (or corrected events), or a stream or words of a reason")
    letters = log.dead_letters(MOST, stream=stream, reason=reason) if by_filter else log.letters(wanted)
    known = {number for number, _ in letters}
    found = [one for letter in sorted(letters) for one in _one_by_one(*letter, events)]
    return found, sorted(wanted - known)


def _one_by_one(number: int, letter: DeadLetter, corrected: Mapping[int, bytes]) -> list[ChosenLetter]:
    """Split a dead letter of several events into one for each event."""
    letters = events_of(letter)
    events = [one.event.encode() for one in letters]
    if number in corrected:
        events = [corrected[number]] if len(letters) == 1 else _list(corrected[number])
    if len(events) != len(letters):
        raise OptionError(
            f"letter {number} holds {len(letters)} events, and {len(events)} were sent in their place; "
            "send a list of as many, in their order"
        )
    return [ChosenLetter(number, *one) for one in zip(letters, events, strict=True)]


def _list(event: bytes) -> list[bytes]:
    """Return the elements of a JSON list, or any other value as the only element."""
    try:
        return [bytes(one) for one in msgspec.json.decode(event, type=list[msgspec.Raw])]
    except NOT_READ:
        return [event]


def parts_of(
    found: list[ChosenLetter], kind: str, latest: float | None, related: bool = False
) -> list[SourceBatch]:
    """Return dead letters as two batches, events with a time and events without; each deletes its own."""
    dated = {one.number for one in found if _is_dated(one.event)}
    groups: dict[bool, list[ChosenLetter]] = {}
    for one in found:
        groups.setdefault(one.number in dated, []).append(one)
    parts = []
    for has_times, group in groups.items():
        rows: list[int] = []
        batches, dead = [], []
        for row, (_, letter, event) in enumerate(group):
            decoded = without_forgets(
                decode_events(event, "json", kind, latest=latest, limit=1, related=related)
            )
            if (
                has_times and len(decoded.batch) and decoded.batch.t is None
            ):  # its letter has others with times
                dead.append(dataclasses.replace(letter, reason=NO_TIME))
                continue
            batches.append(decoded.batch)
            rows += [row] * len(decoded.batch)
            dead += [
                dataclasses.replace(letter, reason=one.reason, event=one.text) for one in decoded.bad[:1]
            ]
        replayed = tuple((number, letter) for number, letter, _ in group)
        joined = join_events(batches)
        parts.append(SourceBatch(joined, rows=np.array(rows, np.int64), dead=tuple(dead), replayed=replayed))
    return parts


def _is_dated(event: bytes) -> bool:
    try:
        found: Any = msgspec.json.decode(event)
    except NOT_READ:
        return False
    return isinstance(found, dict) and found.get("t") is not None


def still_dead(parts: Sequence[SourceBatch], log: EventLog) -> Sequence[SourceBatch]:
    """Leave out events of dead letters that another replay has deleted meanwhile."""
    numbers = [number for part in parts for number, _ in part.replayed]
    if not numbers:
        return parts
    left = {number for number, _ in log.letters(numbers)}
    kept = []
    for part in parts:
        kept.append(part.of_letters(left) if part.replayed else part)
        left -= {number for number, _ in part.replayed}
    return kept
