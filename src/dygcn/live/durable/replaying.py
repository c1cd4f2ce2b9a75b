"""Dead letters on their way back: which ones, and the batches that apply their events and settle them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np

from dygcn.engine.events import decode_events, join_events
from dygcn.engine.events.row_errors import NOT_READ
from dygcn.errors import OptionError
from dygcn.live.durable.source_batch import SourceBatch
from dygcn.live.durable.storage import DeadLetter, EventLog

MOST = 1_000  # letters at once


class ChosenLetter(NamedTuple):
    """A letter, and the event to apply in its place."""

    number: int
    letter: DeadLetter
    event: bytes


def chosen(
    log: EventLog,
    numbers: Collection[int] = (),
    mended: Mapping[int, bytes] | None = None,
    stream: str | None = None,
    reason: str | None = None,
) -> tuple[list[ChosenLetter], list[int]]:
    """Return the letters that are asked for with the events to apply, and numbers that are no letters.

    Parameters
    ----------
    numbers
        Which letters; or else:
    mended
        Events to apply in the place of letters, by number.
    stream, reason
        Those of a stream; those whose reason has these words in it.
    """
    events = dict(mended or {})
    if len(numbers) + len(events) > MOST:
        raise OptionError(f"the request names more letters than {MOST}; name fewer")
    wanted = {*numbers, *events}
    by_filter = stream is not None or reason is not None
    if bool(wanted) == by_filter:
        raise OptionError("name either numbers (or mended events), or a stream or words of a reason")
    letters = log.dead_letters(MOST, stream=stream, reason=reason) if by_filter else log.letters(wanted)
    known = {number for number, _ in letters}
    found = [
        ChosenLetter(number, one, events.get(number, one.event.encode())) for number, one in sorted(letters)
    ]
    return found, sorted(wanted - known)


def parts_of(found: list[ChosenLetter], kind: str, latest: float | None) -> list[SourceBatch]:
    """Return letters as batches, each of which settles its own letters: events with a time, and without.

    Parameters
    ----------
    kind
        Type of the graph's ids.
    latest
        The latest time that an event may have; None: any.
    """
    groups: dict[bool, list[ChosenLetter]] = {}
    for one in found:
        groups.setdefault(_is_dated(one.event), []).append(one)
    parts = []
    for group in groups.values():
        rows: list[int] = []
        batches, dead = [], []
        for row, (_, letter, event) in enumerate(group):
            decoded = decode_events(event, "json", kind, latest=latest, limit=1)
            batches.append(decoded.batch)
            rows += [row] * len(decoded.batch)
            for bad in decoded.bad[:1]:
                named = letter.stream, letter.position, letter.row
                dead.append(DeadLetter(*named, bad.reason, bad.text))
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
