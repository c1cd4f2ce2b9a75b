"""How good answers are: what share of the true nearest was found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dygcn.live.search.nearest import rounding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from dygcn.engine.records import Float, Float32, Float64, Nodes
    from dygcn.live.search.backends import InvertedLists

AT = 10  # recall is measured at


@dataclass(frozen=True)
class RecallQuestions:
    """Vectors that are asked for their nearest, and how near these truly are."""

    askers: Nodes  # (n,) whose vectors they are: nobody is a neighbour of its own
    units: Float32  # (n, dim) of length one
    bars: Float64  # (n,) the cosine of the last of the true ones
    most: int  # true ones of each

    def recall(self, found: Iterable[tuple[NDArray[np.integer], Float]]) -> float:
        """Return the share of the true ones that was found, over all questions.

        One counts if it is as near as the last of the true ones, whichever of equals it is, and counts once.
        """
        if self.most <= 0 or len(self.askers) == 0:
            return 1.0
        bars = self.bars - rounding(self.units.shape[1])
        hits = [
            min(len(np.unique(nodes[cosines >= bar])), self.most)
            for (nodes, cosines), bar in zip(found, bars, strict=True)
        ]
        return sum(hits) / (self.most * len(hits))


def ask(
    askers: Nodes, units: Float32, everyone: Iterable[tuple[Nodes, Float32]], others: int
) -> RecallQuestions:
    """Find out how near the nearest truly are, by looking at every vector."""
    most = min(AT, others)
    best = np.full((len(askers), max(most, 1)), -np.inf, np.float32)
    for nodes, rows in everyone:
        scores = units @ rows.T
        scores[askers[:, None] == nodes] = -np.inf
        both = np.concatenate((best, scores), axis=1)
        best = np.partition(both, both.shape[1] - best.shape[1], axis=1)[:, -best.shape[1] :]
    return RecallQuestions(askers, units, best.min(axis=1).astype(np.float64), most)


def choose_probes(lists: InvertedLists, asked: RecallQuestions, start: int, target: float) -> int:
    """Return at how many lists one must look, `start` or more, for a recall."""

    def share(probes: int) -> float:
        scores, nodes = lists.search(asked.units, AT + 1, probes)
        others = (nodes != asked.askers[:, None]) & (nodes >= 0)
        rows = zip(nodes, scores, others, strict=True)
        return asked.recall((found[keep], near[keep]) for found, near, keep in rows)

    return fewest(share, start, lists.lists, target)


def fewest(share: Callable[[int], float], start: int, end: int, target: float) -> int:
    """Return the least number (or not much more) from `start` to `end` that reaches a share; else the end."""
    low, high = start - 1, min(start, end)
    while high < end and share(high) < target:
        low, high = high, min(2 * high, end)
    while high - low > max(1, high // 16):
        middle = (low + high) // 2
        low, high = (middle, high) if share(middle) < target else (low, middle)
    return high
