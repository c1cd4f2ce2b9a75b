"""Explains a vector: the share of each neighbour, or of each event of a change.

With the lengths of its messages held, a vector is linear in them, and a message is linear in what neighbours
send: ``h_k = s_k / deg_k`` with ``s_k = sum over u of w(v, u) m_(k-1)(u)``. So each neighbour has a share of
every sum; these add up to the bit. And it has a share of the vector; these add up to it but for rounding.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product

import numpy as np

from dygcn.engine.events import rows_of
from dygcn.engine.features.inputs import GRID_BITS
from dygcn.engine.models.contracts import StateReader, StateWriter
from dygcn.engine.models.model import Model
from dygcn.engine.models.state import Trial
from dygcn.engine.records import Bool, EventBatch, Float32, Float64, Int64, Nodes
from dygcn.errors import EventError, OptionError, UnknownNode

MOST_EVENTS = 1000  # of a batch that are explained: each is played, and taken back
_BLOCK = 4096  # neighbours whose messages are looked at together
_FLOOR = 1e-6 * 2.0**GRID_BITS  # of messages of a walk model, on the grid


@dataclass(frozen=True, slots=True, eq=False)
class Shares:
    """The shares whose sum is one vector.

    Single numbers are projections of shares onto the vector z: ``own + totals + rounding = |z|^2``. A
    share below zero pulls the other way.
    """

    node: int
    vector: Float64  # (dim,) z
    neighbours: Nodes  # (n,) nodes that the node aggregates, ghosts included, the greatest share first
    weights: Int64  # (n,) of their arcs, on the grid; below zero for ghosts, which count by their magnitude
    has: Bool  # (K, n) whether a neighbour has a message of order k - 1; one without has no share of order k
    degrees: Int64  # (K,) sum of the weights of neighbours that have a message
    sums: Int64  # (K, width) s_1..s_K
    projections: Float64  # (K, n) each neighbour's share of each order
    own_vector: Float64  # (dim,) the share of the node itself: order 0, and all that no neighbour has part in
    rounding_vector: Float64  # (dim,) what is left: messages are rounded, and vectors are sums in float32
    sum_shares: Int64 | None = None  # (K, n, width) w(v, u) m_(k-1)(u): add up to `sums` to the bit
    vector_shares: Float64 | None = None  # (K, n, dim)

    @property
    def own(self) -> float:
        """The share of the node itself."""
        return float(self.own_vector @ self.vector)

    @property
    def rounding(self) -> float:
        """The share of rounding."""
        return float(self.rounding_vector @ self.vector)

    @property
    def totals(self) -> Float64:
        """The share of each neighbour over all orders, (n,)."""
        total: Float64 = self.projections.sum(axis=0)
        return total


def explain(state: StateReader, node: int, *, shares: bool = False) -> Shares:
    """Return the share of each neighbour in a node's vector; the state is of the exact rule.

    With `shares`, also return rows of the sums and of the vector: much for a hub of 100,000 neighbours.
    """
    rule, graph, one = state.exact, state.graph, np.array([node], np.int32)
    state.check()
    if not 0 <= node < len(graph.here) or not graph.here[node]:
        raise UnknownNode(node)
    vector = state.reading().vectors(one)[0].astype(np.float64)
    own, maps = _linear_maps(state, one, vector)
    degrees, sums = map(
        np.concatenate, zip(*(rule.whole_sums(graph, one, k + 1) for k in range(rule.orders)), strict=True)
    )
    _, neighbours, weights = graph.pull.arcs(one)
    has, projections = np.zeros((2, rule.orders, len(neighbours)))
    size = rule.orders, len(neighbours) if shares else 0
    sum_shares = np.zeros((*size, state.model.width), np.int64)
    vector_shares = np.zeros((*size, state.model.dim))
    for k, start in product(range(rule.orders), range(0, len(neighbours), _BLOCK)):
        block = slice(start, start + _BLOCK)
        sent, has[k, block] = rule.messages(graph, neighbours[block], k)
        part = np.abs(weights[block])
        projections[k, block] = part * (sent @ maps[k].back(vector)) / max(degrees[k], 1)
        if shares:
            sum_shares[k, block] = part[:, None] * sent
            vector_shares[k, block] = maps[k].of(sum_shares[k, block] / max(degrees[k], 1))
    reached = [each.of(row / max(degree, 1)) for each, row, degree in zip(maps, sums, degrees, strict=True)]
    found, of = np.unique(neighbours, return_inverse=True)
    by_id = np.argsort(
        np.searchsorted(found, graph.ids.sorted(found))
    )  # as nodes are numbered elsewhere, too
    rank = np.lexsort((by_id[of], -np.abs(projections.sum(axis=0))))
    made_of = node, vector, neighbours[rank], weights[rank], has[:, rank] > 0, degrees, sums
    whole = (sum_shares[:, rank], vector_shares[:, rank]) if shares else (None, None)
    rounding = vector - own - np.sum(reached, axis=0)
    return Shares(*made_of, projections[:, rank], own, rounding, *whole)


@dataclass(frozen=True, slots=True, eq=False)
class _LinearMap:
    """The linear map from a message of one order to its part of the vector, with its length fixed."""

    columns: Float64  # (width,) factors
    matrix: Float32 | None = None  # (width, dim), None: the identity

    def of(self, rows: Float64) -> Float64:
        """Return the parts of the vector that rows on the grid add."""
        scaled: Float64 = rows * self.columns
        return scaled if self.matrix is None else scaled @ self.matrix

    def back(self, vector: Float64) -> Float64:
        """Return the row whose product with a message projects the message's part onto `vector`."""
        return (vector if self.matrix is None else self.matrix @ vector) * self.columns


def _linear_maps(state: StateReader, one: Nodes, vector: Float64) -> tuple[Float64, list[_LinearMap]]:
    """Return the part of the node itself, and the maps of orders 1..K."""
    model = state.model
    found = [state.exact.messages(state.graph, one, k) for k in range(model.orders + 1)]
    messages, has = [rows[0].astype(np.float64) for rows, _ in found], [bool(there[0]) for _, there in found]
    if model.baseline is not None:
        own, maps = _maps_of_fresh(model, model.baseline.rows_of(state.graph.ids.names(one))[0], has)
    elif model.table is not None:
        own, maps = np.zeros(model.dim), _maps_of_walks(model, messages)
        if not any(each.columns.any() for each in maps):
            own = vector  # nothing reaches the node: signs, drawn from its id
    else:
        own, steps = np.zeros(model.dim), model.scales * 2.0**-GRID_BITS
        lengths = [max(float(np.linalg.norm(steps * row)), model.floor) for row in messages]
        maps = [_LinearMap(steps / length, W) for length, W in zip(lengths, model.weights, strict=True)]
    return own + maps[0].of(messages[0]), maps[1:]


def _maps_of_walks(model: Model, messages: list[Float64]) -> list[_LinearMap]:
    """Return maps for ``unit(sum over k of w_k unit(h_k))``; all zero if that is zero."""
    maps = np.zeros((len(messages), model.width))
    for columns, block_length in model.blocks:
        rows = [row[columns] for row in messages]
        lengths = [max(float(np.linalg.norm(row)), _FLOOR) for row in rows]
        factors = [
            float(weight[0, 0]) / length for weight, length in zip(model.weights, lengths, strict=True)
        ]
        total = np.sum([factor * row for factor, row in zip(factors, rows, strict=True)], axis=0)
        length = float(np.linalg.norm(total))
        scale = block_length / length if length > 0 else 0.0
        maps[:, columns] = (np.array(factors) * scale)[:, None]
    return [_LinearMap(row) for row in maps]


def _maps_of_fresh(model: Model, base_row: int, has: list[bool]) -> tuple[Float64, list[_LinearMap]]:
    """Return a fresh embedding's own part since t0, and the maps; see `readout`."""
    baseline, steps = model.baseline, model.scales * 2.0**-GRID_BITS
    assert baseline is not None
    if base_row < 0:  # its lowest message
        lowest = has.index(True) if any(has) else -1
        return np.zeros(model.dim), [_LinearMap(steps * (k == lowest)) for k in range(len(has))]
    own = baseline.vectors[base_row].astype(np.float64)
    for there, then, W in zip(has, baseline.messages, model.weights, strict=True):
        own = own - (then[base_row].astype(np.float64) @ W if there else 0.0)
    return own, [_LinearMap(steps, W) for W in model.weights]


# ---- events ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Movement:
    """The movement of one vector by each event of a batch, played one by one."""

    before: Float32  # (dim,) zero where the node was not in the graph
    after: Float32  # (dim,) the vector after the batch
    waiting: Float64  # (dim,) what the passing of time to `now` moved: ghosts weigh less
    by_event: Float64  # (n, dim) vector after the event minus vector before it

    @property
    def projections(self) -> Float64:
        """Return each event's share of the squared movement, (n,); with `waiting` they add up."""
        return self.by_event @ (self.after.astype(np.float64) - self.before)


def explain_change(state: StateWriter, name: object, batch: EventBatch, now: float | None = None) -> Movement:
    """Return how far each event of a batch would move a node's vector; nothing is changed.

    The events are played one after the other, each as a trial inside the one before, so the movements add
    up to that of the batch: a telescoping sum. Of two events that only together have an effect, the later
    one gets it. Events without times happen at `now`, after the time has passed; with times, before.
    """
    try:
        state.graph.ids.check_kind(state.graph.ids.read([name]))
    except EventError:  # a value that can never be an id of the graph
        raise UnknownNode(name, f"; its ids are {state.model.ids}") from None
    if len(batch) > MOST_EVENTS:
        raise OptionError(f"there are {len(batch)} events; at most {MOST_EVENTS} can be told apart")
    steps = [rows_of(batch, np.array([row])) for row in range(len(batch))]
    waits = rows_of(batch, np.empty(0, np.int64))
    first = batch.t is None
    plan = [waits, *steps] if first else [*steps, waits]
    path = [_vector_of(state, name)]
    with ExitStack() as trials:
        for step in plan:
            trials.enter_context(Trial(state, step, now if first or step is waits else None))
            path.append(_vector_of(state, name))
    moved = np.diff(np.array(path, np.float64), axis=0)
    waiting = moved[0 if first else -1]
    return Movement(path[0], path[-1], waiting, moved[1:] if first else moved[:-1])


def _vector_of(state: StateReader, name: object) -> Float32:
    """Return the vector of a node by its id, zero if it is not in the graph."""
    node = state.graph.find_one(name)
    if node < 0:
        return np.zeros(state.model.dim, np.float32)
    row: Float32 = state.reading().vectors(np.array([node], np.int32))[0]
    return row
