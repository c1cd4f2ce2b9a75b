"""The record of changes: which nodes moved, in order, each node once. Every reader has its own position.

State and reads are exact. Feed, sinks and index follow what is announced: with a tolerance, the listeners of
a heavy node count as moved when its message is further than the tolerance from what was announced of it last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dygcn.engine.features.inputs import GRID_BITS
from dygcn.engine.graph import Graph
from dygcn.engine.graph.ids import grown, replace_together
from dygcn.engine.models.contracts import StateReader
from dygcn.engine.propagation.sums import heavy_from
from dygcn.engine.records import Bool, Changed, Float32, Float64, IdColumn, Int32, Int64, Nodes
from dygcn.errors import FeatureError

_LEAST = 16  # capacity, in entries
_LAST_NODE = (1 << 31) - 1
_MOST_WAITING = 1 << 16
_NOBODY = np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class Moves:
    """Nodes in the order in which they moved last."""

    positions: Int64  # (n,) growing
    sequences: Int64  # (n,) growing
    nodes: Nodes  # (n,) growing where the sequence is the same


@dataclass(frozen=True, slots=True)
class FeedImage:
    """When each node moved last and when each id left, without internal ids: the part of a snapshot."""

    moved: Int64  # (n,) the sequence of its last move, for each node in the order of the image's ids
    left: IdColumn  # (m,) ids that left, in that order
    left_at: Int64  # (m,) at which sequence, growing
    unsaid: Unsaid | None = None  # moves that a tolerance keeps back; None: none, or unknown


class ChangeRecord:
    """Which nodes moved, ordered by the sequence at which each moved last, then by their numbers.

    A writer only appends what an update did; a reader pays for sorting it, and for looking up the nodes that
    listen to a heavy node that moved. A listener that came or left since has an entry of its own, of a later
    sequence, so it does not matter when that is looked up.

    An entry has a position, a number that is given once. A reader that has seen all entries up to a position
    finds what moved since behind it. An entry whose node moved again is void; when the arrays are full, void
    entries are taken out. So appending costs the rows appended, reading the rows read, both amortised, and
    the memory is that of the nodes.
    """

    def __init__(self, nodes: int, sequence: int | Int64 = 0, graph: Graph | None = None) -> None:
        self._last = self._count = nodes
        self._graph = graph
        sequences: Int64 = np.full(nodes, sequence, np.int64)
        order = np.argsort(sequences, kind="stable")
        self._nodes: Nodes = order.astype(np.int32)
        self._sequences: Int64 = sequences[order]
        self._positions: Int64 = np.arange(1, nodes + 1)
        self._moved_at: Int64 = np.empty(nodes, np.int64)  # by node, the position of its entry; 0: none
        self._moved_at[order] = self._positions
        self._waiting: list[tuple[Nodes, Nodes, int]] = []  # who moved, heavy ones whose listeners did, when
        self._rows = 0  # that wait
        self.tick = self._pulled_tick = 0
        self._divided = 0 if graph is None else graph.divided
        self._ticks: Int64 = np.zeros(nodes, np.int64)  # by node, when its sums or its arcs changed last

    # ---- writing -----------------------------------------------------------------------------------

    def append(self, nodes: Nodes, sequence: int, heavy: Nodes = _NOBODY, turned: Nodes = _NOBODY) -> None:
        """Record that nodes and the listeners of heavy ones moved at a sequence; sequences never decrease.

        `turned` are nodes that pull a message no longer, or begin to.
        """
        self.note(nodes, heavy, turned)
        self.announce(nodes, sequence, heavy)

    def note(self, nodes: Nodes, heavy: Nodes, turned: Nodes) -> None:
        """Mark the vectors of these nodes as changed, for `is_fresh` alone."""
        self.tick += 1
        most = max((int(some.max()) for some in (nodes, turned) if len(some)), default=-1)
        if most >= len(self._ticks):
            self.reserve(most + 1)
        self._ticks[nodes] = self.tick
        if len(turned):
            self._ticks[turned] = self.tick
        if len(heavy):
            self._pulled_tick = self.tick

    def announce(self, nodes: Nodes, sequence: int, heavy: Nodes = _NOBODY) -> None:
        """Record that nodes and the listeners of heavy nodes moved, for `behind`."""
        if len(nodes) or len(heavy):
            self._waiting.append((nodes, heavy, sequence))
            self._rows += len(nodes) + len(heavy)
            if self._rows > max(_MOST_WAITING, len(self._moved_at)):
                self._settle()

    def reserve(self, high: int) -> None:
        """Grow to nodes below `high`."""
        moved_at, ticks = grown(self._moved_at, high), grown(self._ticks, high)
        replace_together(self, _moved_at=moved_at, _ticks=ticks)

    # ---- reading -----------------------------------------------------------------------------------

    def is_fresh(self, nodes: Nodes, read_at: Int64) -> Bool:
        """Return which vectors have not changed since they were read at these ticks; below 0: never read."""
        self._look_for_tiers()
        fresh: Bool = self._ticks[nodes] <= read_at
        if self._graph is not None and self._pulled_tick:
            fresh &= (self._graph.pull.upper[nodes] == 0) | (self._pulled_tick <= read_at)
        return fresh

    def one_is_fresh(self, node: int, read_at: int) -> bool:
        """Return the same for one node."""
        self._look_for_tiers()
        if self._ticks[node] > read_at:
            return False
        graph = self._graph
        return graph is None or self._pulled_tick <= read_at or not graph.pull.upper[node]

    def _look_for_tiers(self) -> None:
        """Mark every vector as stale if the graph's tiers were rebuilt: other nodes pull messages then."""
        if self._graph is not None and self._graph.divided != self._divided:
            self._divided = self._graph.divided
            self.tick += 1
            self._ticks[:] = self.tick

    @property
    def last(self) -> int:
        """The position of the last entry: a reader at this position has seen everything."""
        self._settle()
        return self._last

    def _settle(self) -> None:
        """Sort the waiting entries into the record."""
        if not self._waiting:
            return
        waiting = self._waiting
        sizes = [len(nodes) for nodes, _, _ in waiting]
        moved = np.concatenate([nodes for nodes, _, _ in waiting])
        when = np.repeat(np.array([at for _, _, at in waiting]), sizes)
        heavies = [(heavy, at) for _, heavy, at in waiting if len(heavy)]
        if heavies and self._graph is not None:
            heavy = np.concatenate([some for some, _ in heavies])
            at = np.repeat(np.array([at for _, at in heavies]), [len(some) for some, _ in heavies])
            heavy, at = _latest(heavy, at)
            owner, listener, _ = self._graph.push.arcs(heavy)
            by_node = np.argsort(heavy)
            moved = np.concatenate((moved, listener))
            when = np.concatenate((when, at[by_node][np.searchsorted(heavy[by_node], owner)]))
        if not len(moved):  # hubs that lost all of their neighbours
            replace_together(self, _waiting=[], _rows=0)
            return
        nodes, sequences = _latest(moved, when)
        start = self._count
        if start and self._sequences[start - 1] == sequences[0]:  # numbers shall grow inside it
            start = int(np.searchsorted(self._sequences[:start], sequences[0]))
            others = self._nodes[self._current(start, self._count)]
            again = [(others, _NOBODY, int(sequences[0])), *waiting]
            replace_together(self, _waiting=again, _count=start)  # an interrupt after it shall lose none
            first = np.full(len(others), sequences[0])
            nodes, sequences = _latest(np.concatenate((others, nodes)), np.concatenate((first, sequences)))
        self._put(start, nodes, sequences)

    def _put(self, start: int, nodes: Nodes, sequences: Int64) -> None:
        """Write entries from a row on, and empty the list of waiting ones."""
        most = int(nodes.max())
        if most >= len(self._moved_at):
            self.reserve(most + 1)
        if start + len(nodes) > len(self._nodes):
            start = self._make_capacity(start, len(nodes))
        end, last = start + len(nodes), self._last + len(nodes)
        positions = np.arange(self._last + 1, last + 1)
        self._nodes[start:end], self._sequences[start:end] = nodes, sequences
        self._positions[start:end] = positions
        self._moved_at[nodes] = positions
        replace_together(self, _count=end, _last=last, _waiting=[], _rows=0)

    def _current(self, start: int, end: int) -> Int64:
        """Return which entries from a row to another are not void."""
        current = self._moved_at[self._nodes[start:end]] == self._positions[start:end]
        return np.flatnonzero(current) + start

    def _make_capacity(self, start: int, rows: int) -> int:
        """Remove void entries and reserve rows at the end; return where these begin."""
        kept = self._current(0, start)
        size = max(len(kept) + rows + max(len(kept), rows), _LEAST)
        arrays = {name: getattr(self, name) for name in ("_nodes", "_sequences", "_positions")}
        fresh = {
            name: np.concatenate((array[kept], np.zeros(size - len(kept), array.dtype)))
            for name, array in arrays.items()
        }
        replace_together(self, **fresh, _count=len(kept))
        return len(kept)

    def sequences_of(self, nodes: Nodes) -> Int64:
        """Return the sequence of the last move of each node; 0 where none is recorded."""
        self._settle()
        current = self._current(0, self._count)
        found = np.zeros(max(len(self._moved_at), int(nodes.max(initial=-1)) + 1), np.int64)
        found[self._nodes[current]] = self._sequences[current]
        return found[nodes]

    def position_at(self, sequence: int, node: int) -> int:
        """Return the position after all entries below a sequence and, at that sequence, up to a node."""
        self._settle()
        before = self._sequences[: self._count]
        low, high = np.searchsorted(before, sequence), np.searchsorted(before, sequence, "right")
        # As int32, or the array would be copied as int64.
        row = low + np.searchsorted(self._nodes[low:high], np.int32(min(node, _LAST_NODE)), "right")
        return int(self._positions[row - 1]) if row else 0

    def behind(
        self, position: int, most: int | None = None, wanted: Callable[[Nodes], Bool] | None = None
    ) -> Moves:
        """Return the nodes that moved after a position, the earliest move first."""
        self._settle()
        start, count = int(np.searchsorted(self._positions[: self._count], position, "right")), self._count
        look, rows = count if most is None else most, np.empty(0, np.int64)
        while start < count and (most is None or len(rows) < most):
            end = min(start + look, count)
            found = self._current(start, end)
            if wanted is not None:
                found = found[wanted(self._nodes[found])]
            rows = np.concatenate((rows, found))
            start, look = end, 2 * look
        rows = rows[:most]
        return Moves(self._positions[rows], self._sequences[rows], self._nodes[rows])


def _latest(nodes: Nodes, sequences: Int64) -> tuple[Nodes, Int64]:
    """Return each node once, with its latest sequence, in the order of sequences, then of nodes."""
    order = np.lexsort((sequences, nodes))
    ranked = nodes[order]
    order = order[np.append(ranked[1:] != ranked[:-1], True)]
    nodes, sequences = nodes[order], sequences[order]
    order = np.argsort(sequences, kind="stable")
    return nodes[order], sequences[order]


_ORDERS = 2


def check_orders(state: StateReader, tolerance: float) -> float:
    """Return the tolerance; raise FeatureError unless the rule is exact and has the orders for one."""
    if state.exact.orders != _ORDERS and tolerance:
        raise FeatureError(
            f"a tolerance is for models with orders={_ORDERS}, and this one has {state.exact.orders}: "
            "everything that moved is published; 0 is allowed"
        )
    return tolerance


@dataclass(frozen=True, slots=True)
class Unsaid:
    """Nodes whose message may differ from the announced one, and that one; by id, for a snapshot."""

    ids: IdColumn  # (n,)
    rows: Int32  # (n, width) on the grid


class Announcer:
    """The messages of heavy nodes as they were announced last.

    They follow from the state and `image`: for any node not in it, the present message was announced.
    """

    def __init__(self, state: StateReader, tolerance: float, unsaid: Unsaid | None = None) -> None:
        self._state, self.tolerance, self._heavy_from = state, tolerance, heavy_from()
        self._allowed = tolerance * state.exact.features.length
        self._said: dict[int, Int32] = {}  # messages of heavy nodes, and of those in `_unsaid`
        self._unsaid: set[int] = set()  # nodes whose message differs from the announced one
        self._say_all()
        if unsaid is not None:
            nodes = state.graph.find(unsaid.ids).tolist()
            self._said.update(zip(nodes, unsaid.rows, strict=True))
            self._unsaid.update(nodes)

    def image(self) -> Unsaid:
        """Return the nodes whose announced message may be outdated, for a snapshot."""
        nodes = sorted(self._unsaid)
        rows = np.array([self._said[node] for node in nodes], np.int32).reshape(-1, self._state.model.width)
        return Unsaid(self._state.graph.ids.names(np.array(nodes, np.int32)), rows)

    def _heavy_nodes(self, nodes: Nodes) -> Bool:
        """Return which nodes have enough arcs to be announced, whatever their tiers."""
        pull, push = self._state.graph.pull.count, self._state.graph.push.count
        return np.maximum(pull[nodes], push[nodes]) >= self._heavy_from

    def _say(self, nodes: Nodes) -> None:
        rows, has = self._state.exact.messages(self._state.graph, nodes, 1)
        for node, row, there in zip(nodes.tolist(), rows, has.tolist(), strict=True):
            if there:
                self._said[node] = row
            else:
                self._said.pop(node, None)
        self._unsaid.difference_update(nodes.tolist())

    def _say_all(self) -> None:
        """Announce the current message of every heavy node."""
        self._said.clear()
        self._unsaid.clear()
        everyone = self._state.graph.nodes()
        self._say(everyone[self._heavy_nodes(everyone)])

    def _say_of_rising(self, nodes: Nodes) -> None:
        """Record the messages of nodes that just became heavy: their listeners already know these."""
        heavy = nodes[self._heavy_nodes(nodes)].tolist()
        self._say(np.array([node for node in heavy if node not in self._said], np.int32))

    def _drop(self, nodes: Nodes) -> None:
        for node in nodes.tolist():
            self._said.pop(node, None)
            self._unsaid.discard(node)

    def follow(self, moved: Changed) -> Changed:
        """Return what an update publishes: nodes that moved at once, and listeners of announced messages."""
        graph = self._state.graph
        first = moved.nodes[moved.orders <= 1]
        if len(first) == len(graph):  # everyone is listed
            self._say_all()
            return _listed(moved, first, first[:0])
        touched = graph.buffers.touched() if moved.touched is None else moved.touched
        here = graph.present(touched)
        gone, touched = touched[~here], touched[here]
        heavy = self._heavy_nodes(first)
        light, heard = first[~heavy], self._exceeding(first[heavy])
        self._drop(light)
        self._drop(gone)
        self._say(heard)
        fallen = touched[~self._heavy_nodes(touched)]
        self._drop(np.array([node for node in fallen.tolist() if node not in self._unsaid], np.int32))
        self._say_of_rising(touched)
        listeners = graph.push.arcs(np.concatenate((light, heard)))[1]
        return _listed(moved, np.concatenate((first, touched)), listeners)

    def _exceeding(self, nodes: Nodes) -> Nodes:
        """Return the heavy nodes whose messages are new, gone, or too far from what was announced."""
        rows, has = self._state.exact.messages(self._state.graph, nodes, 1)
        far = np.ones(len(nodes), np.bool_)
        for at, node in enumerate(nodes.tolist()):
            said = self._said.get(node)
            if said is not None and has[at]:
                far[at] = np.linalg.norm(rows[at].astype(np.float64) - said) > self._allowed
                if not far[at] and (rows[at] != said).any():
                    self._unsaid.add(node)
        return nodes[far]

    def flush(self) -> Changed:
        """Announce everything."""
        nodes = np.fromiter(self._unsaid, np.int32, len(self._unsaid))
        self._say(nodes)
        none = nodes[:0]
        return _listed(Changed(none, np.empty(0, np.int8)), none, self._state.graph.push.arcs(nodes)[1])

    def error_bound(self, nodes: Nodes) -> Float64:
        """Return how far the vector of each node can be from the one that was published last, (n,).

        The message of a heavy node is within the tolerance of what was announced of it, and so it was when
        the vector was published: twice the tolerance for the message of order 2, a weighted mean that is
        rounded. Scaled to length one, and mixed with the other orders, an error grows as a length shrinks.
        """
        model, graph = self._state.model, self._state.graph
        error = (2 * self._allowed + np.sqrt(model.width)) * self._hears(nodes)
        steps, weight = model.scales * 2.0**-GRID_BITS, model.weights[_ORDERS]
        if model.baseline is not None:  # vectors are as long as messages are; some are a message
            return np.asarray(error * steps.max() * max(_most_times(weight), 1.0))
        rows, has = self._state.exact.messages(graph, nodes, _ORDERS)
        if model.table is None:
            return _of_units(error * steps.max(), _lengths(rows * steps), has > 0) * _most_times(weight)
        found: Float64 = np.zeros(len(nodes))
        for columns, length in model.blocks:
            step = steps[columns]
            unit = _of_units(error * step.max(), _lengths(rows[:, columns] * step), has > 0)
            mixed = _of_units(abs(float(weight[0, 0])) * unit, self._mixed(nodes, columns), has > 0)
            found += (length * mixed) ** 2
        return np.sqrt(found)

    def _hears(self, nodes: Nodes) -> Bool:
        """Return which nodes have a neighbour whose message may differ from the announced one."""
        graph = self._state.graph
        receiver, other, _ = graph.pull.arcs(nodes)
        unsaid = np.fromiter(self._unsaid, np.int32, len(self._unsaid))  # some may be light by now
        hears: Bool = np.zeros(graph.ids.high, np.bool_)
        hears[receiver[self._heavy_nodes(other) | np.isin(other, unsaid)]] = True
        return hears[nodes]

    def _mixed(self, nodes: Nodes, columns: slice) -> Float64:
        """Return the lengths of the weighted sums over orders, before they are scaled to length one."""
        state = self._state
        total: Float64 = np.zeros((len(nodes), len(range(*columns.indices(state.model.width)))))
        for order, weight in enumerate(state.model.weights):
            rows = state.exact.messages(state.graph, nodes, order)[0][:, columns].astype(np.float64)
            total += float(weight[0, 0]) * rows / np.maximum(_lengths(rows), 1.0)[:, None]
        return _lengths(total)


def _lengths(rows: Float64) -> Float64:
    return np.asarray(np.sqrt((rows**2).sum(axis=1)))


def _most_times(matrix: Float32) -> float:
    """Return the largest factor by which a matrix can lengthen a row (its spectral norm)."""
    return float(np.linalg.norm(matrix.astype(np.float64), 2))


def _of_units(error: Float64, lengths: Float64, there: Bool) -> Float64:
    """Return a bound, at most 2, on the distance of rows at length one, from one on the rows' distance."""
    other = np.maximum(lengths - error, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = np.where(error > 0, 2 * error / (lengths + other), 0.0)
    most = 2.0 * (error > 0)  # also where there is no row now, since there may have been one
    found: Float64 = np.where(there, np.minimum(np.nan_to_num(bound, nan=2.0, posinf=2.0), most), most)
    return found


def _listed(moved: Changed, nodes: Nodes, listeners: Nodes) -> Changed:
    """Return nodes and listeners, each once, with their orders; the last order where none is known."""
    found = np.union1d(nodes, listeners).astype(np.int32)
    orders = np.full(len(found), _ORDERS, np.int8)
    known = np.flatnonzero(np.isin(moved.nodes, found, assume_unique=True))
    orders[np.searchsorted(found, moved.nodes[known])] = moved.orders[known]
    return Changed(found, orders, moved.rows)
