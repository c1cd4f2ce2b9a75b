"""Two communities that grow: node u is in community u % 2, nine links out of ten run within one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn_lab.evaluation.steps import Moment, Snapshots

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dygcn.engine.records import Int64

NODES = 120
Event = tuple[int, int, int]


def history(steps: Sequence[Sequence[Event]]) -> list[Moment]:
    """Return the moments of events (src, dst, op) by step."""
    graph, moments = Snapshots(), []
    for events in steps:
        src, dst, op = np.array(events, dtype=np.int64).reshape(-1, 3).T
        moments.append(Moment(src, dst, op, graph.apply(src, dst, op)))
    return moments


def communities(steps: int = 7, seed: int = 0) -> list[Moment]:
    """Return moments that begin with 80 nodes and end with 120, with some removals on the way."""
    random = np.random.default_rng(seed)
    events: list[list[Event]] = []
    for step in range(steps):
        known = 80 + (NODES - 80) * step // (steps - 1)
        count = 400 if step == 0 else 40
        fresh = _links(random, known, count, 0 if step == 0 else known - 8)
        gone = [(*pair, -1) for pair in _links(random, known, 5, 0)]
        events.append([(*pair, 1) for pair in fresh] + (gone if step else []))
    return history(events)


def _links(random: np.random.Generator, known: int, count: int, newest: int) -> list[tuple[int, int]]:
    first = np.concatenate((np.arange(newest, known), random.integers(0, known, count)))
    within = random.random(len(first)) < 0.9
    second = 2 * random.integers(0, known // 2, len(first)) + (first + ~within) % 2
    return [(int(a), int(b)) for a, b in zip(first, second, strict=True) if a != b]


def sides(random: np.random.Generator, edges: Int64, count: int = 400) -> tuple[Int64, Int64]:
    """Return pairs of active nodes of one community, and of two."""
    active = np.unique(edges)
    left, right = random.choice(active, count), random.choice(active, count)
    pairs = np.stack((left, right), axis=1)[left != right]
    same = (pairs[:, 0] + pairs[:, 1]) % 2 == 0
    return pairs[same], pairs[~same]
