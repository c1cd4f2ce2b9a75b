"""Which history the rows of a sink are of, and whether rows of another may come in."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dygcn.engine.records import History
from dygcn.errors import OtherHistory, SinkError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FIELDS = ("generation", "epoch", "version", "chain")
"""The fields of a row's history, in every sink; `version` is the sequence."""
_LARGEST = (1 << 63) - 1
KEEP_OURS = "if this folder is the one to keep, begin a new epoch: dygcn restore, or live.feed.begin_epoch()"


def check_history(history: History, name: str) -> None:
    """Raise a SinkError unless a position is one that every sink can keep."""
    numbers = history.generation, history.sequence
    whole = all(0 <= number <= _LARGEST for number in numbers)
    texts = re.fullmatch("[0-9a-f]{16}", history.epoch) and re.fullmatch("[0-9a-f]{32}", history.chain)
    if not whole or not texts:
        raise SinkError(
            f"{name} got rows of {history}; allowed are a generation and a sequence from 0 to 2^63 - 1, "
            "an epoch of 16 and a chain of 32 hexadecimal digits"
        )


def admit(held: History | None, ours: History, name: str) -> None:
    """Raise OtherHistory if rows of a position may not be written where another one was written last.

    Examples
    --------
    >>> old, new = (History(one, 16 * str(one), 7, 32 * "a") for one in (1, 2))
    >>> admit(None, old, "here"), admit(old, new, "here")
    (None, None)
    >>> admit(new, old, "here")
    Traceback (most recent call last):
    ...
    dygcn.errors.OtherHistory: here holds rows of a newer history (generation 2, epoch 2222222222222222, ...
    """
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
    """Return the position of the greatest generation and, there, of the greatest sequence.

    Examples
    --------
    >>> newest([History(1, "a", 9, ""), None, History(2, "b", 3, "")]).sequence
    3
    """
    found = (one for one in positions if one is not None)
    return max(found, key=lambda one: (one.generation, one.sequence), default=None)


def described(history: History) -> str:
    """Return a position as errors and `/v1/status` name it."""
    return f"generation {history.generation}, epoch {history.epoch}, sequence {history.sequence}"


def as_values(history: History) -> dict[str, int | str]:
    """Return the fields of a row's history, for a store that has columns of both types.

    Examples
    --------
    >>> as_values(History(1, "e", 3, "c"))
    {'generation': 1, 'epoch': 'e', 'version': 3, 'chain': 'c'}
    """
    values = history.generation, history.epoch, history.sequence, history.chain
    return dict(zip(FIELDS, values, strict=True))


def as_fields(history: History) -> dict[str, str]:
    """Return the fields of a row's history, as texts.

    Examples
    --------
    >>> as_fields(History(1, "e", 3, "c"))
    {'generation': '1', 'epoch': 'e', 'version': '3', 'chain': 'c'}
    """
    return {name: str(value) for name, value in as_values(history).items()}


def from_fields(fields: Mapping[str, str | None]) -> History | None:
    """Return the position that texts name; None if they are not all there, or name none.

    Examples
    --------
    >>> from_fields({"generation": "1", "epoch": "e", "version": "3", "chain": "c"})
    History(generation=1, epoch='e', sequence=3, chain='c')
    >>> from_fields({"generation": "1"})
    """
    generation, epoch, version, chain = (fields.get(name) for name in FIELDS)
    if generation is None or epoch is None or version is None or chain is None:
        return None
    try:
        return History(int(generation), epoch, int(version), chain)
    except ValueError:
        return None
