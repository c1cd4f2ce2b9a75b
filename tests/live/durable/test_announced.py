"""A tolerance is of what is published: readers are within `error_bound`, and exact after a flush."""

import copy
import dataclasses

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from safetensors.numpy import load_file

import dygcn
from dygcn.engine.events import read_update
from dygcn.engine.records import NO_CHANGE, IdColumn
from dygcn.errors import FeatureError
from dygcn.live.changed import Announcer, Unsaid
from dygcn.live.durable import recovery
from dygcn.live.durable.feed import Feed
from dygcn.live.durable.snapshots import SnapshotWriter
from dygcn.live.durable.storage.entries import Kind, NewEntry
from dygcn.live.durable.storage.layout import list_snapshots, snapshot_path
from dygcn.live.durable.write_ahead import WriteAhead
from dygcn.live.embedding import LiveEmbedding
from dygcn.live.files import GRAPH_FILE, load_snapshot
from dygcn_lab.testbed.seeding import small_model
from tests.live.crashing import WIDTH, begin, crash, many_folders, refuse_one, reopened
from tests.live.durable.readers import RUN, Dated, OneFolder, Reader, hunting
from tests.live.steps import step, take

NODES, NOBODY, BEYOND = 24, np.empty(0, np.int32), LiveEmbedding._announce_beyond
HUBS, IDS = st.integers(0, 2), st.integers(0, NODES - 1)
EVENT = st.tuples(
    HUBS | IDS, IDS, st.just(0.0), st.sampled_from([1, 1, 1, -1]), st.sampled_from([1.0, 1.0, 2.0])
)
EVENTS = st.lists(EVENT, max_size=8)
TOLERANCES = st.sampled_from([0.0, 0.001, 0.05, 0.3, 0.9, 10.0])
KEEPING = TOLERANCES.filter(bool)


def announced(live):
    """What was announced of each heavy node, who has another message now, and when each node moved last."""
    announcer, state, live = live._announces(), live._live._state, live._live
    said, nodes = announcer._said, state.graph.nodes()
    assert announcer._unsaid <= said.keys() <= {*nodes.tolist()}
    ids = dict(zip(nodes.tolist(), live._names(nodes).values.tolist(), strict=True))
    return (
        {ids[node]: row.tobytes() for node, row in said.items()},
        {ids[node] for node in announcer._unsaid},
        dict(zip(ids.values(), live._change_record().sequences_of(nodes).tolist(), strict=True)),
        dict(zip(ids.values(), live.error_bound(list(ids.values())).tolist(), strict=True)),
    )


class TwinMachine(Dated):
    """Two folders of the same log: one is never closed, the other ends in every way. Both tell the same.

    An id that was forgotten does not come back: where it leaves again, a restart begins readers anew, with or
    without a tolerance, since no departure of it is kept.
    """

    @initialize(
        features=st.sampled_from(["hashed", "walks"]),
        directed=st.booleans(),
        memory=st.booleans(),
        tolerance=KEEPING,
    )
    def start(self, features, directed, memory, tolerance):
        model = small_model(features=features, directed=directed, half_life=2.0 if memory else None)
        self.whole, self.ended = (
            dygcn.open(self.new_folder(), dygcn.start(model), snapshot_every=10**9) for _ in range(2)
        )
        self.readers, self.taken, self.forgotten = (Reader(), Reader()), None, set()
        self.update([(hub, n, 0.0, 1, 1.0) for hub in range(3) for n in range(3 + hub, NODES, 1 + hub)])
        self.tolerate(tolerance)
        self.catch_up()

    def both(self, change):
        return [change(live) for live in (self.whole, self.ended)]

    def dated(self, events):
        return super().dated([event for event in events if self.forgotten.isdisjoint(event[:2])])

    # -- what both do

    @rule(events=EVENTS)
    def update(self, events):
        events = self.dated(events)
        one, other = self.both(lambda live: {*live.update(events).ids.tolist()})
        assert one == other

    @rule(hub=HUBS, count=st.integers(1, 6))
    def many_small_moves(self, hub, count):
        for n in range(count):
            self.update([(hub, 100 + n, 0.0, 1, 1.0)])

    @rule(hub=HUBS, count=st.integers(1, 6))
    def listeners(self, hub, count):
        """In a directed graph more hear a node whose message stays."""
        self.update([(200 + n, hub, 0.0, 1, 1.0) for n in range(count)])

    @rule(events=EVENTS)
    def bulk(self, events):
        self.finish()
        events = self.dated(events)
        self.both(lambda live: live.bulk([events]))

    @rule(one=HUBS | IDS)
    def remove_nodes(self, one):
        self.finish()
        self.both(lambda live: live.update(remove_nodes=[one]))

    @rule(one=HUBS | IDS)
    def forget(self, one):
        self.finish()
        self.both(lambda live: live.forget([one]))
        self.forgotten.add(one)
        assert not self.whole._live._unsaid().rows.size
        self.catch_up()  # a restart begins readers anew who were not shown that an id left that was forgotten

    @rule(tolerance=KEEPING)
    def tolerate(self, tolerance):
        self.both(lambda live: live.publish(tolerance=tolerance))

    @rule()
    def flush(self):
        self.both(lambda live: live.publish())

    # -- what one does

    @rule()
    def snapshot(self):
        self.finish()
        self.ended.snapshot()

    @rule()
    def begin_snapshot(self):
        """Take one, as for the thread that writes it while events come."""
        self.finish()
        self.taken = self.ended._snapshots._take()

    @rule()
    def finish(self):
        taken, self.taken = self.taken, None
        if taken is not None:
            self.ended._snapshots._write(taken)

    @rule()
    def crash(self):
        """A snapshot that was being written is lost."""
        self.taken, self.ended = None, reopened(self.ended)

    @rule()
    def close(self):
        self.finish()
        self.ended.close()
        self.ended = dygcn.open(self.ended._folder)

    @rule(events=EVENTS)
    def crash_behind_the_log(self, events):
        """The process ends between an entry of the log and its change."""
        events = self.dated(events)
        self.whole.update(events)
        self.ended._live._apply = raising(OSError("the end"))
        with pytest.raises(OSError, match="the end"):
            self.ended.update(events)
        self.crash()

    @rule()
    def crash_before_a_snapshot(self):
        """The process ends before the snapshot is there that a change waits for: it never happened."""
        self.finish()
        refuse_one(self.whole)
        log = self.ended._log
        log.append([NewEntry(Kind.BARRIER, body=bytes(16))], log.last_batch_id + 1)
        self.crash()

    # -- what they tell

    @invariant()
    def both_know_the_same(self):
        one, other = self.both(lambda live: (live.sequence, live._tolerance, live.version, *announced(live)))
        assert one == other

    @rule()
    def catch_up(self):
        told = []
        for reader, live in zip(self.readers, (self.whole, self.ended), strict=True):
            reader.catch_up(live, 5, exact=False)
            told.append((sorted(reader.reported), sorted(reader.reported_left), reader.resets))
        assert told[0] == told[1]
        assert self.readers[0].rows == self.readers[1].rows

    def teardown(self):
        self.catch_up()
        self.flush()
        for reader, live in zip(self.readers, (self.whole, self.ended), strict=True):
            reader.catch_up(live)
            crash(live)


def raising(error):
    def fail(*_):
        raise error

    return fail


class AnnouncedMachine(OneFolder):
    """One reader that follows the feed of a graph of hubs, over tolerances, restarts and the end of hubs."""

    @initialize(
        features=st.sampled_from(["hashed", "walks"]),
        directed=st.booleans(),
        memory=st.booleans(),
        tolerance=TOLERANCES,
    )
    def start(self, features, directed, memory, tolerance):
        half_life = 2.0 if memory else None
        model = small_model(features=features, directed=directed, half_life=half_life)
        self.live = dygcn.open(self.new_folder(), dygcn.start(model), snapshot_every=10**9)
        self.reader = Reader()
        spokes = [(hub, n, 0.0, 1, 1.0) for hub in range(3) for n in range(3 + hub, NODES, 1 + hub)]
        self.update(spokes)
        self.live.publish(tolerance=tolerance)

    @rule(events=EVENTS)
    def update(self, events):
        self.live.update(self.dated(events))

    @rule(a=HUBS, b=IDS)
    def one_edge(self, a, b):
        self.live.update(self.dated([(a, b, 0.0, 1, 1.0)]))

    @rule(events=EVENTS)
    def bulk(self, events):
        self.live.bulk([self.dated(events)])

    @rule(one=HUBS | IDS)
    def remove_nodes(self, one):
        self.live.update(remove_nodes=[one])

    @rule(tolerance=TOLERANCES)
    def tolerate(self, tolerance):
        self.live.publish(tolerance=tolerance)
        self.must_be_exact()

    @rule()
    def flush(self):
        self.live.publish()
        self.must_be_exact()

    def restarted(self):
        self.catch_up()

    @rule(limit=st.sampled_from([1, 3, 1000]))
    def read(self, limit):
        """Begin a run of pages that an update may come into."""
        self.reader.read(self.live, limit)

    @precondition(lambda self: self.live._tolerance > 0)
    @rule(hub=HUBS, count=st.integers(1, 6))
    def many_small_moves(self, hub, count):
        for n in range(count):
            self.one_edge(hub, 100 + n)
            self.reader.catch_up(self.live, exact=False)

    @rule()
    def catch_up(self):
        self.reader.catch_up(self.live, exact=False)

    def must_be_exact(self):
        self.reader.catch_up(self.live)
        assert not self.live.error_bound(self.live.ids()).any() or self.live._tolerance

    @invariant()
    def the_state_is_exact(self):
        assert self.live.digest() == self.live.recompute().digest()

    def teardown(self):
        self.reader.catch_up(self.live, 7, exact=False)
        self.live.publish()
        self.must_be_exact()
        crash(self.live)


RUN = settings(RUN, max_examples=15)
HUNT = hunting(RUN, 500)


@pytest.fixture(autouse=True)
def hubs(monkeypatch):
    monkeypatch.setenv("DYGCN_HEAVY_FROM", "4")


@pytest.fixture
def machine(monkeypatch):
    with many_folders() as new_folder:
        monkeypatch.setattr(AnnouncedMachine, "new_folder", staticmethod(new_folder), raising=False)
        yield AnnouncedMachine


@pytest.fixture
def twins(monkeypatch):
    with many_folders() as new_folder:
        monkeypatch.setattr(TwinMachine, "new_folder", staticmethod(new_folder), raising=False)
        yield TwinMachine


def test_a_reader_is_within_the_bound_and_exact_after_a_flush(machine):
    run_state_machine_as_test(machine, settings=RUN)


def test_a_restart_tells_what_would_have_been_told_without_it(twins):
    run_state_machine_as_test(twins, settings=settings(RUN, max_examples=10))


@pytest.mark.slow
def test_many_more_restarts_do(twins):
    run_state_machine_as_test(twins, settings=settings(RUN, max_examples=1000, stateful_step_count=50))


@pytest.mark.slow
def test_many_more_readers_are(machine):
    run_state_machine_as_test(machine, settings=settings(RUN, max_examples=1000, stateful_step_count=50))


# ---- seeded bugs -------------------------------------------------------------------------------------


def nobody_hears_of_a_hub(monkeypatch):
    monkeypatch.setattr(Announcer, "_exceeding", lambda self, nodes: nodes[:0])


def what_was_kept_back_is_forgotten(monkeypatch):
    monkeypatch.setattr(Announcer, "flush", lambda self: NO_CHANGE)


def a_restart_tells_nobody(monkeypatch):
    """What is there counts as announced."""
    monkeypatch.setattr(LiveEmbedding, "_announce_beyond", lambda self, to, unsaid=None: BEYOND(self, to))


def a_bound_is_of_half_of_the_neighbours(monkeypatch):
    whole = Announcer._hears
    monkeypatch.setattr(Announcer, "_hears", lambda self, nodes: whole(self, nodes) & (nodes % 2 == 0))


MUTANTS = [
    nobody_hears_of_a_hub,
    what_was_kept_back_is_forgotten,
    a_bound_is_of_half_of_the_neighbours,
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_seeded_bug_would_be_noticed(mutant, machine, monkeypatch):
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine, settings=HUNT)


# -- of a restart


def what_was_announced_is_not_written(monkeypatch):
    def image(self):
        return Unsaid(self._state.graph.ids.names(NOBODY), np.empty((0, WIDTH), np.int32))

    monkeypatch.setattr(Announcer, "image", image)


def the_messages_of_now_are_written(monkeypatch):
    whole = Announcer.image

    def image(self):
        found = whole(self)
        nodes = self._state.graph.find(found.ids)
        return Unsaid(found.ids, self._state.exact.messages(self._state.graph, nodes, 1)[0])

    monkeypatch.setattr(Announcer, "image", image)


def what_was_announced_is_read_when_it_is_written(monkeypatch):
    """Behind what a snapshot holds, where events came meanwhile."""
    whole = SnapshotWriter._write

    def write(self, taken, needed=False):
        feed = dataclasses.replace(taken.feed, unsaid=self._ahead.live._unsaid())
        whole(self, dataclasses.replace(taken, feed=feed), needed)

    monkeypatch.setattr(SnapshotWriter, "_write", write)


def cuts_are_joined_at_a_restart(monkeypatch):
    whole = recovery.batches
    monkeypatch.setattr(recovery, "batches", lambda found, merge, end=None: whole(found, lambda: True, 10**9))


def a_restart_counts_everyone_as_moved(monkeypatch):
    whole = WriteAhead._go_on_from

    def go_on_from(self, standing):
        self._known = False
        whole(self, standing)

    monkeypatch.setattr(WriteAhead, "_go_on_from", go_on_from)


def who_became_a_hub_is_not_noted(monkeypatch):
    monkeypatch.setattr(Announcer, "_say_of_rising", lambda self, nodes: None)


def who_left_is_remembered(monkeypatch):
    monkeypatch.setattr(Announcer, "_drop", lambda self, nodes: None)


RESTARTS = [
    a_restart_tells_nobody,
    what_was_announced_is_not_written,
    the_messages_of_now_are_written,
    cuts_are_joined_at_a_restart,
    a_restart_counts_everyone_as_moved,
    who_left_is_remembered,
]


@pytest.mark.parametrize("mutant", RESTARTS, ids=lambda mutant: mutant.__name__)
def test_a_seeded_bug_of_a_restart_would_be_noticed(mutant, twins, monkeypatch):
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(twins, settings=HUNT)


MEANWHILE = [  # a hub is announced between what a snapshot takes and the end of its file
    step("start", features="hashed", directed=False, memory=False, tolerance=0.05),
    step("many_small_moves", hub=0, count=1),
    step("begin_snapshot"),
    step("listeners", hub=0, count=6),
    step("many_small_moves", hub=0, count=3),
    step("finish"),
    step("crash"),
    step("both_know_the_same"),
]


RISING = [  # a node becomes a hub by its listeners alone, and moves after a restart
    step("start", features="hashed", directed=True, memory=False, tolerance=10.0),
    step("remove_nodes", one=0),
    step("update", events=[(0, 5, 0.0, 1, 1.0)]),
    step("listeners", hub=0, count=6),
    step("snapshot"),
    step("crash"),
    step("update", events=[(0, 6, 0.0, 1, 1.0)]),
]


@pytest.mark.parametrize(
    ("mutant", "steps"),
    [(what_was_announced_is_read_when_it_is_written, MEANWHILE), (who_became_a_hub_is_not_noted, RISING)],
    ids=["read too late", "not noted"],
)
def test_steps_show_a_bug_of_a_restart(mutant, steps, twins, monkeypatch):
    take(twins, steps)
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        take(twins, steps)


SMALL_MOVES = [  # each is less than the tolerance, and together they are more
    step("start", features="hashed", directed=False, memory=False, tolerance=0.3),
    step("many_small_moves", hub=0, count=6),
    *(step("remove_nodes", one=n) for n in range(3, 12)),
    step("catch_up"),
]


def test_steps_show_that_nobody_hears_of_a_hub(machine, monkeypatch):
    take(machine, SMALL_MOVES)
    nobody_hears_of_a_hub(monkeypatch)
    with pytest.raises(AssertionError):
        take(machine, SMALL_MOVES)


# ---- what is listed ----------------------------------------------------------------------------------


@pytest.fixture
def live(tmp_path):
    live = begin(tmp_path / "x")
    live.update(add=[(0, spoke) for spoke in range(1, 40)])
    yield live
    live._let_go()


def test_moves_that_a_tolerance_kept_back_are_listed_by_a_flush(live):
    live.publish(tolerance=0.5)
    reader = Reader().catch_up(live)
    assert sorted(live.update(add=[(0, 40)]).ids.tolist()) == [0, 40]
    reader.catch_up(live, exact=False)
    assert sorted(reader.reported) == [0, 40]
    change = live.publish()
    assert sorted(change.ids.tolist()) == list(range(1, 41))
    assert set(reader.catch_up(live).reported) == set(change.ids.tolist())
    assert len(live.publish()) == 0


def test_small_moves_add_up(live):
    """Each is below the tolerance; a spoke is listed once their sum is above it."""
    live.publish(tolerance=0.05)
    listed = [bool(np.isin(1, live.update(add=[(0, 100 + n)]).ids)) for n in range(30)]
    assert not any(listed[:3])
    assert 0 < sum(listed) < 10


def test_who_left_is_not_listed_as_moved(live):
    live.publish(tolerance=0.5)
    change = live.update(remove=[(0, 5)])
    assert (change.ids.tolist(), change.left.tolist()) == ([0], [5])
    change = live.update(remove_nodes=[0])
    assert (len(change.ids), len(change.left)) == (0, 39)


def test_a_reader_is_not_told_of_who_left(live):
    live.publish(tolerance=0.5)
    live.update(remove=[(0, 5)])
    reader = Reader().catch_up(live, exact=False)
    assert 5 not in reader.rows


def test_the_bound_of_a_hub_that_is_light_again():
    """Its number of arcs falls and its message stays: nobody was told of it, and the bound says so."""
    live = dygcn.start(small_model(directed=True))
    live.update(add=[(spoke, 0) for spoke in range(1, 5)] + [(0, 10), (0, 11)])
    live.publish(tolerance=0.9)
    before = live[1]
    assert 1 not in live.update(add=[(0, 14)]).ids
    assert 1 not in live.update(remove=[(4, 0), (3, 0)]).ids
    far = np.linalg.norm(live[1] - before)
    assert 0 < far <= live.error_bound([1])[0]
    assert 1 in live.publish().ids
    assert live.error_bound([1])[0] == 0


def test_who_was_light_meanwhile_is_announced_as_if_it_was_never_heavy(monkeypatch):
    """A node that loses listeners and moves not: a restart does not know what it was when it was heavy."""
    monkeypatch.setenv("DYGCN_HEAVY_FROM", "4")
    edges = [(listener, 0) for listener in range(1, 5)] + [(0, 10), (0, 11), (0, 12), (10, 11), (11, 12)]
    live = dygcn.fit(edges, dim=8, directed=True)
    whole = Announcer(live._state, 0.5)

    def followed(announcer, moved):
        return live._state.graph.ids.names(announcer.follow(moved).nodes).values.tolist()

    def applied(**change):
        return live._state.apply(
            read_update(None, change.get("add"), change.get("remove"), "int64", None)
        ).moved

    assert followed(whole, applied(remove=[(1, 0)]))
    again = Announcer(live._state, 0.5, whole.image())
    moved = applied(add=[(1, 0), (5, 0), (0, 13), (13, 10)])
    assert followed(whole, moved) == followed(again, moved)
    assert whole._said.keys() == again._said.keys()


def test_a_message_that_comes_is_announced_however_short_it_is():
    """A neighbour without one is no part of the mean, so a short one may move it far."""
    live = dygcn.start(small_model(features="walks"))
    live.update(add=[(0, 3 * spoke) for spoke in range(1, 6)] + [(3, 1)])  # every third node has no row
    live.publish(tolerance=10.0)
    assert 3 in live.update(add=[(0, 2)]).ids


def test_a_copy_keeps_its_tolerance():
    live = dygcn.start(small_model())
    live.update(add=[(0, spoke) for spoke in range(1, 40)])
    live.publish(tolerance=0.5)
    live.update(add=[(0, 40)])
    copied = copy.deepcopy(live)
    copied.update(add=[(0, 41)])
    assert (copied._tolerance, len(copied.publish()), len(live.publish())) == (0.5, 41, 40)


def test_all_that_a_bulk_lists_is_announced(live):
    live.publish(tolerance=0.5)
    live.update(add=[(0, 40)])
    assert len(live.bulk([[(0, 41)]])) == 42
    assert len(live.publish()) == 0


# ---- what a snapshot holds of it -----------------------------------------------------------------------


@pytest.fixture
def kept_back(live):
    """A folder whose newest snapshot holds what was announced of a hub, and a reader of it."""
    live.publish(tolerance=0.5)
    live.update(add=[(0, 40)])
    live.snapshot()
    return live, Reader().catch_up(live, exact=False)


def test_a_snapshot_of_an_older_version_counts_everyone_as_moved(live, monkeypatch):
    whole = Feed.image

    def image(self, nodes):
        feed, floor = whole(self, nodes)
        return dataclasses.replace(feed, unsaid=None), floor

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(Feed, "image", image)
        live.publish(tolerance=0.5)
        reader = Reader().catch_up(live)
        live.update(add=[(0, 40)])
        live.snapshot()
        reader.catch_up(live, exact=False)
    again = reopened(live)
    assert len(reader.catch_up(again).reported) == 41
    assert (again._tolerance, len(again._live._unsaid().ids)) == (0.5, 0)
    assert again._log.kind_and_time(again._log.last)[0] == Kind.FLUSH
    again.update(add=[(0, 41)])
    reader.catch_up(again, exact=False)
    again = reopened(again)
    assert len(reader.catch_up(again).reported) == 42  # the snapshot is the same
    again.snapshot()
    again = reopened(again)
    assert reader.catch_up(again).reported == []
    again._let_go()


def test_an_older_snapshot_and_the_log_tell_the_same(kept_back):
    live, reader = kept_back
    live.update(add=[(0, 41)])
    live.snapshot()
    reader.catch_up(live, exact=False)
    before = announced(live)
    (snapshot_path(live._folder, live._ahead.saved_at) / "manifest.json").write_text("")
    again = reopened(live)
    assert len(again._ahead.damage) == 1
    assert announced(again) == before
    assert reader.catch_up(again, exact=False).reported == []
    again._let_go()


def test_no_tolerance_among_events_is_replayed_in_its_place(live):
    """What stands before it in the log is applied, too."""
    for n in range(9):
        live.update(add=[(100 + n, 1)])
        live.publish(tolerance=0.0)
        live.publish()
    live.update(add=[(200, 1)])
    before = live.digest(), live.version, live.sequence
    again = reopened(live)
    assert (again.digest(), again.version, again.sequence) == before
    again._let_go()


@pytest.mark.parametrize("fault", ["shape", "nodes"])
def test_announcements_that_cannot_be(live, monkeypatch, fault):
    """The snapshot is not used; the log behind the one before tells it all."""
    live.publish(tolerance=0.5)
    live.snapshot()
    live.update(add=[(0, 40)])
    ids = IdColumn(np.array([7777 if fault == "nodes" else 0]))
    rows = np.zeros((1 + (fault == "shape"), WIDTH), np.int32)
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(Announcer, "image", lambda self: Unsaid(ids, rows))
        live.snapshot()
    before = announced(live)
    again = reopened(live)
    assert "announcements of" in again._ahead.damage[0]
    assert announced(again) == before
    again._let_go()


def test_no_file_has_what_was_announced_of_forgotten_ids(kept_back):
    """Nor what was announced of their neighbours, whose messages were made of them."""
    live, reader = kept_back
    assert len(live._live._unsaid().ids) == 1
    live.forget([5])
    assert set(reader.catch_up(live).reported) == {*range(41)} - {5}
    for _, path in list_snapshots(live._folder):
        feed = load_snapshot(path)[3]
        assert feed.unsaid is None or len(feed.unsaid.ids) == 0
    assert reader.catch_up(reopened(live)).reported == []


def test_folders_without_a_tolerance_are_written_as_before(live):
    live.snapshot()
    assert not {"unsaid", "said"} & {
        *load_file(snapshot_path(live._folder, live._ahead.saved_at) / GRAPH_FILE)
    }


# ---- models that announce nothing ----------------------------------------------------------------------


@pytest.mark.parametrize("orders", [1, 3])
def test_a_tolerance_is_for_two_orders(tmp_path, orders):
    """It is refused before it is in the log."""
    plain, live = dygcn.start(small_model(orders=orders)), begin(tmp_path / "x", orders=orders)
    for one in (plain, live):
        one.update(add=[(0, spoke) for spoke in range(1, 20)])
        with pytest.raises(FeatureError, match=f"orders=2, and this one has {orders}"):
            one.publish(tolerance=0.1)
        assert len(one.publish(tolerance=0)) == len(one.publish()) == 0
        assert len(one.update(add=[(0, 30)]))
    assert live._log.failure is None
    live._let_go()
