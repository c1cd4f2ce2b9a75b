"""The graph as plain arrays in the order of the user's ids: saved in files, and covered by digests."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dygcn.engine.graph.constants import LOOP
from dygcn.engine.graph.pairs import weights_left
from dygcn.engine.graph.staging import StagedPairs
from dygcn.engine.graph.store import Graph
from dygcn.engine.graph.transaction import Transaction
from dygcn.engine.records import Bool, Float32, Float64, IdColumn, Int32, Int64, Nodes, Parts
from dygcn.errors import DamagedFolder


@dataclass(frozen=True, slots=True)
class GraphImage:
    """A graph without internal ids: `a` and `b` are positions in `ids`."""

    ids: IdColumn  # (n,) sorted
    own: Bool  # (n,) has features of its own
    a: Int32  # (e,) position of one end (directed: the source)
    b: Int32  # (e,) position of the other; rows sorted by (a, b)
    weight: Int64  # (e,) stored weight: above 0 an edge, below 0 a ghost
    ghost_weight: Int64  # (g,) full weight, for the rows whose weight is below 0, in their order
    ghost_t: Float64  # (g,) time of removal
    clock: float | None
    contact: Float64  # (n,) time of the last contact, minus infinity without one; (0,) if times are not kept
    activity: Float32  # (n,) count of contacts as of the last; (0,)
    pair_t: Float64  # (e,) the same of pairs; (0,)
    pair_count: Float32  # (e,); (0,)
    parts: Parts | None = None  # of edges, by row; None: without relations

    def arranged(self) -> GraphImage:
        """Return the image with sorted edges."""
        return self.with_rows(np.argsort(self.a.astype(np.int64) << 32 | self.b))

    def with_rows(self, rows: Int64) -> GraphImage:
        """Return the image with only these edges, in this order, and all nodes."""
        faded = self.weight < 0
        ghosts = (np.cumsum(faded) - 1)[rows[faded[rows]]]
        places = dict.fromkeys(("a", "b", "weight"), rows) | dict.fromkeys(
            ("ghost_weight", "ghost_t"), ghosts
        )
        if len(self.pair_t):
            places |= {"pair_t": rows, "pair_count": rows}
        place = np.full(len(self.a), -1, np.int64)
        place[rows] = np.arange(len(rows))
        parts = None if self.parts is None else self.parts.placed(place)
        chosen: dict[str, Any] = {name: getattr(self, name)[at] for name, at in places.items()}
        return replace(self, **chosen, parts=parts)


def take_image(graph: Graph) -> tuple[GraphImage, Nodes]:
    """Return the sorted image of a graph, and its nodes in the order of `ids`."""
    image, nodes = take_loose_image(graph)
    return image.arranged(), nodes


def take_loose_image(graph: Graph) -> tuple[GraphImage, Nodes]:
    """Return an image with unsorted edges: quick, and in arrays of its own."""
    nodes = graph.nodes()
    rank = np.empty(graph.ids.high, np.int32)
    rank[nodes] = np.arange(len(nodes), dtype=np.int32)
    a, b, weight = graph.edges()
    first, second = rank[a], rank[b]
    if not graph.directed:
        first, second = np.minimum(first, second), np.maximum(first, second)
    if graph.memory is None:
        full, t = np.empty(0, np.int64), np.empty(0)
    else:
        ghosts = weight < 0
        full, t = graph.memory.recall(a[ghosts], b[ghosts])
    contacts = graph.edge_contacts() if graph.contacts is None else graph.contacts.of(nodes)
    names, own, clock = graph.ids.names(nodes), graph.owns(nodes), graph.clock
    times = *contacts, *graph.edge_contacts()
    parts = None if graph.relations is None else graph.relations.of(a, b)
    image = GraphImage(names, own, first, second, weight, full, t, clock, *times, parts)
    return image, nodes


def build_graph(image: GraphImage, graph: Graph) -> Nodes:
    """Fill an empty graph from an image; return the nodes in the order of its ids.

    Raises `DamagedFolder` if the image contradicts itself.
    """
    _check(image, graph)
    nodes = graph.intern(image.ids)
    if (np.bincount(nodes) > 1).any():
        raise DamagedFolder("the saved graph has an id twice")
    _fill(graph, image, nodes)
    if len(graph) != len(nodes):
        raise DamagedFolder("the saved graph has a node with neither an edge nor features")
    return nodes


def stage_pairs(
    image: GraphImage,
    graph: Graph,
    nodes: Nodes,
    named: Nodes,
    touched: tuple[Nodes, Float64, Float32] | None,
    own: int | None = None,
) -> StagedPairs:
    """Return the edges and ghosts of an image by nodes; the graph records how fine their weights are.

    `nodes` are those of the image's ids. `named`, `touched`, `own`: see `StagedPairs`; the named nodes belong
    to no pair.
    """
    count, faded = len(image.a), image.weight < 0
    ghosts, times = np.zeros(count, np.int64), np.zeros(count)
    ghosts[faded], times[faded] = image.ghost_weight, image.ghost_t
    for weights in (image.weight[~faded], ghosts):
        graph.note_bits(weights)
    now = -np.inf if image.clock is None else image.clock
    loops = np.full(len(named), LOOP, np.int32)
    pairs = *graph.canonical(nodes[image.a], nodes[image.b]), image.weight, image.pair_t, image.pair_count
    staged = StagedPairs(*pairs, named, loops, ghosts, times, now, now, own=own, touched=touched)
    staged.parts = image.parts
    return staged


def _fill(graph: Graph, image: GraphImage, nodes: Nodes) -> None:
    touched = nodes, image.contact, image.activity
    staged = stage_pairs(image, graph, nodes, nodes[image.own], touched, own=1)
    Transaction(graph).write_pairs(staged, np.zeros(len(image.a), np.int64))


def _check(image: GraphImage, graph: Graph) -> None:
    n, count = len(image.ids), len(image.a)
    if not count == len(image.b) == len(image.weight) or len(image.own) != n:
        raise DamagedFolder("the saved graph has columns of different lengths")
    ends_inside = count == 0 or bool(
        min(image.a.min(), image.b.min()) >= 0 and max(image.a.max(), image.b.max()) < n
    )
    pair: Int64 = image.a.astype(np.int64) << 32 | image.b
    faults = {
        "ids of the wrong type": n > 0 and image.ids.kind != graph.ids.kind,
        "an edge to a node that is not there": not ends_inside,
        "an edge twice, or out of order": bool((np.diff(pair) <= 0).any()),
        "a self loop or a swapped edge": bool((image.a == image.b).any())
        or (not graph.directed and bool((image.a > image.b).any())),
        "an edge without a weight, or with too much": bool(
            ((image.weight == 0) | (image.weight >= graph.limit) | (image.weight <= -graph.limit)).any()
        ),
        "weights beyond what integer sums can carry": ends_inside and _is_overweight(image, graph),
        "a clock that is not a number": image.clock is not None and not np.isfinite(image.clock),
        "ghosts that do not fit": not _ghosts_fit(image, graph),
        "contacts that do not fit": not _contacts_fit(image, graph),
        "relations that do not fit": not _parts_fit(image, graph),
    }
    for fault, found in faults.items():
        if found:
            raise DamagedFolder(f"the saved graph has {fault}")


def _is_overweight(image: GraphImage, graph: Graph) -> bool:
    """Return whether a node carries too much, computed in floats, which cannot wrap."""
    weight = np.abs(image.weight.astype(np.float64))
    carried = np.bincount(image.a, weight, len(image.ids))
    if not graph.directed:
        carried += np.bincount(image.b, weight, len(image.ids))
    return bool((carried >= graph.limit).any())


def _contacts_fit(image: GraphImage, graph: Graph) -> bool:
    clock = -np.inf if image.clock is None else image.clock
    for last, count, size in (
        (image.contact, image.activity, len(image.ids)),
        (image.pair_t, image.pair_count, len(image.a)),
    ):
        if not len(last) == len(count) == (0 if graph.contacts is None else size):
            return False
        if not ((last <= clock) & (count >= 0) & (count < np.inf)).all():  # nor NaN
            return False
    return True


def _parts_fit(image: GraphImage, graph: Graph) -> bool:
    parts, relations = image.parts, graph.relations
    if parts is None or relations is None:
        return parts is None and relations is None
    pair, relation, weight = parts.pair, parts.relation, parts.weight
    if not len(pair) == len(relation) == len(weight):
        return False
    if len(pair) and not (
        0 <= pair.min() <= pair.max() < len(image.a)
        and 0 <= relation.min() <= relation.max() < len(relations.names)
    ):
        return False
    order, total = pair * len(relations.names) + relation, np.zeros(len(image.a), np.int64)
    if (np.diff(order) <= 0).any() or not ((weight > 0) & (weight < graph.limit)).all():
        return False
    np.add.at(total, pair, weight)
    return bool((total == np.maximum(image.weight, 0)).all())


def _ghosts_fit(image: GraphImage, graph: Graph) -> bool:
    """Return whether every ghost has the weight that its full weight and its age give."""
    faded = image.weight[image.weight < 0]
    if not len(faded) == len(image.ghost_weight) == len(image.ghost_t):
        return False
    if len(faded) == 0:
        return True
    if graph.memory is None or image.clock is None or not np.isfinite(image.ghost_t).all():
        return False
    if (image.ghost_t > image.clock).any() or (image.ghost_weight <= 0).any():
        return False
    left = weights_left(image.ghost_weight, image.ghost_t, image.clock, graph.memory.half_life)
    return bool((left == -faded).all())
