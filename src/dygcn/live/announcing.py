"""Announcements: which nodes count as moved when small changes of heavy nodes' messages are kept back.

State and reads are exact. Feed, sinks and index follow what is announced: with a tolerance, the listeners of
a heavy node count as moved when its message is further than the tolerance from what was announced of it last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.features.inputs import GRID_BITS
from dygcn.engine.propagation.sums import heavy_from
from dygcn.engine.records import Changed
from dygcn.errors import FeatureError

if TYPE_CHECKING:
    from dygcn.engine.models.contracts import StateReader
    from dygcn.engine.records import Bool, Float32, Float64, IdColumn, Int32, Nodes

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
