"""A model whose edges grow old and expire, a dict of edges with the rules of its clock, all bits it keeps."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from dygcn.engine.events import id_column, python_ids
from dygcn.engine.features.inputs import RowTable
from dygcn.engine.filter.head import FilterHead
from dygcn.engine.graph.image import take_image
from dygcn.engine.models.model import Model
from dygcn.engine.records import IdColumn
from dygcn.live.view import EmbeddingView
from dygcn_lab.testbed.dense_filter import dense_sums, sums_of
from dygcn_lab.testbed.seeding import small_model

KINDS = "user:int64,item:int64"
_WIDTH = 5
# An event: who asks, who answers, when, 1 or -1, and what the edge weighs.
AgedEvent = tuple[int, int, float, int, float]
Pair = tuple[str, str]


def aged_model(
    seed: int = 0,
    *,
    kinds: bool = True,
    nodes: int = 60,
    half_lives: tuple[float, float] = (2.0, 1.0),
    expire: float | None = 9.0,
    features: str = "hashed",
) -> Model:
    """Return a small model with a filter; one in six answers has no row, as one that came after fit.

    `nodes`: how many answers are called 0, 1, 2 and so on; `half_lives`: of edges in sums of messages, and in
    the count for the trend.
    """
    random = np.random.default_rng((seed, 1 << 41))
    named = [node for node in range(nodes) if node % 6]
    rows = random.integers(-127, 128, (len(named), _WIDTH)).astype(np.int8)
    ids = id_column([f"item:{node}" for node in named] if kinds else named)
    sides = (("user",), ("item",)) if kinds else ((), ())
    weights = np.ones(_WIDTH, np.float32)
    head = FilterHead(ids, rows, weights, 3.0, *half_lives, 1.0, 1.5, 0.25, 0.1, *sides)
    plain = small_model(seed=seed, features=features)
    table = plain.table
    if table is not None and kinds:
        table = RowTable(_with_kinds(table.ids), table.rows, table.scale)
    return dataclasses.replace(
        plain, ids=KINDS if kinds else "int64", table=table, unit=1.0, filter=head, expire=expire
    )


def _with_kinds(ids: IdColumn) -> IdColumn:
    """Return the ids of the rows of a model, one half of them of each kind."""
    return id_column([f"{('user', 'item')[node % 2]}:{node // 2}" for node in python_ids(ids).tolist()])


def bits_of(live: EmbeddingView, contacts: bool = True) -> str:
    """Return a digest of a state, of the sums of its filter, of the times of its edges and of its clock.

    A state without a filter has its own digest alone.

    `contacts`: whether to add what the graph keeps of edges and nodes that met more than once: it follows
    from the history, the rest from the edges of now.
    """
    state, digest = live._state, live.digest()
    if state.filter is None:
        return digest
    image = take_image(state.graph)[0]
    parts = [*sums_of(state.filter, state.graph).values(), image.pair_t, np.array([state.graph.clock], float)]
    if contacts:
        parts += [image.contact, image.activity, image.pair_count]
    whole = hashlib.sha256(digest.encode())
    for part in parts:
        whole.update(np.ascontiguousarray(part).tobytes())
    return whole.hexdigest()


class AgedTwin:
    """A dict of edges, each with its last contact and weight; before an event happens, who is due has left.

    `kinds`: whether the ends of an event are of two kinds; `span`: how long an edge stays after its last
    contact; infinity: until it is removed.
    """

    def __init__(self, kinds: bool, span: float = math.inf) -> None:
        self.kinds, self.span = kinds, span
        self.edges: dict[Pair, tuple[float, float]] = {}
        self.clock, self.expired = -math.inf, 0

    def copy(self) -> AgedTwin:
        """Return another one, for what is only tried."""
        other = AgedTwin(self.kinds, self.span)
        other.edges, other.clock, other.expired = dict(self.edges), self.clock, self.expired
        return other

    def apply(self, events: Sequence[AgedEvent], now: float | None = None) -> None:
        """Apply events in the order of arrival, then let the clock come to a time."""
        for a, b, t, op, weight in events:
            self._pass_to(t)
            self._happen(self._pair(a, b), t, op, weight)
            self._pass_to(t)
        if now is not None:
            self._pass_to(now)

    def _pass_to(self, now: float) -> None:
        self.clock = max(self.clock, now)
        due = [pair for pair, (last, _) in self.edges.items() if last + self.span <= self.clock]
        self.expired += len(due)
        for pair in due:
            del self.edges[pair]

    def _happen(self, pair: Pair, t: float, op: int, weight: float) -> None:
        if pair[0] == pair[1]:
            return
        if op < 0:
            self.edges.pop(pair, None)
        else:
            self.edges[pair] = max(t, self.edges.get(pair, (t, 0.0))[0]), weight

    def _pair(self, a: int, b: int) -> Pair:
        if self.kinds:
            return f"user:{a}", f"item:{b}"
        return str(min(a, b)), str(max(a, b))

    def remove(self, node: str) -> None:
        """Remove a node with its edges."""
        self.edges = {pair: held for pair, held in self.edges.items() if node not in pair}

    def sums(self, head: FilterHead) -> dict[str, Any]:
        """Return what a filter must keep of everybody: see `dense_sums`."""
        times: dict[tuple[Hashable, Hashable], float | None] = {}
        for (one, other), (last, _) in self.edges.items():
            times[one, other] = last
            if not self.kinds:
                times[other, one] = last
        names = shown(head.ids)
        rows: dict[Hashable, list[int]] = dict(zip(names, head.rows.tolist(), strict=True))
        clock = None if math.isinf(self.clock) else self.clock
        return dense_sums(times, rows, _WIDTH, (head.half_life, head.trend_half_life), clock)


def shown(ids: IdColumn) -> list[str]:
    """Return ids as the twin calls them."""
    return [str(one) for one in python_ids(ids)]


def edges_of(live: EmbeddingView) -> dict[Pair, tuple[float, float]]:
    """Return the edges of an embedding as a twin has them."""
    graph = live._state.graph
    a, b, weight = graph.edges()
    times = graph.pull.look_up_contacts(a, b)[1].tolist()
    ends = [shown(graph.ids.names(side)) for side in (a, b)]
    return {
        _in_order(one, other): (t, w * graph.grid)
        for one, other, t, w in zip(*ends, times, weight.tolist(), strict=True)
    }


def _in_order(one: str, other: str) -> Pair:
    """Return a pair as a twin names it: a user first, or the smaller number."""
    if ":" in one:
        return (one, other) if one.startswith("user") else (other, one)
    return (one, other) if int(one) < int(other) else (other, one)


def differences(live: EmbeddingView, twin: AgedTwin) -> list[str]:
    """Return which sums of a filter are not those of the twin."""
    state, zero = live._state, [0] * _WIDTH
    assert state.filter is not None
    assert state.model.filter is not None
    found, wanted = sums_of(state.filter, state.graph), twin.sums(state.model.filter)
    names = shown(state.graph.ids.names(state.graph.nodes()))
    asking = [one for one in names if not one.startswith("item")]
    answering = [one for one in names if not one.startswith("user")]
    sides = {"taste": (asking, zero), "said": (asking, zero), "total": (answering, zero)}
    return [
        name
        for name, (nodes, none) in (sides | {"recent": (answering, 0)}).items()
        if found[name].tolist() != [wanted[name].get(one, none) for one in nodes]
    ]
