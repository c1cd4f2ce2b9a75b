"""Pictures of an embedding, by matplotlib (extra ``plot``)."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from dygcn._extras import extra
from dygcn.live.layout import communities, move_map, neighbour_map

if TYPE_CHECKING:
    from dygcn.engine.models import State
    from dygcn.engine.records import Float32, Float64, Nodes

MOST = 2_000  # nodes in a picture
_COLORS = "tab10"
_GREY = "0.8"
_SIGNS = "o^sDvP*X"  # one a kind
_NAMED = 5  # arrows
_EDGES = 2_000  # that are drawn at most: more would be a grey area
_FAINTEST = 1e-4  # of the longest distance, which has the last colour


def busiest(state: State, most: int = MOST) -> Nodes:
    """Return up to so many nodes: those with the most edges, of equal ones those with the first ids."""
    nodes = state.graph.nodes()
    return nodes[np.sort(np.argsort(-state.graph.pull.degrees(nodes), kind="stable")[:most])]


def plot_map(
    state: State, nodes: Nodes, vectors: Float32, names: int, ax: Any, count: int, *, asked: bool
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


def _draw_nodes(state: State, nodes: Nodes, place: Float64, label: Any, size: Float64, ax: Any) -> None:
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


def plot_moves(names: list[Any], before: Float32, after: Float32, distance: Float64, ax: Any) -> Any:
    """Draw where vectors were, and an arrow as long as the way of each, the longest named; return the axes.

    See `move_map` for what lengths mean; the title says how many times longer arrows are than ways, and
    colours are on a logarithmic scale.
    """
    start, move, times = move_map(before, after, distance)
    ax, norm = new_axes(ax), _log_colors(distance)
    ax.set_aspect("equal", adjustable="datalim")
    ax.scatter(*start.T, c=_GREY, s=10, linewidths=0)
    ax.quiver(
        *start.T, *move.T, distance, norm=norm, angles="xy", scale_units="xy", scale=1, width=3e-3, zorder=3
    )
    drawn = ax.scatter(*(start + move).T, c=distance, norm=norm, s=10, linewidths=0, zorder=2)
    ax.figure.colorbar(drawn, ax=ax, label="distance moved")
    far = np.argsort(-distance, kind="stable")[:_NAMED]
    _write_names([names[row] for row in far], (start + move)[far], ax)
    longer = f", drawn {times:g} times longer" if times != 1 else ""
    ax.set_title(f"{len(names):,} vectors moved; an arrow is as long as the distance{longer}", fontsize=10)
    return ax


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


def _log_colors(distance: Float64) -> Any:
    from matplotlib.colors import LogNorm  # noqa: PLC0415

    moved = distance[distance > 0]
    most = float(moved.max(initial=0)) or 1.0
    least = max(float(moved.min(initial=most)), most * _FAINTEST)
    return LogNorm(min(least, most / 10), most, clip=True)


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


def _draw_edges(state: State, nodes: Nodes, place: Float64, ax: Any) -> None:
    row = np.full(state.graph.ids.high, -1)
    row[nodes] = np.arange(len(nodes))
    a, b, weight = state.graph.edges()
    both = np.flatnonzero((weight > 0) & (row[a] >= 0) & (row[b] >= 0))
    both = both[:: 1 + len(both) // _EDGES]
    ends = place[np.stack((row[a[both]], row[b[both]]), axis=1)]
    gaps = np.full((len(ends), 1, 2), np.nan)
    x, y = np.concatenate((ends, gaps), axis=1).reshape(-1, 2).T
    ax.plot(x, y, color=_GREY, linewidth=0.3, zorder=1)
