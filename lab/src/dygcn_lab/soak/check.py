"""What a check of a promise is, and what it returns; `dygcn soak` runs them all and prints a table."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

_NOTES = 5  # that are kept


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


@dataclass(slots=True)
class Tally:
    """What is wrong, and remarks on the first cases of it; checks add what they count."""

    wrong: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def bad(self) -> int:
        """All that is wrong."""
        return self.wrong

    def check(self, right: bool, what: str) -> None:
        """Count what is not right."""
        self.wrong += not right
        if not right:
            self.note(what)

    def note(self, what: str) -> None:
        """Keep a remark on something that is wrong."""
        if len(self.notes) < _NOTES:
            self.notes.append(what)


@dataclass(frozen=True, slots=True)
class Found:
    """What one run of a check came to."""

    size: int
    bad: int
    caught: bool = True  # the seeded bugs
    figures: dict[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()
    holds: bool = True  # beside bad being 0
    what: str = ""  # where the size decides what was done


@dataclass(frozen=True, slots=True)
class Check:
    """One way to put a promise to the test."""

    name: str  # for the command
    quick: int  # size in CI
    full: int  # size in the long run
    promise: str
    what: str  # is done
    bugs: str  # that are seeded; "" where times are measured
    look: Callable[[int, int], Found]  # (size, seed)

    def run(self, size: int, seed: int) -> Finding:
        """Look, and return the finding."""
        begun = time.perf_counter()
        found = self.look(size, seed)
        return Finding(
            self.promise,
            found.what or self.what,
            found.size,
            found.bad,
            found.bad == 0 and found.holds,
            self.bugs,
            found.caught,
            round(time.perf_counter() - begun, 1),
            seed,
            found.figures,
            "; ".join(found.notes),
        )
