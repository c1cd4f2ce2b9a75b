"""A shard: the engine on the nodes of some slots, with mirrors of the nodes that these aggregate.

Every batch takes two steps. `plan` finds what becomes of the arcs of own nodes, which follows from the log,
and returns what the other shards must be sent. `apply` takes what the others sent, and writes: until then
reads are of the batch before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from dygcn.cluster.edge_images import drop_arcs, put_arcs, take_arcs
from dygcn.cluster.messages import MirrorUpdate
from dygcn.cluster.slots import SlotMap
from dygcn.engine.events import join_ids, rows_of, take
from dygcn.engine.features.inputs import Hashed, Walks
from dygcn.engine.graph.constants import FOUND, LAPSE, LOOP, UNCHANGED
from dygcn.engine.graph.ids import grown
from dygcn.engine.graph.image import GraphImage, build_graph, take_image
from dygcn.engine.graph.transaction import Transaction
from dygcn.engine.models.model import Model
from dygcn.engine.models.readout import Readout
from dygcn.engine.propagation.gathering import distinct_rows
from dygcn.engine.propagation.mirrored import FarChanges, FirstRows, MirroredRule, blocks_of
from dygcn.engine.records import (
    NO_CHANGE,
    Bool,
    Changed,
    EventBatch,
    GraphDelta,
    IdColumn,
    Int16,
    Int32,
    Int64,
    Nodes,
)
from dygcn.errors import FeatureError

_NONE = -1


class Subscribers:
    """Counts by node and shard. Only own nodes that some shard mirrors have a row."""

    def __init__(self, shards: int) -> None:
        self._row: Int32 = np.empty(0, np.int32)
        self._counts: Int32 = np.zeros((0, shards), np.int32)
        self._free: Int32 = np.empty(0, np.int32)
        self._used = 0  # rows that were ever given

    def __len__(self) -> int:
        return self._used - len(self._free)

    def reserve(self, nodes: int) -> None:
        """Grow to so many nodes."""
        known = len(self._row)
        self._row = grown(self._row, nodes)
        self._row[known:] = _NONE

    def counts(self, nodes: Nodes) -> Int32:
        """Return the counts of nodes, (n, shards)."""
        row = self._row[nodes]
        found: Int32 = np.zeros((len(nodes), self._counts.shape[1]), np.int32)
        known = row != _NONE
        found[known] = self._counts[row[known]]
        return found

    def put(self, nodes: Nodes, counts: Int32) -> None:
        """Replace the counts of nodes, each named once."""
        mirrored, known = counts.any(axis=1), self._row[nodes] != _NONE
        gone = nodes[known & ~mirrored]
        self._free = np.concatenate((self._free, self._row[gone]))
        self._row[gone] = _NONE
        fresh = nodes[mirrored & ~known]
        again = min(len(fresh), len(self._free))
        more = np.arange(self._used, self._used + len(fresh) - again, dtype=np.int32)
        self._row[fresh] = np.concatenate((self._free[len(self._free) - again :], more))  # free rows first
        self._free = self._free[: len(self._free) - again]
        self._used += len(more)
        self._counts = grown(self._counts, self._used)
        self._counts[self._row[nodes[mirrored]]] = counts[mirrored]


_NOTHING, _NOBODY, _NO_OWNERS = np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int16)


@dataclass(frozen=True, slots=True)
class Applied:
    """The effect of a batch on the nodes of a shard.

    Events without effect are counted by the shard that owns their source, so that the sum over shards counts
    each once: adds, removes, loops. The fourth number is own ends of edges that left by the clock: over all
    shards, two of every edge.
    """

    moved: Changed
    left: IdColumn
    counts: tuple[int, int, int, int] = (0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class _Arcs:
    """Arcs that a batch changes: `receiver` aggregates `sender`."""

    receiver: Nodes
    sender: Nodes
    old: Int64
    new: Int64
    of_own: Int64  # rows whose receiver is an own node


def taken_features(model: Model) -> Hashed | Walks:
    """Return the features of a model; raise `FeatureError` if shards do not take it."""
    if model.rule != "exact":
        raise FeatureError(
            f"this model has rule={model.rule!r}, whose vectors do not follow from the graph; shards take "
            "rule='exact': open the folder in one process, or fit with that"
        )
    features = model.new_features()
    if not isinstance(features, Hashed | Walks):
        raise FeatureError(
            f'this model has features="{model.features}"; shards take "hashed" and "walks", whose rows '
            "follow from the model: open the folder in one process, or fit with one of these"
        )
    return features


class Shard:
    """The nodes of some slots, and mirrors of their neighbours.

    `number` is that of this shard, from 0; `slots` says which shard owns which slot, and `shards` how many
    there are. The model has hashed features or rows of walks, and two orders.
    """

    def __init__(self, model: Model, number: int, slots: SlotMap, shards: int) -> None:
        features = taken_features(model)
        self.model, self.number, self.slots, self.shards = model, number, slots, shards
        self.graph = model.new_graph()
        self.features: Hashed | Walks = features
        self.rule = MirroredRule(features, model.orders)
        self.transaction = Transaction(self.graph)
        self.others = tuple(other for other in range(shards) if other != number)
        self.owner: Int16 = np.empty(0, np.int16)  # of each node
        self.subscribers = Subscribers(shards)
        self._next = slots, shards  # after a move that is planned
        self._nothing = self._rows_for(_NOBODY)
        self.subscribers_after = _NOBODY, self.subscribers.counts(_NOBODY)  # of nodes that a batch touches
        self._counted_here: Bool = np.empty(0, np.bool_)  # of the staged events, those with an own source
        self._removed: tuple[Nodes, Nodes] | None = None  # pairs of nodes that leave
        self._idle = 0, 0, 0, 0  # see `_count_idle`

    # ---- a batch ---------------------------------------------------------------------------------------

    def plan(self, batch: EventBatch, now: float | None = None) -> dict[int, MirrorUpdate]:
        """Compute the effect of a batch on own nodes, unseen by readers; return updates for other shards."""
        self.stage(batch, now)
        pairs = self.transaction.preview()
        self._idle = self._count_idle()
        return self._updates(*pairs)

    def plan_removal(self, ids: IdColumn) -> dict[int, MirrorUpdate]:
        """Compute the effect of removing nodes, with edges and ghosts; return updates for other shards."""
        nodes = self.graph.find(ids)
        a, b = self.transaction.pairs_of(nodes[nodes >= 0])
        self._removed, self._idle = (a, b), (0, 0, 0, 0)
        return self._updates(a, b, np.abs(self.graph.pull.look_up(a, b)), np.zeros(len(a), np.int64))

    def _updates(self, a: Nodes, b: Nodes, old: Int64, new: Int64) -> dict[int, MirrorUpdate]:
        self.rule.reserve(self.graph)
        if not self.graph.directed:
            a, b = np.concatenate((a, b)), np.concatenate((b, a))
            old, new = np.concatenate((old, old)), np.concatenate((new, new))
        own = self.rule.own
        arcs = _Arcs(a, b, old, new, np.flatnonzero(own[a] > 0))
        if not len(arcs.old):
            self.subscribers_after = _NOBODY, self.subscribers.counts(_NOBODY)
            return dict.fromkeys(self.others, self._nothing)
        outward = np.flatnonzero((own[b] > 0) & (own[a] == 0))
        nodes = np.concatenate((a[arcs.of_own], b[outward]))
        touched, at = distinct_rows(nodes, self.rule.place)
        before = self.subscribers.counts(touched)
        to = at[len(arcs.of_own) :] * self.shards + self.owner[a[outward]]
        came_or_went = np.sign(new[outward]) - np.sign(old[outward])
        more = np.bincount(to, came_or_went, before.size).astype(np.int32)
        after = before + more.reshape(before.shape)
        self.subscribers_after = touched, after
        return self._by_receiver(arcs, touched, at[: len(arcs.of_own)], before > 0, after > 0)

    def stage(self, batch: EventBatch, now: float | None) -> None:
        """Check the events with an own end, and give nodes to their ids."""
        seen = np.maximum.accumulate(np.empty(0) if batch.t is None else batch.t.astype(np.float64))
        if len(seen):  # all shards have one clock, also those without events
            now = float(seen[-1]) if now is None else max(now, float(seen[-1]))
        batch, src, dst, rows = self.own_events(batch)
        self.transaction.stage(batch, now, seen[rows] if len(seen) else None)
        events = self.transaction.events
        assert events is not None
        named = events.op != LAPSE  # edges that leave by the clock stand between the events
        ends = np.concatenate((events.src[named], events.dst[named]))
        self._note_owners(ends, np.concatenate((src, dst)))
        named[named], self._counted_here = src == self.number, named

    def own_events(self, batch: EventBatch) -> tuple[EventBatch, Int16, Int16, Int64]:
        """Return the events with an own end, the owners of their ends, and their rows in the batch."""
        src, dst = self.slots.owners(batch.src), self.slots.owners(batch.dst)
        rows = np.flatnonzero((src == self.number) | (dst == self.number))
        if len(rows) == len(batch):
            return batch, src, dst, rows
        return rows_of(batch, rows), src[rows], dst[rows], rows

    def _count_idle(self) -> tuple[int, int, int, int]:
        """Count events without effect (adds, removes, loops), and own ends of edges that expire."""
        buffers, events = self.graph.buffers, self.transaction.events
        assert events is not None
        left = events.op == LAPSE
        expired = int(self.rule.own[np.concatenate((events.src[left], events.dst[left]))].sum())
        if not buffers.sizes[UNCHANGED:FOUND].any():
            return 0, 0, 0, expired
        pair, here = buffers.pair_of[: len(events.op)], self._counted_here
        loops = int((here & (pair == LOOP)).sum())
        order = np.argsort(pair, kind="stable")
        order = order[pair[order] >= 0]
        pair, here, adds = pair[order], here[order], events.op[order] > 0
        after = np.where(adds, events.weight[order], 0)
        before = np.maximum(buffers.old[pair], 0)
        again = np.flatnonzero(pair[1:] == pair[:-1]) + 1
        before[again] = after[again - 1]
        idle = here & (before == after)
        unknown = int(self._counted_here.sum() - here.sum()) - loops
        return int((idle & adds).sum()), int((idle & ~adds).sum()) + unknown, loops, expired

    def _note_owners(self, nodes: Nodes, owners: Int16) -> None:
        high = self.graph.ids.high
        if high > len(self.owner):
            self.owner, self.rule.own = grown(self.owner, high), grown(self.rule.own, high)
            self.subscribers.reserve(len(self.owner))
        known = nodes >= 0
        self.owner[nodes[known]] = owners[known]
        self.rule.own[nodes[known]] = owners[known] == self.number

    def _by_receiver(
        self, arcs: _Arcs, touched: Nodes, at: Int32, was: Bool, now: Bool
    ) -> dict[int, MirrorUpdate]:
        """Return the update for each other shard: rules 2 and 3 of the protocol.

        `at` says for each arc of own nodes which of the touched nodes receives; `was` and `now` say for each
        touched node and shard whether the shard mirrors the node before the batch, and after it.
        """
        change = arcs.new - arcs.old
        staying, coming = was & now, now & ~was
        to, sent = self._by_shard(self._unseen(staying[at], arcs.sender[arcs.of_own]))
        sent = arcs.of_own[sent]
        sent_change, count = change[sent], len(sent)
        is_new: Bool = np.logical_or.reduce(coming, axis=1)
        new = np.sort(touched[is_new])
        of_new = arcs.of_own[is_new[at]]
        first = self.rule.rows_after(
            self.graph, new, arcs.receiver[of_new], arcs.sender[of_new], change[of_new]
        )
        to_new, listed = self._by_shard(coming)
        row = np.searchsorted(new, touched[listed])
        degree, rows = first.degree[row], first.rows[row]
        named = np.concatenate((arcs.receiver[sent], arcs.sender[sent], new[row]))
        names, updates = self.graph.ids.names(named), dict.fromkeys(self.others, self._nothing)
        for other in self.others:
            (begin, end), (first_row, last_row) = to[other : other + 2], to_new[other : other + 2]
            if begin < end or first_row < last_row:
                new_begin, new_end = 2 * count + first_row, 2 * count + last_row
                ranges = (begin, end), (count + begin, count + end), (new_begin, new_end)
                node, aggregated, fresh = (take(names, np.arange(*some)) for some in ranges)
                some = slice(first_row, last_row)
                update = MirrorUpdate(
                    node, aggregated, sent_change[begin:end], fresh, degree[some], rows[some]
                )
                updates[other] = update
        return updates

    def _unseen(self, sent: Bool, sender: Nodes) -> Bool:
        """Unmark, in marks of (arcs, shards), arcs whose sender the shard owns: it computes these itself."""
        sent[np.arange(len(sent)), self.owner[sender]] = False
        return sent

    def _by_shard(self, marks: Bool) -> tuple[list[int], Int64]:
        """Return where each shard's marked rows begin, and the rows."""
        shard, row = np.nonzero(np.ascontiguousarray(marks.T))
        return np.searchsorted(shard, np.arange(self.shards + 1)).tolist(), row

    def apply(self, updates: Mapping[int, MirrorUpdate] | None) -> Applied:
        """Write the batch that was planned last, with the updates of all other shards.

        Without updates it is a replay, which leaves mirrors and order 2 alone: see `rebuild`.
        """
        with self.transaction:
            if self._removed is None:
                delta = self.transaction.write()
            else:
                delta, self._removed = self.transaction.drop_pairs(*self._removed), None
            self.subscribers.put(*self.subscribers_after)
        moved = NO_CHANGE
        if updates is None:
            self.rule.apply_near(self.graph, delta)
        else:
            far, first = self._read(updates)
            stays, gone = self._mirrors_of(delta)
            moved = self.rule.apply_with(self.graph, delta, stays, far, first, gone)
        left = self.graph.ids.names(delta.left[self.rule.own[delta.left] > 0])
        self.transaction.release(delta.left)
        return Applied(moved, left, self._idle)

    def _mirrors_of(self, delta: GraphDelta) -> tuple[Bool, Nodes]:
        """Return which arcs end in mirrors that stay, and the mirrors that no own node aggregates now."""
        own, count = self.rule.own, self.graph.push.count
        to_mirror = own[delta.receiver] == 0
        more = np.sign(delta.new) - np.sign(delta.old)  # 1: a new arc, -1: a removed one
        inward = np.flatnonzero((own[delta.sender] == 0) & ~to_mirror)
        mirrors, at = np.unique(
            np.concatenate((delta.sender[inward], delta.receiver[to_mirror])), return_inverse=True
        )
        gained = np.bincount(at[: len(inward)], more[inward], len(mirrors))
        was, now = count[mirrors] - gained > 0, count[mirrors] > 0
        stays = np.zeros(len(delta.receiver), np.bool_)
        stays[to_mirror] = (was & now)[at[len(inward) :]]
        return stays, mirrors[was & ~now].astype(np.int32)

    def _read(self, updates: Mapping[int, MirrorUpdate]) -> tuple[FarChanges, FirstRows]:
        """Return updates of other shards by node, with the features of aggregated nodes."""
        ids, some = self.graph.ids, [self._nothing, *updates.values()]
        units, has = self.features.units_by_id(join_ids([one.aggregated for one in some]), ids)
        found = ids.find(join_ids([one.node for one in some] + [one.new for one in some]))
        change, degree, rows = (
            np.concatenate([getattr(one, name) for one in some]) for name in ("change", "degree", "rows")
        )
        node, new = np.split(found, [len(change)])
        messages = (rows >> self.features.message_shift).reshape(-1)
        self.graph.note_bits(np.concatenate((np.abs(change), messages)))
        return FarChanges(node, units, has, change), FirstRows(new, degree, rows)

    # ---- slots that move -------------------------------------------------------------------------------

    def plan_move(self, slots: SlotMap, shards: int) -> tuple[dict[int, MirrorUpdate], dict[int, GraphImage]]:
        """Compute the effect of moving slots to other owners.

        Returns the update for each other shard, and by shard the edges of own nodes that it will own.
        """
        self._next = slots, shards
        own, owner = self.own_nodes(), self._owners_by(slots)
        staying = own[owner[own] == self.number]
        before = np.zeros((len(staying), shards), np.int32)
        before[:, : self.shards] = self.subscribers.counts(staying)[:, :shards]
        after = self._counted(staying, owner, shards)
        updates, leaving = {}, {}
        for other in range(max(shards, self.shards)):
            if other == self.number:
                continue
            new = staying[(before[:, other] == 0) & (after[:, other] > 0)] if other < shards else own[:0]
            updates[other] = self._rows_for(new) if len(new) else self._nothing
            if ((self.slots.owner == self.number) & (slots.owner == other)).any():
                moved = np.zeros(self.graph.ids.high, np.bool_)
                moved[own[owner[own] == other]] = True
                leaving[other] = take_arcs(self.graph, moved)
        return updates, leaving

    def _rows_for(self, nodes: Nodes) -> MirrorUpdate:
        names, rows = self.graph.ids.names, self.rule.rows_of(nodes)
        nobody = names(nodes[:0])
        return MirrorUpdate(nobody, nobody, _NOTHING, names(nodes), rows.degree, rows.rows)

    def _owners_by(self, slots: SlotMap) -> Int16:
        """Return the owner of every node in the graph, -1 for numbers without a node."""
        here = np.flatnonzero(self.graph.here).astype(np.int32)
        owner = np.full(self.graph.ids.high, -1, np.int16)
        owner[here] = slots.owners(self.graph.ids.names(here))
        return owner

    def _counted(self, nodes: Nodes, owner: Int16, shards: int) -> Int32:
        """Count, for each of some nodes and each other shard, the nodes that aggregate it."""
        at = np.empty(self.graph.ids.high, np.int32)
        counts = [np.zeros((0, shards), np.int32)]
        for block in blocks_of(nodes, self.graph.push.count):
            at[block] = np.arange(len(block), dtype=np.int32)
            node, receiver, _ = self.graph.push.arcs(block)
            to = owner[receiver]
            foreign = np.flatnonzero(to != self.number)
            count = np.bincount(at[node[foreign]] * shards + to[foreign], minlength=len(block) * shards)
            counts.append(count.astype(np.int32).reshape(len(block), shards))
        return np.concatenate(counts)

    def apply_move(self, updates: Mapping[int, MirrorUpdate] | None, arriving: Iterable[GraphImage]) -> None:
        """Take over the slots of the planned map.

        `updates` are those of all other shards; None in a replay, which leaves rows of mirrors and order 2
        alone. `arriving` are edges of new own nodes, as `plan_move` of other shards returned them.
        """
        before = self.own_nodes()
        with self.transaction:
            for image in arriving:
                put_arcs(self.transaction, image)
            self.slots, self.shards = self._next
            self.others = tuple(other for other in range(self.shards) if other != self.number)
            self._note_all_owners()
            delta = drop_arcs(self.transaction, self.rule.own[: self.graph.ids.high] > 0)
        self._recount()
        first = None if updates is None else self._read(updates)[1]
        self.rule.reserve(self.graph)
        self.rule.forget_rows(self._strangers())
        self.rule.own_order_1(self.graph, np.setdiff1d(self.own_nodes(), before, assume_unique=True))
        if first is not None:
            self.rule.take_rows(first)
            self.rule.rebuild_order_2(self.graph)
        self.transaction.release(delta.left)

    def _strangers(self) -> Nodes:
        """Return numbers that are neither own nodes nor mirrors: they must have no row."""
        high = self.graph.ids.high
        nobodys = (self.rule.own[:high] == 0) & (self.graph.push.count[:high] == 0)
        return np.flatnonzero(nobodys).astype(np.int32)

    def _note_all_owners(self) -> None:
        here = np.flatnonzero(self.graph.here).astype(np.int32)
        self.rule.own[:] = 0
        self._note_owners(here, self.slots.owners(self.graph.ids.names(here)))

    def _recount(self) -> None:
        own = self.own_nodes()
        self.subscribers = Subscribers(self.shards)
        self.subscribers.reserve(len(self.owner))
        self.subscribers.put(own, self._counted(own, self.owner, self.shards))

    # ---- from a snapshot -------------------------------------------------------------------------------

    def load(self, image: GraphImage) -> None:
        """Fill an empty shard with the edges of its own nodes, and compute order 1 of these."""
        build_graph(image, self.graph)
        self._note_owners(_NOBODY, _NO_OWNERS)
        self._note_all_owners()
        self.after_loading()

    def after_loading(self) -> None:
        """Count the subscribers of own nodes, and compute order 1 of these."""
        self._recount()
        self.rule.rebuild_order_1(self.graph)

    def image(self) -> GraphImage:
        """Return the edges of own nodes, without internal ids."""
        return take_image(self.graph)[0]

    def mirrors(self) -> dict[int, IdColumn]:
        """Return the ids of all mirrors, by owner."""
        high = self.graph.ids.high
        mirrors = np.flatnonzero((self.rule.own[:high] == 0) & (self.graph.push.count[:high] > 0))
        owner, names = self.owner[mirrors], self.graph.ids.names
        return {other: names(mirrors[owner == other].astype(np.int32)) for other in self.others}

    def rows_for(self, ids: IdColumn) -> MirrorUpdate:
        """Return order 1 of own nodes by their ids, as it is now."""
        return self._rows_for(self.graph.find(ids))

    def take_rows(self, rows: MirrorUpdate) -> None:
        """Take order 1 of mirrors from their owner."""
        first = self._read({0: rows})[1]
        self.rule.reserve(self.graph)
        self.rule.take_rows(first)

    def rebuild(self) -> None:
        """Compute order 2 of own nodes from nothing, once all rows of mirrors were taken."""
        self.rule.forget_rows(self._strangers())
        self.rule.rebuild_order_2(self.graph)

    # ---- reading ---------------------------------------------------------------------------------------

    def own_nodes(self) -> Nodes:
        """Return the shard's own nodes that are in the graph."""
        high = self.graph.ids.high
        return np.flatnonzero((self.graph.here > 0) & (self.rule.own[:high] > 0)).astype(np.int32)

    def check(self) -> None:
        """Do nothing: a shard is never torn while it is read."""

    def reading(self) -> Readout:
        """Return what reads vectors of own nodes."""
        return Readout(self.model, self.rule, self.graph)
