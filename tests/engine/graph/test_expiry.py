"""Edges that leave by the clock, against a slow twin, however events are cut into batches."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dygcn.engine.events import read_events
from dygcn.engine.graph import Graph, apply_batch
from dygcn.engine.graph.image import build_graph, take_image
from dygcn.engine.graph.transaction import Transaction
from dygcn.engine.models.state import State, Trial
from dygcn.errors import CapacityError, EventError
from dygcn_lab.testbed.seeding import small_model
from tests.engine.graph.test_contacts import QUICK, STEP, Stage, agree
from tests.seeded import assert_noticed

PLAYS = st.fixed_dictionaries(
    {
        "directed": st.booleans(),
        "half_life": st.none(),
        "expire": st.sampled_from([0.25, 1.0, 2.0, 5.0]),
        "steps": st.lists(STEP, min_size=1, max_size=7),
    }
)
EXPIRY, LAPSES = "dygcn.engine.graph.ageing", "dygcn.engine.graph.lapses"
TRANSACTION = "dygcn.engine.graph.transaction"


class Expiring(Stage):
    """Edges that left are counted, and what the queue looks at is bounded by edges that came and contacts."""

    def __init__(self, play, cut):
        super().__init__(play, cut)
        self.expired = self.events = self.looked_at = 0

    def apply(self, batch, now=None):
        transaction, before = Transaction(self.graph), self.graph.edge_count
        with transaction:
            transaction.stage(batch, now)
            ops = transaction.events.op
            delta = transaction.write()
            transaction.release(delta.left)
        self.expired += transaction.expired
        self.events += len(batch)
        assert self.graph.edge_count >= before - transaction.expired - (ops == -1).sum()

    def step(self, kind, what, cuts):
        if kind == "image":
            self.looked_at += int(self.graph.expiry.arrays.arrays[-1][1])
            self.events += self.graph.edge_count
        super().step(kind, what, cuts)

    def check(self):
        super().check()
        assert self.expired == self.twin.expired
        looked_at = self.looked_at + int(self.graph.expiry.arrays.arrays[-1][1])
        assert looked_at <= 3 * self.events


@QUICK
@given(PLAYS)
def test_expiry_equals_the_twin(play):
    agree(play, Expiring)


def hunt():
    """Steps, of which each shows one of the bugs; an event is (src, dst, time passed, how late, op)."""
    once = [(0, 1, 0.0, 0.0, 1)]
    for steps in (
        [once, [(0, 1, 0.0, 0.0, -1)], once, 2.5],  # two entries of one edge at one time
        [once, 2.0],
        [[(2, 3, 20.0, 0.0, 1), (0, 1, 0.0, 3.0, 1)]],  # too late to stay
        [once, [(0, 1, 1.0, 0.0, 1)], 1.5],  # in contact since
        [[*once, (0, 2, 1.5, 0.0, 1)], 1.0],  # a node loses one of two edges
        [once, [(0, 1, 1.0, 0.0, 1), (2, 3, 2.0, 0.0, 1)]],  # in contact before it would leave
    ):
        steps = [("wait" if isinstance(step, float) else "events", step, ()) for step in steps]
        agree({"directed": False, "half_life": None, "expire": 2.0, "steps": steps}, Expiring)


def timed(*rows):
    return read_events(list(rows), columns=("src", "dst", "t", "op"))


def expiring(**options):
    return Graph("int64", count_half_life=3.0, expire=10.0, **options)


def test_an_edge_leaves_at_its_time_and_not_before():
    graph = expiring()
    apply_batch(graph, timed((1, 2, 0.0, 1), (2, 3, 4.0, 1)))
    apply_batch(graph, timed((2, 3, 3.0, 1)))  # late: the last contact is the one at 4
    for now, edges in ((np.nextafter(10.0, 0), 2), (10.0, 1), (13.0, 1), (14.0, 0)):
        apply_batch(graph, read_events([]), now)
        assert graph.edge_count == edges
    assert len(graph) == 0


def test_an_event_that_is_too_late_leaves_at_once():
    graph = expiring()
    apply_batch(graph, timed((1, 2, 20.0, 1), (3, 4, 10.0, 1), (5, 6, 10.5, 1)))
    assert graph.edge_count == 2
    assert graph.ids.find(read_events([(3, 4)]).src).tolist() == [-1]


def test_events_need_a_time_while_there_is_no_clock():
    graph = expiring()
    with pytest.raises(EventError, match="need t"):
        apply_batch(graph, read_events([(1, 2)]))
    apply_batch(graph, read_events([(1, 2)]), 0.0)
    apply_batch(graph, read_events([(2, 3)]))  # happens when the last one did
    apply_batch(graph, read_events([]), 10.0)
    assert graph.edge_count == 0


def test_an_edge_that_flaps_does_not_fill_the_queue():
    graph = expiring()
    for t in range(200):
        apply_batch(
            graph, timed((1, 2, 0.0, 1), *((1, 3, t / 1000, op) for _ in range(20) for op in (-1, 1)))
        )
        for _ in range(50):
            apply_batch(graph, timed((1, 3, t / 1000, -1)))
            apply_batch(graph, timed((1, 3, t / 1000, 1)))
    assert len(graph.expiry.queue) < 5000
    apply_batch(graph, read_events([]), 10.0)
    assert graph.edge_count == 1
    apply_batch(graph, read_events([]), 10.2)
    assert graph.edge_count == 0


def a_refused_batch_lets_nobody_stay():
    graph = expiring(limit=4 << 16)
    apply_batch(graph, timed((1, 2, 0.0, 1)))
    with pytest.raises(CapacityError):
        apply_batch(graph, timed(*((5, node, 20.0, 1) for node in range(6, 12))))
    assert graph.edge_count == 1
    apply_batch(graph, read_events([]), 10.0)
    assert graph.edge_count == 0


def a_trial_lets_nobody_stay():
    state = State(small_model())
    state.graph = expiring()
    state = State(state.model, state.graph)
    state.apply(timed((1, 2, -5.0, 1), (2, 3, -5.0, 1)))
    with Trial(state, timed((1, 2, 4.0, 1))), Trial(state, read_events([]), 6.0):
        assert state.graph.edge_count == 1
    assert state.graph.edge_count == 2
    state.apply(read_events([]), 5.0)
    assert state.graph.edge_count == 0


def an_edge_that_comes_again_with_an_older_time_leaves():
    graph = expiring()
    apply_batch(graph, timed((1, 2, 5.0, 1)))
    apply_batch(graph, timed((1, 2, 5.0, -1), (1, 2, 0.0, 1)))
    apply_batch(graph, read_events([]), 10.0)
    assert graph.edge_count == 0


def a_loaded_graph_goes_on():
    graph, other = expiring(), expiring()
    apply_batch(graph, timed((1, 2, 0.0, 1), (2, 3, 5.0, 1)))
    build_graph(take_image(graph)[0], other)
    apply_batch(other, read_events([]), 10.0)
    assert other.edge_count == 1


STEPS = [
    a_refused_batch_lets_nobody_stay,
    a_trial_lets_nobody_stay,
    an_edge_that_comes_again_with_an_older_time_leaves,
    a_loaded_graph_goes_on,
]


@pytest.mark.parametrize("steps", STEPS)
def test_nobody_stays(steps):
    steps()


NOTED = "graph.expiry.note(buffers)"
BUGS = {
    "an edge leaves twice": (LAPSES, "if key == before and due == then:", "if False:", hunt),
    "one too late": (
        LAPSES,
        "while lapses.queue.size[0] > 0 and lapses.queue.times[0] <= now:",
        "while lapses.queue.size[0] > 0 and lapses.queue.times[0] < now:",
        hunt,
    ),
    "a late event is kept": (
        LAPSES,
        "if t + lapses.span <= clock:  # `note` queues it otherwise",
        "if False:",
        hunt,
    ),
    "the queue is not rebuilt": (
        TRANSACTION,
        NOTED,
        f"if self.events is not None:\n    {NOTED}",
        a_loaded_graph_goes_on,
    ),
    "who was in contact since leaves": (LAPSES, "if end > due:", "if False:", hunt),
    "to leave is a contact": ("dygcn.engine.graph.delta", "if not lapsed:", "if True:", hunt),
    "a refusal empties the queue": (
        LAPSES,
        "put_due(lapses.queue, pull.times[at] + lapses.span, key)",
        "pass",
        a_refused_batch_lets_nobody_stay,
    ),
    "a trial is not taken back": (
        TRANSACTION,
        "graph.expiry.note(graph.buffers)",
        "pass",
        a_trial_lets_nobody_stay,
    ),
    "who comes again is not queued": (
        LAPSES,
        "if batch.new[p] > 0 and (batch.old[p] <= 0 or batch.last[p] < batch.before[p]):",
        "if batch.new[p] > 0 and batch.old[p] <= 0:",
        an_edge_that_comes_again_with_an_older_time_leaves,
    ),
    "time runs before the events": (
        LAPSES,
        "now = max(now, seen[i] if i < last_of_all else clock)",
        "now = clock",
        hunt,
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_seeded_bug_would_be_noticed(tmp_path, bug):
    assert_noticed(tmp_path, *BUGS[bug])
