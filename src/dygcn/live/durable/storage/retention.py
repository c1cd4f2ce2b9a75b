"""Retention: how much of the past a folder keeps, as a span of time or a number of bytes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from dygcn.errors import OptionError

KEEP_LOG = "256MB"
MOST_OLD = 8  # snapshots of the past that no operation needs
_STEPS = MOST_OLD - 2  # of a span, between snapshots
_SPANS = {"s": 1, "min": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_SIZES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZES |= {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}
_SHORT_SPANS = [(unit, _SPANS[unit]) for unit in ("d", "h", "min", "s")]
_SHORT_SIZES = [(unit, _SIZES[unit]) for unit in ("TB", "GB", "MB", "KB", "B")]
_MOST = 1 << 46
_FORM = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([A-Za-z]{1,3})")


@dataclass(frozen=True, slots=True)
class OldSnapshot:
    """A snapshot that recovery does not need."""

    sequence: int
    logged: int  # when its last entry was logged, in microseconds
    size: int  # bytes that it takes alone
    log: int  # bytes of the log behind it, up to the snapshots that recovery needs
    needed: bool  # it holds an operation that the log does not


@dataclass(frozen=True, slots=True)
class KeepLog:
    """A span in seconds, or a size in bytes; the other one is None."""

    seconds: int | None = None
    size: int | None = None

    @classmethod
    def read(cls, value: object) -> KeepLog:
        """Read what a user wrote."""
        if isinstance(value, KeepLog):
            return value
        if isinstance(value, timedelta) and timedelta(0) <= value < timedelta(seconds=_MOST):
            return cls(seconds=-(value // timedelta(seconds=-1)))
        form = _FORM.fullmatch(value.strip()) if isinstance(value, str) else None
        if form is not None:
            number, unit = float(form[1]), form[2]
            if unit.lower() in _SPANS and number * _SPANS[unit.lower()] < _MOST:
                return cls(seconds=round(number * _SPANS[unit.lower()]))
            if unit.upper() in _SIZES and number * _SIZES[unit.upper()] < _MOST:
                return cls(size=round(number * _SIZES[unit.upper()]))
        raise OptionError(
            f"keep_log is {value!r}; allowed is a span ('7d', '12h', '30min', '90s' or a timedelta) or a "
            "size ('2GB', '500MB'; '0B' keeps what recovery needs)"
        )

    def __str__(self) -> str:
        """In the greatest unit that needs no fraction, such as ``"7d"`` or ``"256MB"``."""
        units = _SHORT_SIZES if self.seconds is None else _SHORT_SPANS
        number = self.size if self.seconds is None else self.seconds
        assert number is not None
        unit, one = units[-1] if number == 0 else next(each for each in units if number % each[1] == 0)
        return f"{number // one}{unit}"

    def choose(self, old: Sequence[OldSnapshot], newer: OldSnapshot, now: int) -> list[int]:
        """Return which old snapshots to keep; the log is kept from the oldest of them on."""
        if self.seconds is not None:
            span = self.seconds * 1_000_000
            reached = [i for i, one in enumerate((newer, *old)) if one.logged <= now - span]
            kept = _spread(old[: reached[0] if reached else None], lambda one: -one.logged, span // _STEPS)
            return [one.sequence for one in kept]
        assert self.size is not None
        most = max(2, min(MOST_OLD, self.size // 2 // max(newer.size, 1)))
        apart = max(self.size - most * newer.size, 0) // most
        stay, taken = [], 0
        for one in _spread(old, lambda one: one.log, apart):
            taken += one.size
            if taken + one.log > self.size:
                break
            stay.append(one.sequence)
        return stay


def _spread(old: Sequence[OldSnapshot], age: Callable[[OldSnapshot], int], apart: int) -> list[OldSnapshot]:
    """Return the oldest snapshot, those that operations need, and others spaced apart in age."""
    kept: list[OldSnapshot] = []
    for one in reversed(old):
        if not kept or one.needed or age(kept[-1]) - age(one) >= apart:
            kept.append(one)
    return kept[::-1]
