"""Positions in histories: which may be written after which, and how sinks store them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from dygcn.engine.records import History
from dygcn.errors import OtherHistory, SinkError

FIELDS = ("generation", "epoch", "version", "chain")
"""The fields of a row's position, in every sink; `version` is the sequence."""
_LARGEST = (1 << 63) - 1
KEEP_OURS = "if this folder is the one to keep, begin a new epoch: dygcn restore, or live.feed.begin_epoch()"


def check_history(history: History, name: str) -> None:
    """Raise SinkError unless every sink can store a position."""
    numbers = all(0 <= number <= _LARGEST for number in (history.generation, history.sequence))
    texts = re.fullmatch("[0-9a-f]{16}", history.epoch) and re.fullmatch("[0-9a-f]{32}", history.chain)
    if not numbers or not texts:
        raise SinkError(
            f"{name} got rows of {history}; allowed are a generation and a sequence from 0 to 2^63 - 1, "
            "an epoch of 16 and a chain of 32 hexadecimal digits"
        )


def admit(held: History | None, ours: History, name: str) -> None:
    """Raise OtherHistory if rows of position `ours` may not follow the position `held`."""
    if held is None or ours.generation > held.generation:
        return
    if ours.generation < held.generation:
        kind = "a newer history"
    elif ours.epoch != held.epoch:
        kind = "another history of the same generation"
    elif ours.sequence == held.sequence and ours.chain != held.chain:
        kind = "a copy of our history that went another way"
    else:
        return
    raise OtherHistory(
        f"{name} holds rows of {kind} ({described(held)}); ours is {described(ours)}. "
        f"This service does not write to it; {KEEP_OURS}"
    )


def newest(positions: Iterable[History | None]) -> History | None:
    """Return the position of the greatest generation and, there, of the greatest sequence."""
    found = (one for one in positions if one is not None)
    return max(found, key=lambda one: (one.generation, one.sequence), default=None)


def described(history: History) -> str:
    """Return a position as errors and `/v1/status` name it."""
    return f"generation {history.generation}, epoch {history.epoch}, sequence {history.sequence}"


def as_values(history: History) -> dict[str, int | str]:
    """Return a position as the fields of a row."""
    values = history.generation, history.epoch, history.sequence, history.chain
    return dict(zip(FIELDS, values, strict=True))


def as_fields(history: History) -> dict[str, str]:
    """Return a position as the fields of a row, as texts."""
    return {name: str(value) for name, value in as_values(history).items()}


def from_fields(fields: Mapping[str, str | None]) -> History | None:
    """Return the position in the fields of a row, as texts; None if they are incomplete or unreadable."""
    generation, epoch, version, chain = (fields.get(name) or "" for name in FIELDS)
    try:
        return History(int(generation), epoch, int(version), chain) if epoch and chain else None
    except ValueError:
        return None
