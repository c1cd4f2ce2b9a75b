"""Ids that left the graph, in the order in which they left: a bounded record, without an object for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from dygcn.engine.events import join_ids, python_ids, take
from dygcn.engine.records import Bool, IdColumn, Int64

Gone: TypeAlias = Callable[[IdColumn], Bool]
"""Says of each id whether it is not in the graph now."""


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive departures."""

    numbers: Int64  # (n,) growing; with gaps where some were dropped
    sequences: Int64  # (n,) at which each id left, growing
    ids: IdColumn  # (n,)

    def __len__(self) -> int:
        return len(self.numbers)

    def taken(self, rows: Int64) -> Run:
        """Return some of the departures."""
        return Run(self.numbers[rows], self.sequences[rows], take(self.ids, rows))


def _joined(runs: list[Run]) -> Run:
    return Run(
        np.concatenate([run.numbers for run in runs]),
        np.concatenate([run.sequences for run in runs]),
        join_ids([run.ids for run in runs]),
    )


class Departures:
    """A record of ids that left; each departure has a number of its own.

    It is a list of runs, each at least twice as long as the run behind it: to write down a departure costs a
    few copies of it, to read some of them costs those.
    """

    def __init__(
        self, floor: int, most: int, ids: IdColumn | None = None, sequences: Int64 | None = None
    ) -> None:
        self._most = most
        self._runs: list[Run] = []
        self.floor = floor
        self.last = 0  # the number of the last departure
        if ids is not None and sequences is not None and len(ids):
            self.last = len(ids)
            self._runs.append(Run(np.arange(1, self.last + 1), sequences, ids))
        self.forgotten = 0  # the number of the last one that is no longer known

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    def everything(self) -> Run | None:
        """Return all departures kept, in order; None if there are none."""
        return _joined(self._runs) if self._runs else None

    def note(self, ids: IdColumn, sequence: int, gone: Gone) -> None:
        """Record the ids that left at a sequence."""
        if len(ids) == 0:
            return
        numbers = np.arange(self.last + 1, self.last + 1 + len(ids))
        self.last += len(ids)
        self._runs.append(Run(numbers, np.full(len(ids), sequence, np.int64), ids))
        while len(self._runs) > 1 and 2 * len(self._runs[-1]) > len(self._runs[-2]):
            self._runs[-2:] = [_joined(self._runs[-2:])]
        if len(self) > self._most:
            self._reserve(gone)

    def _reserve(self, gone: Gone) -> None:
        """Drop departures of ids that came back or left again; if over 3/4 stay, drop the oldest, too."""
        run = _joined(self._runs)
        rows = np.flatnonzero(gone(run.ids))
        last = dict(zip(python_ids(take(run.ids, rows)).tolist(), rows.tolist(), strict=True))
        kept = np.sort(np.fromiter(last.values(), np.int64, len(last)))
        self._runs = [run.taken(kept)] if len(kept) else []
        too_many = len(kept) - 3 * self._most // 4
        if too_many > 0:
            self.forget(int(run.sequences[kept[too_many - 1]]))

    def forget(self, sequence: int) -> None:
        """Drop departures up to a sequence."""
        self.floor = max(self.floor, sequence)
        self.forgotten = max(self.forgotten, self.number_at(sequence))
        kept = [run.taken(np.flatnonzero(run.sequences > sequence)) for run in self._runs]
        self._runs = [run for run in kept if len(run)]

    def miss(self, sequence: int) -> None:
        """Record that unknown ids left at a sequence, so every reader must resynchronise."""
        self.last += 1
        self.floor, self.forgotten, self._runs = sequence, self.last, []

    def number_at(self, sequence: int) -> int:
        """Return a number below all departures after a sequence, and not below any up to it."""
        for run in self._runs:
            if run.sequences[-1] > sequence:
                return int(run.numbers[np.searchsorted(run.sequences, sequence, "right")]) - 1
        return self.last

    def behind(self, number: int, most: int) -> Run | None:
        """Return the next departures after a number, at most so many; None if there are none."""
        found: list[Run] = []
        for run in self._runs:
            free = most - sum(map(len, found))
            if run.numbers[-1] > number and free > 0:
                start = int(np.searchsorted(run.numbers, number, "right"))
                found.append(run.taken(np.arange(start, min(start + free, len(run)))))
        return _joined(found) if found else None
