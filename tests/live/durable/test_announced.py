"""A tolerance is of what is published: readers are within `error_bound`, and exact after a flush."""

import copy

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import dygcn
from dygcn.engine.records import NO_CHANGE
from dygcn.errors import FeatureError
from dygcn.live.announcing import Announcer
from dygcn.live.durable.storage import FLUSH, TOLERANCE, EventLog, NewEntry, pack_tolerance
from dygcn.live.durable.write_ahead import WriteAhead
from dygcn.testing.seeding import small_model
from tests.live.crashing import begin, crash, many_folders, reopened
from tests.live.durable.test_feed import Reader
from tests.live.steps import step, take

NODES = 24
HUBS, IDS = st.integers(0, 2), st.integers(0, NODES - 1)
EVENT = st.tuples(
    HUBS | IDS, IDS, st.just(0.0), st.sampled_from([1, 1, 1, -1]), st.sampled_from([1.0, 1.0, 2.0])
)
EVENTS = st.lists(EVENT, max_size=8)
TOLERANCES = st.sampled_from([0.0, 0.001, 0.05, 0.3, 0.9, 10.0])


class AnnouncedMachine(RuleBasedStateMachine):
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
        self.reader, self.t = Reader(), 0.0
        spokes = [(hub, n, 0.0, 1, 1.0) for hub in range(3) for n in range(3 + hub, NODES, 1 + hub)]
        self.update(spokes)
        self.live.tolerate(tolerance)

    def dated(self, events):
        """Time goes on with every batch."""
        self.t += 1
        return [(a, b, self.t, *rest) for a, b, _, *rest in events]

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
        self.live.remove_nodes([one])

    @rule(tolerance=TOLERANCES)
    def tolerate(self, tolerance):
        self.live.tolerate(tolerance)
        self.must_be_exact()

    @rule()
    def flush(self):
        self.live.flush()
        self.must_be_exact()

    @rule()
    def snapshot(self):
        self.live.snapshot()

    @rule()
    def crash(self):
        before = self.live.tolerance
        self.live = reopened(self.live)
        assert self.live.tolerance == before
        self.must_be_exact()

    @rule()
    def close(self):
        before = self.live.tolerance
        self.live.close()
        self.live = dygcn.open(self.live.folder)
        assert self.live.tolerance == before
        self.must_be_exact()

    @rule(limit=st.sampled_from([1, 3, 1000]))
    def read(self, limit):
        """Begin a run of pages that an update may come into."""
        self.reader.read(self.live, limit)

    @precondition(lambda self: self.live.tolerance > 0)
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
        assert not self.live.error_bound(self.live.ids()).any() or self.live.tolerance

    @invariant()
    def the_state_is_exact(self):
        assert self.live.digest() == self.live.recompute().digest()

    def teardown(self):
        self.reader.catch_up(self.live, 7, exact=False)
        self.live.flush()
        self.must_be_exact()
        crash(self.live)


RUN = settings(
    max_examples=40,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
HUNT = settings(
    RUN,
    max_examples=500,
    phases=[Phase.generate],
    derandomize=True,
    database=None,
    report_multiple_bugs=False,
)


@pytest.fixture(autouse=True)
def hubs(monkeypatch):
    monkeypatch.setenv("DYGCN_HEAVY_FROM", "4")


@pytest.fixture
def machine(monkeypatch):
    with many_folders() as new_folder:
        monkeypatch.setattr(AnnouncedMachine, "new_folder", staticmethod(new_folder), raising=False)
        yield AnnouncedMachine


def test_a_reader_is_within_the_bound_and_exact_after_a_flush(machine):
    run_state_machine_as_test(machine, settings=RUN)


@pytest.mark.slow
def test_many_more_readers_are(machine):
    run_state_machine_as_test(machine, settings=settings(RUN, max_examples=1000, stateful_step_count=50))


# ---- seeded bugs -------------------------------------------------------------------------------------


def nobody_hears_of_a_hub(monkeypatch):
    monkeypatch.setattr(Announcer, "_exceeding", lambda self, nodes: nodes[:0])


def what_was_kept_back_is_forgotten(monkeypatch):
    monkeypatch.setattr(Announcer, "flush", lambda self: NO_CHANGE)


def a_restart_tells_nobody(monkeypatch):
    def go_on_from(self, standing):
        self.histories.epoch = standing.epoch
        if standing.tolerance:
            self.live.announce_beyond(standing.tolerance)

    monkeypatch.setattr(WriteAhead, "_go_on_from", go_on_from)


def a_bound_is_of_half_of_the_neighbours(monkeypatch):
    whole = Announcer._hears
    monkeypatch.setattr(Announcer, "_hears", lambda self, nodes: whole(self, nodes) & (nodes % 2 == 0))


MUTANTS = [
    nobody_hears_of_a_hub,
    what_was_kept_back_is_forgotten,
    a_restart_tells_nobody,
    a_bound_is_of_half_of_the_neighbours,
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_seeded_bug_would_be_noticed(mutant, machine, monkeypatch):
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine, settings=HUNT)


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
    live.let_go()


def test_moves_that_a_tolerance_kept_back_are_listed_by_a_flush(live):
    live.tolerate(0.5)
    reader = Reader().catch_up(live)
    assert sorted(live.update(add=[(0, 40)]).ids.tolist()) == [0, 40]
    reader.catch_up(live, exact=False)
    assert sorted(reader.reported) == [0, 40]
    change = live.flush()
    assert sorted(change.ids.tolist()) == list(range(1, 41))
    assert set(reader.catch_up(live).reported) == set(change.ids.tolist())
    assert len(live.flush()) == 0


def test_small_moves_add_up(live):
    """Each is below the tolerance; a spoke is listed once their sum is above it."""
    live.tolerate(0.05)
    listed = [bool(np.isin(1, live.update(add=[(0, 100 + n)]).ids)) for n in range(30)]
    assert not any(listed[:3])
    assert 0 < sum(listed) < 10


def test_who_left_is_not_listed_as_moved(live):
    live.tolerate(0.5)
    change = live.update(remove=[(0, 5)])
    assert (change.ids.tolist(), change.left.tolist()) == ([0], [5])
    change = live.remove_nodes([0])
    assert (len(change.ids), len(change.left)) == (0, 39)


def test_a_reader_is_not_told_of_who_left(live):
    live.tolerate(0.5)
    live.update(remove=[(0, 5)])
    reader = Reader().catch_up(live, exact=False)
    assert 5 not in reader.rows


def test_the_bound_of_a_hub_that_is_light_again():
    """Its number of arcs falls and its message stays: nobody was told of it, and the bound says so."""
    live = dygcn.start(small_model(directed=True))
    live.update(add=[(spoke, 0) for spoke in range(1, 5)] + [(0, 10), (0, 11)])
    live.tolerate(0.9)
    before = live[1]
    assert 1 not in live.update(add=[(0, 14)]).ids
    assert 1 not in live.update(remove=[(4, 0), (3, 0)]).ids
    far = np.linalg.norm(live[1] - before)
    assert 0 < far <= live.error_bound([1])[0]
    assert 1 in live.flush().ids
    assert live.error_bound([1])[0] == 0


def test_a_message_that_comes_is_announced_however_short_it_is():
    """A neighbour without one is no part of the mean, so a short one may move it far."""
    live = dygcn.start(small_model(features="walks"))
    live.update(add=[(0, 3 * spoke) for spoke in range(1, 6)] + [(3, 1)])  # every third node has no row
    live.tolerate(10.0)
    assert 3 in live.update(add=[(0, 2)]).ids


def test_a_copy_keeps_its_tolerance():
    live = dygcn.start(small_model())
    live.update(add=[(0, spoke) for spoke in range(1, 40)])
    live.tolerate(0.5)
    live.update(add=[(0, 40)])
    copied = copy.deepcopy(live)
    copied.update(add=[(0, 41)])
    assert (copied.tolerance, len(copied.flush()), len(live.flush())) == (0.5, 41, 40)


# ---- models that announce nothing ----------------------------------------------------------------------


@pytest.mark.parametrize("orders", [1, 3])
def test_a_tolerance_is_for_two_orders(tmp_path, orders):
    """It is refused before it is in the log."""
    plain, live = dygcn.start(small_model(orders=orders)), begin(tmp_path / "x", orders=orders)
    for one in (plain, live):
        one.update(add=[(0, spoke) for spoke in range(1, 20)])
        with pytest.raises(FeatureError, match=f"orders=2, and this one has {orders}"):
            one.tolerate(0.1)
        assert len(one.tolerate(0)) == len(one.flush()) == 0
        assert len(one.update(add=[(0, 30)]))
    assert live.log.failure is None
    live.let_go()


@pytest.mark.parametrize("flushed", [True, False])
def test_a_tolerance_of_other_orders_is_not_followed(tmp_path, flushed):
    """Older versions took one. Readers are told of everything, since what they were served was not exact."""
    live = begin(tmp_path / "x", orders=3)
    live.update(add=[(0, spoke) for spoke in range(1, 20)])
    reader = Reader().catch_up(live)
    crash(live)
    log = EventLog(live.folder / "log.sqlite3")
    log.append([NewEntry(TOLERANCE, body=pack_tolerance(0.25))], log.last_batch_id + 1)
    if flushed:
        log.append([NewEntry(FLUSH)], log.last_batch_id + 1)
    log.close()
    live = dygcn.open(live.folder)
    assert (live.tolerance, live.log.failure, live.sequence) == (0, None, 3)
    assert live.error_bound([1]).tolist() == [0]
    assert len(reader.catch_up(live).reported) == 20
    live.update(add=[(0, 30)])
    live.snapshot()
    reader.catch_up(live)
    live = reopened(live)
    assert reader.catch_up(live).reported == []
    assert dygcn.open(live.folder, as_of=2).tolerance == 0
    live.let_go()
