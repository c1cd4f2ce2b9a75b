"""A state whose rows are elsewhere: what an embedding holds in the place of a `State` when shards have it.

A batch is written to the log of the shards, and is done when every shard has spread it. Between two batches
all shards are at the same one, so whatever is read then is of one graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np

from dygcn.cluster import questions as ask
from dygcn.cluster.asking import Asking
from dygcn.cluster.front_graph import FrontGraph
from dygcn.cluster.protocol import Events, Move, Remove, Resize
from dygcn.cluster.slots import SlotMap
from dygcn.engine.events import join_ids, moment, read_events, take
from dygcn.engine.graph.image import GraphImage
from dygcn.engine.graph.screening import check_batch
from dygcn.engine.graph.tiers import NOBODY_IS_HEAVY
from dygcn.engine.graph.transaction import Transaction
from dygcn.engine.models import Outcome, State, StateImage
from dygcn.engine.propagation import ExactRule
from dygcn.engine.propagation.sums import heavy_from
from dygcn.engine.records import Changed, Parts
from dygcn.errors import ClusterError, FeatureError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dygcn.cluster.processes import ShardProcesses
    from dygcn.cluster.protocol import Entry
    from dygcn.engine.graph import Graph
    from dygcn.engine.models import Model
    from dygcn.engine.records import EventBatch, Float32, GraphDelta, IdColumn, Int32, Int64, Nodes

_NOBODY = np.empty(0, np.int32)


class EntryNumbers(Protocol):
    """Where entries of shards get their numbers."""

    def commit(self, entry: Entry) -> int:
        """Return the number of an entry, once it is where shards fetch entries from, and tell them of it."""


class FrontState(State):
    """The state of all shards, as one.

    Parameters
    ----------
    model
        What shards compute.
    processes
        Where they run.
    numbers
        Gives numbers to batches.
    at
        The last batch that is in the log.
    check
        Whether batches are checked here; else whoever logs them did.
    """

    def __init__(
        self,
        model: Model,
        processes: ShardProcesses,
        numbers: EntryNumbers,
        at: int,
        *,
        check: bool = True,
    ) -> None:
        self._check = check
        about = processes.ask({0: ask.AskShard(at)})[0]
        self.asking = Asking(processes, SlotMap(about.owner), about.shards, at)
        super().__init__(model, FrontGraph(model.new_graph(), self.asking))
        self.history = None  # links="next" is refused
        self.filter = self.graph.follower = None  # and "filter"
        self.rule = _FarRule(self)
        self.transaction = _NoTrials(self.graph)
        self._numbers, self._staged = numbers, (read_events([]), None)
        shards = [about, *self._others_than_first()]
        _check_log(shards, at)
        self.graph.take(shards)

    graph: FrontGraph
    kept: int = 0  # what a shard may need again of the log: all behind this batch
    _staged: tuple[EventBatch, float | None]

    def _others_than_first(self) -> list[ask.AboutShard]:
        others = dict.fromkeys(range(1, self.asking.shards), ask.AskShard(self.asking.at))
        answers = self.asking.processes.ask(others) if others else {}
        return [answers[number] for number in others]

    # ---- changing --------------------------------------------------------------------------------------

    def stage(self, batch: EventBatch, now: float | None = None) -> None:
        """Check events: whether they can be applied is decided before anyone is told of them."""
        now = None if now is None else moment(now)
        if self._check:
            check_batch(self.graph, batch, now)
        self._staged = batch, now

    def find_edge(self, a: object, b: object, op: int) -> None:
        """One edge is a batch like any other."""

    def write(self) -> Outcome:
        """Have every shard spread what is staged."""
        batch, now = self._staged
        self.transaction.begun = True
        done = self.follow(Events(batch, now))
        self.graph.note_weights(batch)  # ids that are new have nodes only now
        return done

    def follow(self, entry: Entry) -> Outcome:
        """Give an entry its number, and wait until every shard has spread it."""
        asking, graph = self.asking, self.graph
        if isinstance(entry, Move | Resize):
            asking.slots, asking.shards = entry.owners(asking.slots, asking.shards)
        asking.at = self._numbers.commit(entry)
        answers: list[ask.BatchOutcome] = asking.everyone(ask.AskOutcome(asking.at))
        if isinstance(entry, Events):
            times = [] if entry.batch.t is None or not len(entry.batch) else [float(entry.batch.t.max())]
            graph.tell_time(max([*times, *([] if entry.now is None else [entry.now])], default=None))
        self.kept = min(answer.kept for answer in answers)
        left = join_ids([self.transaction.nobody, *(answer.left for answer in answers)])
        if not all(answer.known for answer in answers):
            left = join_ids([left, self._gone(answers)])
        graph.leave(left)
        nodes = np.concatenate([graph.arrive(answer.moved) for answer in answers])
        orders = np.concatenate([answer.orders for answer in answers])
        by_order = np.argsort(orders, kind="stable")
        rows, unchanged, missing, loops = (
            sum(getattr(answer, name) for answer in answers)
            for name in ("rows", "unchanged", "missing", "loops")
        )
        expired = sum(answer.expired or 0 for answer in answers) // 2
        self.transaction.written, self.transaction.expired = True, self.transaction.expired + expired
        moved, counts = Changed(nodes[by_order], orders[by_order], rows), (unchanged, missing, loops)
        return Outcome(moved, left, *counts, expired=expired)

    def _gone(self, answers: list[ask.BatchOutcome]) -> IdColumn:
        """Return nodes that are at shards which do not know any more who left, and are not there."""
        doubtful = [number for number, answer in enumerate(answers) if not answer.known]
        nodes = np.flatnonzero(self.graph.here).astype(np.int32)
        names = self.graph.ids.names(nodes)
        owned = np.isin(self.asking.slots.owners(names), doubtful)
        there = np.zeros(self.graph.ids.high, np.bool_)
        for answer in answers:
            found = self.graph.find(answer.moved)
            there[found[found >= 0]] = True
        return take(names, np.flatnonzero(owned & ~there[nodes]))

    def bulk(self, batches: Iterable[EventBatch]) -> tuple[Outcome, Exception | None]:
        """Apply batches one after the other; all nodes count as moved."""
        counts, failure = np.zeros(3, np.int64), None
        try:
            for batch in batches:
                self.stage(batch)
                done = self.write()
                counts += (done.unchanged, done.missing, done.loops)
        except Exception as error:
            failure = error
        everyone = self.graph.nodes()
        moved = Changed(everyone, np.ones(len(everyone), np.int8), self.model.orders * len(everyone))
        unchanged, missing, loops = counts.tolist()
        nobody, expired = self.transaction.nobody, self.transaction.expired
        return Outcome(moved, nobody, unchanged, missing, loops, expired=expired), failure

    def remove(self, nodes: Nodes) -> Outcome:
        """Remove nodes with their edges and ghosts."""
        return self.follow(Remove(self.graph.ids.names(np.unique(nodes))))

    def set_features(self, ids: IdColumn, values: Float32) -> NoReturn:
        """Refuse: rows of a shard follow from the model."""
        raise FeatureError("features cannot be set on shards: their rows follow from the model")

    def apply_to_graph(self, batch: EventBatch, now: float | None = None) -> tuple[GraphDelta, IdColumn]:
        """Refuse: shards replay the log themselves."""
        raise NotImplementedError

    def complete(self) -> None:
        """Refuse: whether an interrupted batch is in the log is known when the folder is opened again."""
        raise FeatureError("an update was interrupted; close the cluster, and start it again")

    def rebuild(self) -> None:
        """Shards have computed everything."""

    # ---- reading ---------------------------------------------------------------------------------------

    @property
    def exact(self) -> ExactRule:
        """The rule, whose rows are asked for."""
        return self.rule  # type: ignore[return-value]

    def unreached(self) -> int:
        """Return how many nodes of a walk model no row reaches, 0 for any other model."""
        if self.model.table is None:
            return 0
        nodes, rule = np.flatnonzero(self.graph.here).astype(np.int32), self.exact
        for order in range(self.model.orders + 1):
            nodes = nodes[rule.messages(self.graph, nodes, order)[1] == 0]
        return len(nodes)

    def reading(self) -> _FarReading:
        """Return what reads vectors."""
        return _FarReading(self)

    def to_save(self) -> State:
        """Return an empty state: shards have snapshots of their own."""
        return State(self.model)

    def loose_image(self) -> tuple[StateImage, Nodes]:
        """Gather all edges here, with edges in no order."""
        parts = [answer.image for answer in self.asking.everyone(ask.AskEdges(self.asking.at))]
        graph, nodes = self.graph, self.graph.nodes()
        rank = np.empty(graph.ids.high, np.int32)
        rank[nodes] = np.arange(len(nodes), dtype=np.int32)
        contact, activity = self._contacts(parts, rank, len(nodes))
        ends = [
            [rank[graph.ids.find(part.ids)][end] for part, end in ((p, getattr(p, side)) for p in parts)]
            for side in ("a", "b")
        ]
        a, b = (np.concatenate(end) for end in ends)
        if not graph.directed:
            a, b = np.minimum(a, b), np.maximum(a, b)
        columns = ("weight", "ghost_weight", "ghost_t")
        weight, full, t = (np.concatenate([getattr(part, name) for part in parts]) for name in columns)
        pair_t, pair_count = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("pair_t", "pair_count")
        )
        names, none_own = graph.ids.names(nodes), np.zeros(len(nodes), np.bool_)
        related = Parts.joined([part.parts for part in parts], [len(part.a) for part in parts])
        contacts = contact, activity, pair_t, pair_count
        image = GraphImage(names, none_own, a, b, weight, full, t, graph.clock, *contacts, related)
        return StateImage(image, {"features": np.empty((0, self.model.width), np.int32)}), nodes

    def _contacts(self, parts: list[GraphImage], rank: Int32, count: int) -> tuple[Any, Any]:
        if self.graph.contacts is None:
            return np.empty(0), np.empty(0, np.float32)
        contact, activity = np.full(count, -np.inf), np.zeros(count, np.float32)
        for part in parts:
            own = np.flatnonzero(part.own)
            place = rank[self.graph.ids.find(take(part.ids, own))]
            contact[place], activity[place] = part.contact[own], part.activity[own]
        return contact, activity


def _check_log(shards: list[ask.AboutShard], end: int) -> None:
    """Refuse a log that ends before its shards: they would take what is logged next for what they have."""
    most = max(about.position for about in shards)
    if most > end:
        raise ClusterError(
            f"snapshots of shards are of batch {most}, and the log ends at {end}: the folder is older than "
            "its snapshots, or they are of another one; restore folder and snapshots from the same backup"
        )


class _NoTrials(Transaction):
    """A transaction in which nothing can be tried: shards have no way back."""

    def open_trial(self, *_: object, **__: object) -> NoReturn:
        raise FeatureError(
            "shards try nothing (what_if, explain_change): they cannot take a batch back; "
            "save a copy, and ask that: dygcn.load(path)"
        )

    def undo(self) -> None:
        pass


class _FarReading:
    """Reads vectors at their owners."""

    def __init__(self, state: FrontState) -> None:
        self._state = state

    def vectors(self, nodes: Nodes) -> Float32:
        """Return the vectors of nodes, (n, dim)."""
        state = self._state
        out = np.zeros((len(nodes), state.model.dim), np.float32)
        if len(nodes):
            here, vectors = state.asking.vectors(state.graph.ids.names(nodes))
            out[here > 0] = vectors
        return out


class _FarSums:
    """Sums of one order."""

    def __init__(self, state: FrontState, order: int) -> None:
        self._state, self._order = state, order

    def _ask(self, nodes: Nodes) -> ask.Rows:
        state = self._state
        if not len(nodes):
            none = np.empty(0, np.int64)
            return ask.Rows(state.asking.at, none.reshape(0, state.model.width), none)
        return state.asking.rows(state.graph.ids.names(nodes), self._order, sums=True)

    def rows(self, nodes: Nodes) -> Int64:
        """Return sums of nodes."""
        return self._ask(nodes).rows

    @property
    def degree(self) -> _FarDegree:
        """What the weights of neighbours add up to that have a message."""
        return _FarDegree(self)


class _FarDegree:
    def __init__(self, sums: _FarSums) -> None:
        self._sums = sums

    def __getitem__(self, nodes: Any) -> Any:
        found = self._sums._ask(np.atleast_1d(np.asarray(nodes, np.int32))).degree
        return found if np.ndim(nodes) else found[0]


class _FarRule(ExactRule):
    """The exact rule, whose rows are asked for."""

    def __init__(self, state: FrontState) -> None:
        super().__init__(state.model.new_features(), state.model.orders, NOBODY_IS_HEAVY)
        self._state, self._heavy_at_shards = state, heavy_from()
        self.sums = [_FarSums(state, order) for order in range(1, self.orders + 1)]  # type: ignore[misc]

    def messages(self, graph: Graph, nodes: Nodes, order: int) -> tuple[Int32, Int64]:
        """Return h_order of nodes on the grid, and 1 where a node has one."""
        if order == 0:
            return super().messages(graph, nodes, 0)
        if not len(nodes):
            return np.empty((0, self._state.model.width), np.int32), np.empty(0, np.int64)
        found = self._state.asking.rows(graph.ids.names(nodes), order)
        return found.rows.astype(np.int32), found.degree

    def pushes(self, graph: Graph, nodes: Nodes) -> Int32:
        """Return about to how many: each shard has fewer arcs of a light node, and pulls from others."""
        most = np.int64(self._state.asking.shards * self._heavy_at_shards)
        return np.minimum(graph.push.count[nodes], most).astype(np.int32)

    def reserve(self, graph: Graph) -> None:
        """Nothing is kept here."""

    def share(self, *_: object) -> NoReturn:
        """Refuse: there are no rows here that other processes could read."""
        raise FeatureError("shards answer reads themselves; reader processes are for one process")
