"""The least that an update has to do: its row additions, on index arrays that are already there.

One kernel, one core: every contribution is added to its row, and one message is computed for each touched
node; rows are asked for ahead of time. No ids, no adjacency, no grouping, nothing about who changed. It works
on rows of its own, laid out as the state's are, so that it meets the same cache misses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from dygcn.engine.propagation import ExactRule, kernels, spreading
from dygcn.engine.propagation.gathering import MessageBuffer, Work
from dygcn.engine.propagation.spreading import side_by_side
from dygcn.engine.propagation.sum_rows import SumRows
from dygcn.engine.records import Int32, Int64, Nodes, Stored
from dygcn_lab.costs.timing import timed


@dataclass(frozen=True, slots=True)
class Additions:
    """The additions to the sums of one order, grouped by receiver so that each row is written once."""

    order: int
    receivers: Nodes  # (n,) no node twice
    first: Int32  # (n + 1,) index of the first contribution to each receiver
    row: Int32  # (m,) row of `table` that each contribution adds
    factor: Int64  # (m,) its factor
    table: Stored  # (r, width) messages and changes of messages


Kept: TypeAlias = list[tuple["Additions", "Int32", "Int64"]]


_add_part = kernels.add_part


def compiled_loop() -> Callable[..., None]:
    """Return the loop; numba, an extra, is not imported before it is needed."""
    from dygcn_lab.costs.bare_kernel import add_bare  # noqa: PLC0415

    return add_bare


class Bare:
    """Keeps what a rule adds while it is watched, and repeats it on rows of its own."""

    def __init__(self, rule: ExactRule) -> None:
        self._add = compiled_loop()
        self._rule = rule
        self.kept: Kept = []  # what was added while the rule was watched the last time
        self.rows: list[tuple[Int32, Int64]] = []  # of each order
        self._message = np.empty((1, rule.features.width), np.int32)
        self._copy_layout()

    def _copy_layout(self) -> None:
        layout = [(sums.narrow.shape, sums.narrow.dtype, sums.wide.shape) for sums in self._rule.sums]
        known = [(narrow.shape, narrow.dtype, wide.shape) for narrow, wide in self.rows]
        if layout != known:
            self.rows = [(_touched(sums.narrow), _touched(sums.wide)) for sums in self._rule.sums]

    def watch(self, apply: Callable[[], object]) -> int:
        """Keep what the rule adds in this call; return how many rows it adds."""
        self.kept = []
        with (
            mock.patch.object(self._rule, "in_one_call", new=False),
            mock.patch.object(spreading, "SHARED", 1 << 62),  # pushes: one thread
            mock.patch.object(kernels, "add_part", self._keep_and_add),
        ):
            apply()
        self._copy_layout()
        return sum(len(additions.row) for additions, _, _ in self.kept)

    def _keep_and_add(self, work: Work, sums: SumRows, frontier: MessageBuffer, *more: Any) -> int:
        k, given = next(k for k, one in enumerate(self._rule.sums) if one.arrays is sums), work.arrays
        found = work.found
        receivers, first = given.receivers[:found].copy(), given.first[: found + 1].copy()
        listed = given.sorted_row[: first[-1]].copy(), given.sorted_factor[: first[-1]].copy()
        additions = Additions(k + 1, receivers, first, *listed, frontier.arrays.table.copy())
        self.kept.append(
            (additions, self._rule.sums[k].slot[receivers], self._rule.sums[k].degree[receivers])
        )
        return _add_part(work, sums, frontier, *more)

    def repeat(self, kept: Kept, parts: int = 1) -> float:
        """Do additions that were kept, and nothing else; return seconds.

        `parts`: so many threads share the receivers of an order.
        """
        calls = []
        for additions, slot, degree in kept:
            k = additions.order - 1
            grouped = additions.first, additions.row, additions.factor.astype(np.int32), additions.table
            scale = self._rule.sums[k].scale
            calls.append((additions.receivers, slot, degree, *grouped, *self.rows[k], scale, self._message))
        if parts == 1:
            return timed(lambda: [self._add(*call) for call in calls])
        shared = [[partial(self._add, *part) for part in _split(call, parts)] for call in calls]
        return timed(lambda: [side_by_side(order) for order in shared])


def _split(call: tuple[Any, ...], parts: int) -> list[tuple[Any, ...]]:
    """Cut a call into parts of its receivers, each with a message of its own to write.

    Where their rows begin still counts from the first of all.
    """
    receivers, slot, degree, first, *rest, message = call
    bounds = np.linspace(0, len(receivers), parts + 1).astype(int).tolist()
    return [
        (receivers[low:high], slot[low:high], degree[low:high], first[low : high + 1], *rest, message.copy())
        for low, high in pairwise(bounds)
    ]


def _touched(like: NDArray[Any]) -> NDArray[Any]:
    """Return rows of zeros that are really there: a page never written to is no memory."""
    rows = np.zeros_like(like)
    rows.fill(0)
    return rows
