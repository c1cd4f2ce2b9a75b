"""What a check of a promise returns; `python -m dygcn_lab.soak.run` runs them all and prints a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec


class Finding(msgspec.Struct, forbid_unknown_fields=True):
    """What was found of one promise."""

    promise: str  # its row: "acknowledged is durable"
    what: str  # what was done: "kill -9 under load"
    size: int  # how often
    bad: int  # lost, doubled, undetected, open: must be 0
    holds: bool
    mutant: str  # the bug that was seeded to see that the check can fail; "" where times are measured
    mutant_caught: bool  # true where there is none
    seconds: float
    seed: int = 0
    figures: dict[str, Any] = {}  # figures worth printing
    notes: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """One way to put a promise to the test."""

    name: str  # for --only
    quick: int  # size in CI
    full: int  # size in the long run
    run: Callable[[int, int], Finding]  # (size, seed)
