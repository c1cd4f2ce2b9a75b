"""Slow twins: of the exact rule in dense float64 matrices, of a filter in Python's integers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dygcn.engine.events import id_column
from dygcn.engine.features.inputs import Hashed
from dygcn.engine.filter.head import GREATEST_MESSAGE, MESSAGE_SCALE, MOST_EDGES, MOST_OCTAVES, WINDOW
from dygcn.engine.graph.ids import IdMap

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from dygcn.engine.models.model import Model
    from dygcn.engine.records import Bool, Float64
    from dygcn.live.embedding import LiveEmbedding


def dense_messages(A: Float64, x: Float64, has: Bool, orders: int) -> list[tuple[Float64, Bool]]:
    """Return h_0..h_K, the means over the neighbours that have a message, and which nodes have one.

    Row v of the weights `A` holds the nodes that v aggregates; `has` are the nodes with features in `x`.

    Examples
    --------
    >>> A = np.array([[0.0, 1.0, 3.0], [1.0, 0.0, 0.0], [3.0, 0.0, 0.0]])
    >>> h = dense_messages(A, np.array([[1.0], [2.0], [6.0]]), np.array([True, True, True]), 1)
    >>> h[1][0].tolist()
    [[5.0], [1.0], [1.0]]
    """
    levels = [(np.where(has[:, None], x, 0.0), has)]
    for _ in range(orders):
        h, present = levels[-1]
        degree = A @ present.astype(np.float64)
        total = A @ h
        mean = np.divide(total, degree[:, None], out=np.zeros_like(total), where=degree[:, None] > 0)
        levels.append((mean, degree > 0))
    return levels


def dense_vectors(
    levels: Sequence[tuple[Float64, Bool]], weights: Sequence[Float64], floor: float
) -> Float64:
    """Return ``z = sum over k of unit(h_k) @ W_k``."""
    z = np.zeros((len(levels[0][0]), weights[0].shape[1]))
    for (h, _), matrix in zip(levels, weights, strict=True):
        length = np.maximum(np.linalg.norm(h, axis=1, keepdims=True), floor)
        z += (h / length) @ matrix
    return z


def walk_vectors(levels: Sequence[tuple[Float64, Bool]], model: Model, ids: Sequence[Hashable]) -> Float64:
    """Return ``z = unit(sum over k of w_k unit(h_k))``, block by block; signs where no row reaches a node."""
    z = np.zeros_like(levels[0][0])
    for columns, share in model.blocks:
        block = np.zeros_like(z[:, columns])
        for (row, _), weight in zip(levels, model.weights, strict=True):
            h = row[:, columns]
            block += (
                float(weight[0, 0]) * h / np.maximum(np.linalg.norm(h, axis=1, keepdims=True), model.floor)
            )
        length = np.linalg.norm(block, axis=1, keepdims=True)
        z[:, columns] = share * np.divide(block, length, out=np.zeros_like(block), where=length > 0)
    lost = np.flatnonzero(~z.any(axis=1))
    names = IdMap(model.ids)
    nodes = names.intern(id_column(list(ids))) if len(ids) else np.empty(0, np.int32)
    z[lost] = Hashed(model.width, model.seed).units(nodes[lost], names)[0] / np.sqrt(model.width)
    return z


def twin_vectors(live: LiveEmbedding, edges: Mapping[tuple[Hashable, Hashable], float]) -> Float64:
    """Return the expected ``live.vectors(live.ids())`` on this graph, computed densely."""
    ids = live.ids().tolist()
    place = {node: row for row, node in enumerate(ids)}
    A = np.zeros((len(ids), len(ids)))
    for (a, b), weight in edges.items():
        A[place[a], place[b]] = weight
        if not live.model.directed:
            A[place[b], place[a]] = weight
    x = live.features(ids).astype(np.float64) if ids else np.zeros((0, live.model.width))
    has: Bool = np.isfinite(x[:, 0])
    levels = dense_messages(A, x, has, live.model.orders)
    if live.model.table is not None:
        return walk_vectors(levels, live.model, ids)
    weights = [live.model.matrices[f"W{k}"].astype(np.float64) for k in range(live.model.orders + 1)]
    return dense_vectors(levels, weights, live.model.floor)


def dense_sums(
    edges: Mapping[tuple[Hashable, Hashable], float | None],
    rows: Mapping[Hashable, Sequence[int]],
    width: int,
    half_lives: tuple[float, float],
    clock: float | None,
) -> dict[str, Any]:
    """Return the sums of a filter, by node.

    Edges are (user, item) -> time; of a graph without kinds every edge both ways. Half-lives are of edges in
    sums and in counts; 0: they do not age.

    Examples
    --------
    >>> found = dense_sums({("ann", "tea"): None, ("bob", "tea"): None}, {"tea": [3]}, 1, (0.0, 0.0), None)
    >>> found["said"], found["total"], found["recent"]
    ({'ann': [48], 'bob': [48]}, {'tea': [96]}, {'tea': 2})
    """
    taste: dict[Hashable, list[int]] = {}
    said: dict[Hashable, list[int]] = {}
    total: dict[Hashable, list[int]] = {}
    recent: dict[Hashable, int] = {}
    for one in dict.fromkeys(one for one, _ in edges):
        own = [answer for who, answer in edges if who == one]
        taste[one] = _added([0] * width, ((1, rows[answer]) for answer in own if answer in rows))
        factor = MESSAGE_SCALE / math.sqrt(len(own)) if len(own) <= MOST_EDGES else 0.0
        whole = (round(number * factor) for number in taste[one])
        said[one] = [max(-GREATEST_MESSAGE, min(GREATEST_MESSAGE, number)) for number in whole]
    for answer in dict.fromkeys(answer for _, answer in edges):
        who = [(one, t) for (one, other), t in edges.items() if other == answer]
        total[answer] = _added([0] * width, ((weight(t, half_lives[0], clock), said[one]) for one, t in who))
        recent[answer] = sum(weight(t, half_lives[1], clock) for _, t in who)
    return {"taste": taste, "said": said, "total": total, "recent": recent}


def weight(t: float | None, half_life: float, clock: float | None) -> int:
    """Return the weight of an edge, in units of the lowest octave that counts at the clock."""
    if not half_life or t is None or clock is None:
        return 1
    age, newest = (max(-MOST_OCTAVES, min(MOST_OCTAVES, one / half_life)) for one in (t, clock))
    octave, base = math.floor(age), math.floor(newest) - WINDOW + 1
    if octave < base:
        return 0
    return int(128.0 * math.exp2(age - octave)) << (octave - base)


def _added(start: list[int], parts: Iterable[tuple[int, Sequence[int]]]) -> list[int]:
    for factor, row in parts:
        start = [total + factor * number for total, number in zip(start, row, strict=True)]
    return start
