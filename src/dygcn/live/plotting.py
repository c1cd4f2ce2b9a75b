"""Maps of vectors in two dimensions, the same at every call, and pictures by matplotlib (extra ``plot``)."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np

from dygcn._extras import extra
from dygcn.engine.models.contracts import StateReader
from dygcn.engine.records import Bool, Float32, Float64, Int64, Nodes

MOST = 2_000  # nodes in a picture
_COLORS = "tab10"
_GREY = "0.8"
_SIGNS = "o^sDvP*X"  # one a kind
_EDGES = 2_000  # that are drawn at most: more would be a grey area
_NEIGHBOURS, _STEPS, _PUSHES = 10, 200, 5
_STEPS_AGAIN, _FIRST_AGAIN = 30, 0.3  # of a map that is made again: how many steps, and the first of them
_LONGEST = 4.0  # that a point moves in a step
_STRENGTH = 12  # of pushes; with less, communities lie on each other


def unit_rows(vectors: Float32) -> Float32:
    """Return rows of length one, zero where a row is zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    rows: Float32 = vectors / np.maximum(lengths, 1e-12)
    return rows


def principal_plane(vectors: Float32) -> Float64:
    """Project rows on the plane in which they differ most, (n, 2), with stable signs."""
    flat = np.zeros((len(vectors), 2))
    if len(vectors):
        centred = unit_rows(vectors)
        centred = centred - centred.mean(axis=0)
        _, directions = np.linalg.eigh(centred.T @ centred)
        two: Float64 = directions[:, ::-1][:, :2]
        two = two * np.where(two[np.abs(two).argmax(axis=0), range(two.shape[1])] < 0, -1, 1)
        flat[:, : two.shape[1]] = centred @ two
    return flat


def neighbour_map(vectors: Float32, seed: int = 0, start: Float64 | None = None) -> Float64:
    """Place rows in a plane, (n, 2), so that those with near directions lie together.

    Begins with `principal_plane`, or with places that rows had, near which they then stay; then each row is
    drawn to its ten nearest and pushed away from random ones. For up to some thousand rows: all pairs are
    compared.
    """
    n = len(vectors)
    count = min(_NEIGHBOURS, n - 1)
    place = principal_plane(vectors) if start is None else start.copy()
    if count < 1:
        return place
    if start is None:
        place *= 4 / max(place.std(), 1e-12)
    units, random = unit_rows(vectors), np.random.default_rng(seed)
    near = units @ units.T
    np.fill_diagonal(near, -2)
    a, b = np.repeat(np.arange(n), count), np.argpartition(-near, count - 1, axis=1)[:, :count].ravel()
    steps, first = (_STEPS, 1.0) if start is None else (_STEPS_AGAIN, _FIRST_AGAIN)
    for step in range(steps):
        apart = place[a] - place[b]
        pull = -2 * apart / (1 + _squares(apart))
        force = _sums(a, pull, n) - _sums(b, pull, n)
        for _ in range(_PUSHES):
            apart = place - place[random.integers(0, n, n)]
            push = _STRENGTH * count / _PUSHES * apart / ((0.1 + _squares(apart)) * (1 + _squares(apart)))
            force += push.clip(-_LONGEST, _LONGEST)
        place += first * (1 - step / steps) * (force / count).clip(-_LONGEST, _LONGEST)
    return place


def _sums(rows: Int64, values: Float64, n: int) -> Float64:
    """Return the sum of the values of each row, (n, 2)."""
    x, y = (np.bincount(rows, values[:, axis], n) for axis in (0, 1))
    found: Float64 = np.stack((x, y), axis=1)
    return found


def _squares(rows: Float64) -> Float64:
    found: Float64 = (rows**2).sum(axis=1, keepdims=True)
    return found


def place_beside(vectors: Float32, place: Float64, others: Float32, count: int = 5) -> Float64:
    """Place new rows on a map: each at the weighted mean of its nearest rows by cosine."""
    count = min(count, len(vectors))
    if count == 0 or len(others) == 0:
        return np.zeros((len(others), 2))
    cosine = unit_rows(others) @ unit_rows(vectors).T
    near = np.argpartition(-cosine, count - 1, axis=1)[:, :count]
    weight = np.take_along_axis(cosine, near, axis=1).astype(np.float64).clip(1e-6) ** 4
    found: Float64 = (place[near] * weight[:, :, None]).sum(axis=1) / weight.sum(axis=1, keepdims=True)
    return found


def turn_onto(place: Float64, before: Float64, known: Bool) -> Float64:
    """Turn, mirror and shift points so that known rows come as near as possible to their old places."""
    middle, then = place[known].mean(axis=0), before[known].mean(axis=0)
    left, _, right = np.linalg.svd((place[known] - middle).T @ (before[known] - then))
    found: Float64 = (place - middle) @ (left @ right) + then
    return found


def keep_labels(label: Int64, before: Int64, count: int) -> Int64:
    """Rename communities so that most rows keep their old label; -1 in `before` marks a new row."""
    known = before >= 0
    shared = np.zeros((count, count), np.int64)
    np.add.at(shared, (label[known], before[known]), 1)
    name = np.full(count, -1, np.int64)
    for flat in np.argsort(-shared, axis=None, kind="stable"):
        now, then = divmod(int(flat), count)
        if name[now] < 0 and then not in name:
            name[now] = then
    return name[label]


def communities(vectors: Float32, count: int = 8, seed: int = 0) -> Int64:
    """Return a community for each row, (n,), by k-means of directions; 0 is the largest."""
    units, random = unit_rows(vectors), np.random.default_rng(seed)
    count = min(count, len(units))
    centres = units[:1]
    while len(centres) < count:
        far = (1.001 - (units @ centres.T).max(axis=1)).clip(1e-9).astype(np.float64)
        centres = np.concatenate((centres, units[[random.choice(len(units), p=far / far.sum())]]))
    label: Int64 = np.zeros(len(units), np.int64)
    for _ in range(25 if count else 0):
        label = (units @ centres.T).argmax(axis=1)
        sums = np.zeros_like(centres)
        np.add.at(sums, label, units)
        centres = np.where(np.abs(sums).sum(axis=1, keepdims=True) > 0, unit_rows(sums), centres)
    sizes = np.bincount(label, minlength=count)
    rank = np.empty(count, np.int64)
    rank[np.argsort(-sizes, kind="stable")] = np.arange(count)
    return rank[label] if count else label


def busiest(state: StateReader, most: int = MOST) -> Nodes:
    """Return up to so many nodes: those with the most edges, of equal ones those with the first ids."""
    nodes = state.graph.nodes()
    return nodes[np.sort(np.argsort(-state.graph.pull.degrees(nodes), kind="stable")[:most])]


def plot_map(
    state: StateReader, nodes: Nodes, vectors: Float32, names: int, ax: Any, count: int, *, asked: bool
) -> Any:
    """Draw nodes in two dimensions with their edges and communities; return the axes.

    The title calls them the busiest nodes unless they were asked for by id.
    """
    place, label = neighbour_map(vectors), communities(vectors, count)
    degree = state.graph.pull.degrees(nodes)
    ax = new_axes(ax)
    _draw_edges(state, nodes, place, ax)
    size = 4 + 40 * np.sqrt(degree / max(int(degree.max(initial=1)), 1))
    _draw_nodes(state, nodes, place, label, size, ax)
    busy = np.argsort(-degree, kind="stable")[:names]
    _write_names(state.graph.ids.shown(state.graph.ids.names(nodes[busy])).tolist(), place[busy], ax)
    kind = "nodes" if asked or len(nodes) == len(state.graph) else "busiest nodes"
    ax.set_title(
        f"{len(nodes):,} {kind} of {len(state.graph):,}; colours are communities of vectors", fontsize=10
    )
    return ax


def _draw_nodes(state: StateReader, nodes: Nodes, place: Float64, label: Any, size: Float64, ax: Any) -> None:
    """Draw a dot for each node; where nodes have kinds, a sign for each kind, with a legend."""
    ids, how = state.graph.ids, {"cmap": _COLORS, "vmin": -0.5, "vmax": 9.5, "linewidths": 0, "zorder": 2}
    if ids.kinds is None:
        ax.scatter(*place.T, c=label, s=size, **how)
        return
    for kind, sign in zip(ids.kinds.names, cycle(_SIGNS), strict=False):
        own = ids.of_kind(nodes, kind)
        ax.scatter(*place[own].T, c=label[own], s=size[own], marker=sign, label=kind, **how)
    for handle in ax.legend(loc="best", fontsize=8).legend_handles:
        handle.set_sizes([30])
        handle.set_array(None)
        handle.set_color("0.4")


def _write_names(names: list[Any], place: Float64, ax: Any) -> None:
    """Write names beside their places, but none that would lie over one before it."""
    ax.autoscale_view()  # places on the canvas are known only then
    taken: list[Any] = []
    for name, at in zip(names, place, strict=True):
        text = ax.annotate(str(name), at, (3, 3), textcoords="offset points", fontsize=8, zorder=4)
        box = text.get_window_extent()
        if any(box.overlaps(other) for other in taken):
            text.remove()
        else:
            taken.append(box)


def new_axes(ax: Any) -> Any:
    """Return axes without ticks, new ones unless some are given."""
    if ax is None:
        with extra("plot"):
            from matplotlib import pyplot  # noqa: PLC0415
        _, ax = pyplot.subplots(figsize=(8, 6), layout="constrained")
    ax.set_xticks([])
    ax.set_yticks([])
    for side in ax.spines.values():
        side.set_visible(False)
    return ax


def _draw_edges(state: StateReader, nodes: Nodes, place: Float64, ax: Any) -> None:
    row = np.full(state.graph.ids.high, -1)
    row[nodes] = np.arange(len(nodes))
    a, b, weight = state.graph.edges()
    both = np.flatnonzero((weight > 0) & (row[a] >= 0) & (row[b] >= 0))
    both = both[:: 1 + len(both) // _EDGES]
    ends = place[np.stack((row[a[both]], row[b[both]]), axis=1)]
    gaps = np.full((len(ends), 1, 2), np.nan)
    x, y = np.concatenate((ends, gaps), axis=1).reshape(-1, 2).T
    ax.plot(x, y, color=_GREY, linewidth=0.3, zorder=1)
