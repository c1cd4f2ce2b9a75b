"""The cluster on simulated machines: every run must end right, and every seeded bug must be noticed."""

import numpy as np
import pytest

from dygcn.cluster import messages
from dygcn.cluster import shard as shards
from dygcn.cluster import worker as workers
from dygcn.cluster.shard import Shard
from dygcn.cluster.worker import Worker
from dygcn.engine.events import rows_of
from dygcn.engine.graph.transaction import Transaction
from dygcn.engine.propagation.mirrored import MirroredRule
from dygcn_lab.testbed import simulated_cluster
from dygcn_lab.testbed.simulated_cluster import SimulatedCluster

SEEDS = 1_000
PARTS = [*range(4), *(pytest.param(part, marks=pytest.mark.slow) for part in range(4, 20))]


@pytest.mark.parametrize("part", PARTS)
def test_every_run_ends_right(part):
    reads = 0
    for seed in range(part, SEEDS, len(PARTS)):
        run = SimulatedCluster(seed)
        run.run()
        assert not run.wrong, (seed, run.wrong, run.weather)
        reads += run.reads
    assert reads > 0


def test_one_seed_is_one_run():
    runs = []
    for _ in range(2):
        run = SimulatedCluster(11)
        run.run()
        runs.append((run.messages, run.now, run.reads, run.crashes, run.moves))
    assert runs[0] == runs[1]


# ---- seeded bugs -----------------------------------------------------------------------------------------


def rows_as_of_now(patch):
    """A first row is what it is now, not what it is after the batch."""

    def now(self, graph, nodes, receiver, sender, change):
        known = nodes[nodes < len(self.sums[0].slot)]
        first = self.rows_of(known)
        fill = len(nodes) - len(known)
        first = type(first)(nodes, np.pad(first.degree, (0, fill)), np.pad(first.rows, ((0, fill), (0, 0))))
        return first

    patch.setattr(MirroredRule, "rows_after", now)


def a_stale_epoch_is_answered(patch):
    patch.setattr(Worker, "_is_for_me", lambda self, reply: not self.ready)


def a_slot_is_owned_twice(patch):
    """Who loses a slot goes on as if it had it."""
    whole = Shard._note_all_owners

    def kept(self):
        before = self.own_nodes() if len(self.rule.own) >= self.graph.ids.high else np.empty(0, np.int32)
        whole(self)
        self.rule.own[before[self.graph.here[before] > 0]] = 1

    patch.setattr(Shard, "_note_all_owners", kept)


def the_end_of_the_log_is_lost(patch):
    """The sequencer tells the shards before an entry is on disk."""
    crash = SimulatedCluster._crash_sequencer

    def crashed(self, seconds):
        if self.sequencer is not None and self.log.entries:
            self.log.entries.pop()
        crash(self, seconds)

    patch.setattr(SimulatedCluster, "_crash_sequencer", crashed)


def messages_are_dropped_early(patch):
    """Updates are dropped as soon as the shard itself applied their batch."""

    def forget(self):
        for sequence in [one for one in self._sent if one <= self.position]:
            del self._sent[sequence]

    patch.setattr(Worker, "_forget", forget)


def the_newest_snapshot_is_loaded(patch):
    whole = workers.Worker.__init__

    class Newest:
        def __init__(self, disk):
            self._disk = disk

        def __getattr__(self, name):
            return getattr(self._disk, name)

        @property
        def sequences(self):
            return self._disk.sequences[-1:]

    def init(self, number, epoch, model, snapshots, *rest, **named):
        whole(self, number, epoch, model, Newest(snapshots), *rest, **named)
        self.snapshots = snapshots

    patch.setattr(Worker, "__init__", init)


def a_mirror_keeps_its_row(patch):
    """A mirror that nobody aggregates keeps its sum, which the next node with its number finds."""
    whole = Shard._mirrors_of

    def kept(self, delta):
        stays, gone = whole(self, delta)
        return stays, gone[:0]

    patch.setattr(Shard, "_mirrors_of", kept)


def new_subscribers_get_changes_too(patch):
    """A shard that gets a first row is sent the changes that the row contains already."""
    whole = Shard._by_receiver

    def sent_twice(self, arcs, touched, at, was, now):
        first = whole(self, arcs, touched, at, was, now)
        sent = whole(self, arcs, touched, at, was | now, was | now)
        changes = {other: (one.node, one.aggregated, one.change) for other, one in sent.items()}
        return {
            other: type(one)(*changes[other], one.new, one.degree, one.rows) for other, one in first.items()
        }

    patch.setattr(Shard, "_by_receiver", sent_twice)


def seen_changes_are_sent(patch):
    """A shard is sent arcs to its own nodes, which it sees itself."""
    patch.setattr(Shard, "_unseen", lambda self, sent, sender: sent)


def the_clock_is_of_own_events(patch):
    whole = Shard.stage

    def staged(self, batch, now):
        if batch.t is None:
            return whole(self, batch, now)
        owners = self.slots.owners(batch.src), self.slots.owners(batch.dst)
        rows = np.flatnonzero((owners[0] == self.number) | (owners[1] == self.number))
        return whole(self, rows_of(batch, rows), now)

    patch.setattr(Shard, "stage", staged)


def edges_leave_by_the_clock_of_own_events(patch):
    whole = Transaction.stage
    patch.setattr(Transaction, "stage", lambda self, batch, now=None, seen=None: whole(self, batch, now))


def a_shard_that_is_behind_gets_rows(patch):
    """The reply to a request has rows of a later batch."""

    def answer(self):
        for sender, request in list(self._requests.items()):
            if request.at <= self.position:
                del self._requests[sender]
                rows = self.shard.rows_for(request.mirrors) if self._knows(request.mirrors) else None
                if rows is not None:
                    about = self.number, request.epoch, request.at
                    self._network.send(sender, messages.MirrorRows(*about, rows))

    def knows(self, mirrors):
        return bool((self.shard.graph.find(mirrors) >= 0).all())

    patch.setattr(Worker, "_knows", knows, raising=False)
    patch.setattr(Worker, "_answer_requests", answer)


def what_was_handed_over_is_dropped(patch):
    """The edges of moved nodes go as soon as they were taken."""
    whole = Worker._step_to

    def step(self, sequence):
        whole(self, sequence)
        self.snapshots.arrivals.clear()

    patch.setattr(Worker, "_step_to", step)


def moved_nodes_bring_no_ghosts(patch):
    whole = shards.put_arcs

    def put(transaction, image):
        kept = image.weight > 0
        empty = image.ghost_weight[:0], image.ghost_t[:0]
        pairs = (
            (image.pair_t[kept], image.pair_count[kept])
            if len(image.pair_t)
            else (image.pair_t, image.pair_count)
        )
        about = image.ids, image.own, image.a[kept], image.b[kept], image.weight[kept], *empty
        return whole(transaction, type(image)(*about, image.clock, image.contact, image.activity, *pairs))

    patch.setattr(shards, "put_arcs", put)


def retired_shards_are_silent(patch):
    """A shard that starts again, and is behind, waits for one that owns nothing any more."""
    whole = Worker.step
    patch.setattr(Worker, "step", lambda self: self.number < self.shard.shards and whole(self))


def shards_that_go_are_forgotten(patch):
    """Updates are dropped when the shards that stay have them."""
    whole = Worker._plan

    def plan(self, sequence, entry):
        whole(self, sequence, entry)
        self._left = None

    patch.setattr(Worker, "_plan", plan)


def a_row_is_left_behind(patch):
    """Of a node that moved away and left, in a replay."""
    patch.setattr(MirroredRule, "forget_rows", lambda self, nodes: None)


BUGS = {  # with the first seed that notices it, from which the search begins
    rows_as_of_now: 1,
    a_stale_epoch_is_answered: 13,
    a_slot_is_owned_twice: 8,
    the_end_of_the_log_is_lost: 6,
    messages_are_dropped_early: 0,
    the_newest_snapshot_is_loaded: 278,
    a_mirror_keeps_its_row: 5,
    new_subscribers_get_changes_too: 4,
    seen_changes_are_sent: 5,
    the_clock_is_of_own_events: 5,
    edges_leave_by_the_clock_of_own_events: 46,
    a_shard_that_is_behind_gets_rows: 5,
    what_was_handed_over_is_dropped: 0,
    moved_nodes_bring_no_ghosts: 89,
    retired_shards_are_silent: 64,
    shards_that_go_are_forgotten: 51,
    a_row_is_left_behind: 8,
}


def is_noticed(seed):
    run = SimulatedCluster(seed)
    try:
        run.run()
    except Exception:
        return True
    return bool(run.wrong)


@pytest.mark.parametrize("bug", BUGS)
def test_a_seeded_bug_would_be_noticed(bug, monkeypatch):
    bug(monkeypatch)
    monkeypatch.setattr(simulated_cluster, "_LONG", 30.0)
    assert any(is_noticed(seed) for seed in range(BUGS[bug], 600))
