"""A shard: the engine on the nodes of some slots, with mirrors of the nodes that these aggregate.

Every batch takes two steps. `settle` writes the arcs of own nodes and adds order 1 of them: all of it follows
from the log, and so does what the other shards have to be told. `spread` takes what the others told, and
brings mirrors and order 2 up to date.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dygcn.cluster.messages import Forward
from dygcn.engine.events import join_ids, take
from dygcn.engine.features import Hashed, Walks
from dygcn.engine.graph.ids import grown
from dygcn.engine.graph.transaction import Transaction
from dygcn.engine.models.readout import Readout
from dygcn.engine.propagation.mirrored import FarChanges, FirstRows, MirroredRule
from dygcn.errors import FeatureError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dygcn.cluster.slots import SlotMap
    from dygcn.engine.models import Model
    from dygcn.engine.records import Bool, Changed, EventBatch, GraphDelta, IdColumn, Int8, Int16, Int32, Nodes


@dataclass(frozen=True, slots=True)
class Spread:
    """What a batch did to the nodes of a shard."""

    moved: Changed
    left: IdColumn


@dataclass(slots=True)
class _Settled:
    """What `settle` leaves for `spread`."""

    delta: GraphDelta
    stays: Int8  # for each arc, 1 if its receiver is a mirror that was one before and still is
    gone: Nodes  # mirrors that nobody aggregates any more


class Shard:
    """The nodes of some slots, and mirrors of their neighbours.

    Parameters
    ----------
    model
        With hashed features or rows of walks, and two orders.
    number
        Which shard it is, from 0.
    slots
        Who owns which slot; `shards` is how many there are.

    Examples
    --------
    >>> from dygcn.cluster.slots import SlotMap
    >>> from dygcn.engine.events import id_column, read_events
    >>> from dygcn.engine.models import Model
    >>> model = Model((np.eye(4, dtype=np.float32),) * 3, "int64", "hashed", np.ones(4))
    >>> both = [Shard(model, number, SlotMap.even(2), 2) for number in range(2)]
    >>> told = [shard.settle(read_events([(1, 4), (2, 3)])) for shard in both]
    >>> for shard in both:
    ...     _ = shard.spread({1 - shard.number: told[1 - shard.number][shard.number]})
    >>> [len(shard.own_nodes()) for shard in both]
    [3, 1]
    """

    def __init__(self, model: Model, number: int, slots: SlotMap, shards: int) -> None:
        features = model.new_features()
        if not isinstance(features, Hashed | Walks):
            raise FeatureError(
                f'this model has features="{model.features}"; shards take "hashed" and "walks", whose rows '
                "follow from the model: open the folder in one process, or fit with one of these"
            )
        self.model, self.number, self.slots, self.shards = model, number, slots, shards
        self.graph = model.new_graph()
        self.features: Hashed | Walks = features
        self.rule = MirroredRule(features, model.orders)
        self.transaction = Transaction(self.graph)
        self.owner: Int16 = np.empty(0, np.int16)  # of each node
        self.holders: Int32 = np.empty((0, shards), np.int32)  # for each own node, how many of a shard's
        self._settled: _Settled | None = None

    # ---- a batch ---------------------------------------------------------------------------------------

    def settle(self, batch: EventBatch, now: float | None = None) -> dict[int, Forward]:
        """Write what a batch makes of own nodes; return what each other shard has to be told of it."""
        delta = self._write(batch, now)
        own = self.rule.own
        before, after = self._move_holders(delta)
        self.rule.begin(self.graph, delta)
        stays, gone = self._mirrors_of(delta)
        self._settled = _Settled(delta, stays, gone)
        changed = np.flatnonzero(own[delta.receiver] > 0)
        told = {}
        for other in range(self.shards):
            if other != self.number:
                told[other] = self._forward(other, delta, changed, before, after)
        return told

    def _write(self, batch: EventBatch, now: float | None) -> GraphDelta:
        """Apply the events with an own end to the graph."""
        src, dst = self.slots.owners(batch.src), self.slots.owners(batch.dst)
        rows = np.flatnonzero((src == self.number) | (dst == self.number))
        if batch.t is not None and len(batch):  # the clock is everyone's, also where there are no events
            latest = float(batch.t.max())
            now = latest if now is None else max(now, latest)
        if len(rows) < len(batch):
            batch, src, dst = _rows_of(batch, rows), src[rows], dst[rows]
        with self.transaction:
            self.transaction.stage(batch, now)
            events = self.transaction.events
            assert events is not None
            self._note_owners(events.src, src)
            self._note_owners(events.dst, dst)
            delta = self.transaction.write()
        return delta

    def _note_owners(self, nodes: Nodes, owners: Int16) -> None:
        high = self.graph.ids.high
        if high > len(self.owner):
            self.owner, self.rule.own = grown(self.owner, high), grown(self.rule.own, high)
            self.holders = grown(self.holders, high)
        known = nodes >= 0
        self.owner[nodes[known]] = owners[known]
        self.rule.own[nodes[known]] = owners[known] == self.number

    def _move_holders(self, delta: GraphDelta) -> tuple[dict[int, Bool], ...]:
        """Count who aggregates own nodes; return, for changed own nodes, who did before, and who does now."""
        own, owner = self.rule.own, self.owner
        more = (delta.new != 0).astype(np.int32) - (delta.old != 0)
        outward = np.flatnonzero((own[delta.sender] > 0) & (own[delta.receiver] == 0) & (more != 0))
        touched = np.unique(np.concatenate((delta.sender[outward], delta.receiver[own[delta.receiver] > 0])))
        self._touched = touched
        before = self.holders[touched] > 0
        np.add.at(self.holders, (delta.sender[outward], owner[delta.receiver[outward]]), more[outward])
        return before, self.holders[touched] > 0

    def _mirrors_of(self, delta: GraphDelta) -> tuple[Int8, Nodes]:
        """Return which arcs end in mirrors that stay, and which mirrors nobody aggregates any more."""
        own, count = self.rule.own, self.graph.push.count
        more = (delta.new != 0).astype(np.int32) - (delta.old != 0)
        inward = np.flatnonzero((own[delta.sender] == 0) & (own[delta.receiver] > 0))
        change = np.zeros(self.graph.ids.high, np.int32)
        np.add.at(change, delta.sender[inward], more[inward])
        mirrors = np.unique(np.concatenate((delta.sender[inward], delta.receiver[own[delta.receiver] == 0])))
        now = count[mirrors] > 0
        was = count[mirrors] - change[mirrors] > 0
        stays = np.zeros(self.graph.ids.high, np.int8)
        stays[mirrors[was & now]] = 1
        return stays[delta.receiver] * (own[delta.receiver] == 0), mirrors[was & ~now]

    def _forward(self, other: int, delta: GraphDelta, changed: Nodes, before: Bool, after: Bool) -> Forward:
        touched, graph = self._touched, self.graph
        was, now = before[:, other], after[:, other]
        at = np.searchsorted(touched, delta.receiver[changed])
        both = (was & now)[at] & (self.owner[delta.sender[changed]] != other)
        arcs = changed[both]
        first = self.rule.first_rows(touched[~was & now])
        return Forward(
            graph.ids.names(delta.receiver[arcs]),
            graph.ids.names(delta.sender[arcs]),
            (delta.new - delta.old)[arcs],
            graph.ids.names(first.nodes),
            first.degree,
            first.rows,
        )

    def spread(self, told: Mapping[int, Forward]) -> Spread:
        """Take what every other shard told of the batch that was settled last."""
        settled, self._settled = self._settled, None
        assert settled is not None
        far, first = self._received(list(told.values()))
        moved = self.rule.finish(self.graph, settled.stays, far, first, settled.gone)
        left = settled.delta.left
        left = left[self.rule.own[left] > 0]
        names = self.graph.ids.names(left)
        self.transaction.release(settled.delta.left)
        return Spread(moved, names)

    def _received(self, told: list[Forward]) -> tuple[FarChanges, FirstRows]:
        ids, width = self.graph.ids, self.model.width
        nothing = ids.names(np.empty(0, np.int32))
        aggregated = join_ids([nothing, *(one.aggregated for one in told)])
        change = np.concatenate([np.empty(0, np.int64), *(one.change for one in told)])
        rows, has = self.features.units_by_id(aggregated, ids)
        node = ids.find(join_ids([nothing, *(one.node for one in told)]))
        self.graph.note_bits(np.abs(change))
        new = ids.find(join_ids([nothing, *(one.new for one in told)]))
        degree = np.concatenate([np.empty(0, np.int64), *(one.degree for one in told)])
        sums = np.concatenate([np.empty((0, width), np.int64), *(one.rows for one in told)])
        self.graph.note_bits((sums >> self.features.message_shift).reshape(-1))
        return FarChanges(node, rows, has, change), FirstRows(new, degree, sums)

    # ---- reading ---------------------------------------------------------------------------------------

    def own_nodes(self) -> Nodes:
        """Return the shard's own nodes that are in the graph."""
        high = self.graph.ids.high
        return np.flatnonzero((self.graph.here > 0) & (self.rule.own[:high] > 0)).astype(np.int32)

    def reading(self) -> Readout:
        """Return what reads vectors of own nodes."""
        return Readout(self.model, self.rule, self.graph)


def _rows_of(batch: EventBatch, rows: Nodes) -> EventBatch:
    return replace(
        batch,
        src=take(batch.src, rows),
        dst=take(batch.dst, rows),
        op=batch.op[rows],
        weight=None if batch.weight is None else batch.weight[rows],
        t=None if batch.t is None else batch.t[rows],
    )
