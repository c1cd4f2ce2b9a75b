"""The slow twin of the exact rule, in dense float64 matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.features.inputs import Hashed
from dygcn.engine.graph.ids import IdMap

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

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
    nodes = names.intern(names.read(list(ids))) if len(ids) else np.empty(0, np.int32)
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
