"""The inner loop of skip-gram with negative sampling on arcs, as LINE runs it: one arc after the other."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar, cast

import numpy as np

from dygcn._extras import extra
from dygcn.engine.records import Bool, Float32, Int64

with extra("evidence", of="dygcn-lab"):
    import numba


_F = TypeVar("_F", bound="Callable[..., object]")


def _compiled(function: _F) -> _F:
    try:
        return cast("_F", numba.njit(cache=True, fastmath=True)(function))
    except RuntimeError:  # neither the package's folder nor the user's cache can be written
        return cast("_F", numba.njit(fastmath=True)(function))


@_compiled
def descend(
    rows: Float32,
    others: Float32,
    arcs: Int64,
    noise: Int64,
    moving: Bool,
    place: Int64,
    past: Float32,
    rate: float,
    keep: float,
) -> None:
    """Descend on -log s(x_u y_v) - sum over noise of log s(-x_u y_n), in place.

    `rows`, `others`: (nodes, dim) x and y; only rows of moving nodes are written; `arcs`, `noise`: (m, 2)
    pairs u, v and (m, k) noise nodes of each; `place`, `past`: where a node's former row of x is found in
    `past`, -1: nowhere. x_u is drawn back to it; `rate`, `keep`: length of a step, and how strongly x_u is
    drawn back.
    """
    dim = rows.shape[1]
    gathered = rows[0].copy()
    for arc in range(len(arcs)):
        node = arcs[arc, 0]
        gathered[:] = 0
        for draw in range(noise.shape[1] + 1):
            other = arcs[arc, 1] if draw == 0 else noise[arc, draw - 1]
            if draw > 0 and other == arcs[arc, 1]:
                continue
            near = rows[node, 0] * others[other, 0]
            for column in range(1, dim):
                near += rows[node, column] * others[other, column]
            near = min(max(near, -30.0), 30.0)
            wanted = 1.0 if draw == 0 else 0.0
            pull = np.float32(rate * (wanted - 1.0 / (1.0 + math.exp(-near))))
            for column in range(dim):
                gathered[column] += pull * others[other, column]
            if moving[other]:
                for column in range(dim):
                    others[other, column] += pull * rows[node, column]
        if moving[node]:
            before = place[node]
            for column in range(dim):
                rows[node, column] += gathered[column]
                if before >= 0:
                    rows[node, column] -= 2 * rate * keep * (rows[node, column] - past[before, column])
