"""The least that an update has to do: its row additions, on index arrays that are already there.

One kernel, one core: every contribution is added to its row, and one message is computed for each touched
node. No ids, no adjacency, no grouping, nothing about who moved. It works on rows of its own, laid out as
the state's are, so that it meets the same cache misses.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dygcn._jit import kernel, prefetch_row
from dygcn.costs.timing import timed
from dygcn.propagation.kernels import add_row, inverse_of, write_message
from dygcn.propagation.threads import side_by_side

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dygcn.propagation import ExactRule
    from dygcn.records import Additions, Int32, Int64, Nodes


@kernel
def add_bare(
    receivers: Nodes,
    slot: Int32,
    degree: Int64,
    first: Int32,
    row: Int32,
    factor: Int32,
    table: Int32,
    narrow: Int32,
    wide: Int64,
    scale: float,
    message: Int32,
    ahead: int,
) -> None:
    """Add what each receiver has to add, and compute its message; ask for rows `ahead` of time, or 0."""
    for i in range(len(receivers)):
        if ahead > 0 and i + ahead < len(receivers):
            if slot[i + ahead] < 0:
                prefetch_row(narrow, receivers[i + ahead])
            else:
                prefetch_row(wide, slot[i + ahead])
        inverse = scale * inverse_of(degree[i])
        if slot[i] < 0:
            for c in range(first[i], first[i + 1]):
                add_row(narrow, receivers[i], table, row[c], factor[c])
            write_message(narrow, receivers[i], inverse, message, 0)
        else:
            for c in range(first[i], first[i + 1]):
                add_row(wide, slot[i], table, row[c], factor[c])
            write_message(wide, slot[i], inverse, message, 0)


Kept: TypeAlias = list[tuple["Additions", "Int32", "Int64"]]


class Bare:
    """Keeps what a rule adds while it is watched, and repeats it on rows of its own."""

    def __init__(self, rule: ExactRule) -> None:
        self._rule = rule
        self.kept: Kept = []  # what was added while the rule was watched the last time
        # Two of each: what the plain kernel has touched is in the cache for the other.
        self._rows: list[list[tuple[Int32, Int64]]] = [[], []]
        self._message = np.empty((1, rule.features.width), np.int32)
        self._copy_layout()

    def _copy_layout(self) -> None:
        layout = [(sums.narrow.shape, sums.narrow.dtype, sums.wide.shape) for sums in self._rule.sums]
        known = [(narrow.shape, narrow.dtype, wide.shape) for narrow, wide in self._rows[0]]
        if layout != known:
            rows = [[(_touched(s.narrow), _touched(s.wide)) for s in self._rule.sums] for _ in range(2)]
            self._rows = rows

    def watch(self, apply: Callable[[], object]) -> int:
        """Keep what the rule adds in this call; return how many rows it adds."""
        self.kept = []
        self._rule.watch(self._keep)
        try:
            apply()
        finally:
            self._rule.watch(None)
        self._copy_layout()
        return sum(len(additions.row) for additions, _, _ in self.kept)

    def _keep(self, additions: Additions) -> None:
        k = additions.order - 1
        slot, degree = self._rule.sums[k].slot, self._rule.degree[k]
        copied = additions.copied()
        self.kept.append((copied, slot[copied.receivers], degree[copied.receivers]))

    def repeat(self, kept: Kept, ahead: int = 0, parts: int = 1) -> float:
        """Do additions that were kept, and nothing else; return seconds.

        Parameters
        ----------
        ahead
            So many rows are asked for ahead of time; 0 for a plain kernel.
        parts
            So many threads share the receivers of an order.
        """
        calls = []
        for additions, slot, degree in kept:
            k = additions.order - 1
            grouped = additions.first, additions.row, additions.factor.astype(np.int32), additions.table
            rows = self._rows[min(ahead, 1)][k]
            calls.append((additions.receivers, slot, degree, *grouped, *rows, self._rule.sums[k].scale))
        if parts == 1:
            return timed(lambda: [add_bare(*call, self._message, ahead) for call in calls])
        shared = [
            [partial(add_bare, *part) for part in _split((*call, self._message, ahead), parts)]
            for call in calls
        ]
        return timed(lambda: [side_by_side(order) for order in shared])


def _split(call: tuple[Any, ...], parts: int) -> list[tuple[Any, ...]]:
    """Cut a call into parts of its receivers, each with a message of its own to write.

    Where their rows begin still counts from the first of all.
    """
    receivers, slot, degree, first, *rest, message, ahead = call
    bounds = np.linspace(0, len(receivers), parts + 1).astype(int).tolist()
    return [
        (
            receivers[low:high],
            slot[low:high],
            degree[low:high],
            first[low : high + 1],
            *rest,
            message.copy(),
            ahead,
        )
        for low, high in pairwise(bounds)
    ]


def _touched(like: NDArray[Any]) -> NDArray[Any]:
    """Return rows of zeros that are really there: a page never written to is no memory."""
    rows = np.zeros_like(like)
    rows.fill(0)
    return rows
