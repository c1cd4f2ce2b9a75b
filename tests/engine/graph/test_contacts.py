"""Contacts of nodes and pairs against a slow twin, however events are cut into batches."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dygcn.engine.events import read_events
from dygcn.engine.graph import Graph, apply_batch
from dygcn.engine.graph.adjacency import Adjacency
from dygcn.engine.graph.ageing import Contacts
from dygcn.engine.graph.constants import FEW
from dygcn.engine.graph.image import build_graph, take_image
from dygcn.engine.graph.transaction import Transaction
from dygcn.errors import CapacityError
from tests.engine.graph.contact_twin import ContactTwin
from tests.seeded import assert_noticed

QUICK = settings(
    max_examples=120, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
CLOSE = 1e-4  # counts are kept in single precision
ARRAYS = "contact", "activity", "pair_t", "pair_count"

NODE = st.integers(0, 6)
LATE = st.sampled_from([0.0, 0.0, 0.25, 1.0, 3.0, 20.0])
EVENT = st.tuples(NODE, NODE, st.sampled_from([0.0, 0.0, 0.5, 2.0]), LATE, st.sampled_from([1, 1, -1]))
CUTS = st.lists(st.integers(0, 30), max_size=5)
STEP = st.one_of(
    st.tuples(st.just("events"), st.lists(EVENT, min_size=1, max_size=25), CUTS),
    st.tuples(st.just("events"), st.lists(EVENT, min_size=1, max_size=25), CUTS),
    st.tuples(st.just("untimed"), st.lists(EVENT, min_size=1, max_size=8), CUTS),
    st.tuples(st.just("remove"), NODE, st.just(())),
    st.tuples(st.just("wait"), st.sampled_from([0.5, 3.0, 9.0]), st.just(())),
    st.tuples(st.just("hub"), st.sampled_from([FEW - 1, FEW + 5, -FEW]), st.just(())),
    st.tuples(st.just("compact"), st.none(), st.just(())),
    st.tuples(st.just("image"), st.none(), st.just(())),
)
PLAYS = st.fixed_dictionaries(
    {
        "directed": st.booleans(),
        "half_life": st.sampled_from([None, None, 1.0]),
        "steps": st.lists(STEP, min_size=1, max_size=7),
    }
)


def new_graph(directed, half_life, **options):
    return Graph("int64", directed=directed, half_life=half_life, count_half_life=3.0, **options)


class Stage:
    """A graph, its twin, and what the clock says to events."""

    def __init__(self, play, cut):
        self.made, self.cut = (play["directed"], play["half_life"]), cut
        self.options = {"expire": play["expire"]} if "expire" in play else {}
        self.graph = new_graph(*self.made, **self.options)
        self.twin = ContactTwin(directed=self.made[0], half_life=self.made[1], **self.options)
        self.clock = 0.0

    def batch(self, events, *, timed=True, now=None):
        rows = [(*event[:2], *([event[2]] if timed else []), event[3]) for event in events]
        columns = ("src", "dst", "t", "op") if timed else ("src", "dst", "op")
        self.apply(read_events(rows, columns=columns), now)
        self.twin.apply_batch([(*event, 1.0) for event in events])

    def apply(self, batch, now=None):
        self.graph.release(apply_batch(self.graph, batch, now).left)

    def dated(self, events):
        dated = []
        for src, dst, passed, late, op in events:
            self.clock += passed
            dated.append((src, dst, self.clock - late, op))
        return dated

    def step(self, kind, what, cuts):
        if kind in ("events", "untimed"):
            events, now = self.dated(what), None
            if kind == "untimed":
                if self.made[1] is not None or self.options:
                    now = self.clock
                then = max(self.twin.clock, self.clock) if now is not None else self.twin.clock
                events = [(*event[:2], then, event[3]) for event in events]
            for part in self.cut(events, cuts):
                self.batch(part, timed=kind == "events", now=now)
        elif kind == "remove":
            self.remove(what)
        elif kind == "wait":
            self.clock += what
            self.apply(read_events([]), self.clock)
            self.twin.wait(self.clock)
        elif kind == "hub":
            leaves = range(100, 100 + abs(what))
            self.batch([(0, leaf, self.clock, 1 if what > 0 else -1) for leaf in leaves])
        elif kind == "compact":
            self.graph.compact()
        else:
            image, other = take_image(self.graph)[0], new_graph(*self.made, **self.options)
            build_graph(image, other)
            for name in ARRAYS:
                np.testing.assert_array_equal(getattr(take_image(other)[0], name), getattr(image, name))
            self.graph = other

    def remove(self, name):
        node = self.graph.find_one(name)
        if node >= 0:
            transaction = Transaction(self.graph)
            transaction.release(transaction.remove(np.array([node], np.int32)).left)
            self.twin.remove_node(name)

    def check(self):
        assert self.twin.disagreement(self.graph) < CLOSE
        assert not self.graph._change.any()


def as_drawn(events, cuts):
    bounds = [0, *sorted(cut % (len(events) + 1) for cut in cuts), len(events)]
    return [events[begin:end] for begin, end in pairwise(bounds) if begin < end]


def one_by_one(events, _cuts):
    return [[event] for event in events]


def in_one(events, _cuts):
    return [events]


def agree(play, kind=Stage):
    stages = [kind(play, cut) for cut in (as_drawn, one_by_one, in_one)]
    for step in play["steps"]:
        images = []
        for stage in stages:
            stage.step(*step)
            stage.check()
            images.append(take_image(stage.graph)[0])
        for name in ARRAYS[2:] if play["half_life"] else ARRAYS:
            for image in images[1:]:
                np.testing.assert_array_equal(getattr(image, name), getattr(images[0], name))


def swaps(directed):
    """A hub and a node that is none lose arcs from the middle, and gain others."""
    first = [(node, other, 0.5, 0.0, 1) for other in range(7) for node in (0, 1, 2)]
    again = [(other, node, 0.5, 1.0, 1) for other in range(5) for node in (2, 3)]
    away = [(node, other, 0.25, 0.0, -1) for other in (1, 3, 2) for node in (0, 1, 2)]
    steps = [
        ("hub", FEW + 5, ()),
        ("events", first, (9,)),
        ("events", again, (3,)),
        ("events", away, (4,)),
        ("hub", -FEW, ()),
        ("compact", None, ()),
        ("events", again + away, (2,)),
        ("wait", 9.0, ()),
    ]
    return [{"directed": directed, "half_life": half_life, "steps": steps} for half_life in (None, 1.0)]


def forgotten(half_life):
    """A pair parts, and meets again when nothing is left of it: not of a ghost, or not of a node's arcs."""
    apart = [(0, 1, 0.0, 0.0, 1), (0, 1, 0.0, 0.0, -1), (2, 3, 20.0, 0.0, 1), (0, 1, 0.0, 0.0, 1)]
    return {"directed": False, "half_life": half_life, "steps": [("events", apart, ())]}


@pytest.mark.parametrize("half_life", [None, 1.0])
def test_who_meets_again_starts_from_nothing(half_life):
    agree(forgotten(half_life))


@QUICK
@given(PLAYS)
def test_contacts_equal_the_twin(play):
    agree(play)


@pytest.mark.parametrize("directed", [False, True])
def test_contacts_move_with_their_arcs(directed):
    for play in swaps(directed):
        agree(play)


def played(rows, **options):
    graph = new_graph(False, None, **options)
    apply_batch(graph, read_events(rows))
    return graph, graph.ids.find(read_events([(i, i) for i in range(5)]).src)


def test_what_a_contact_is_worth():
    graph, nodes = played([(0, 1, 0.0, 1), (1, 0, 3.0, 1), (1, 2, 3.0, 1), (0, 1, 0.0, 1), (2, 2, 3.0, 1)])
    link, since, count = graph.pair_contacts(nodes[[0, 1, 0, 1, 4, 2]], nodes[[1, 0, 2, 2, 1, 2]])
    assert link.dtype == np.int8
    assert link.tolist() == [1, 1, 0, 1, 0, 0]
    assert since.tolist() == [0.0, 0.0, np.inf, 0.0, np.inf, np.inf]
    assert count.tolist() == [2.0, 2.0, 0.0, 1.0, 0.0, 0.0]  # 1 / 2 + 1, and half of the late one
    assert graph.contacts.activity(nodes[:3]).tolist() == [2.0, 3.0, 1.0]
    apply_batch(graph, read_events([]), now=6.0)
    assert graph.pair_contacts(nodes[:1], nodes[1:2])[2].tolist() == [1.0]
    assert graph.contacts.activity(nodes[:3]).tolist() == [1.0, 1.5, 0.5]


def test_both_directions_are_one_pair():
    graph = Graph("int64", directed=True, half_life=1.0, count_half_life=3.0)
    apply_batch(
        graph, read_events([(0, 1, 0.0, 1), (1, 0, 3.0, 1), (0, 2, 3.0, 1), (0, 2, 3.0, -1), (0, 1, 3.0, -1)])
    )
    nodes = graph.ids.find(read_events([(0, 0), (1, 1), (2, 2)]).src)
    for a, b in ((nodes[[0, 0]], nodes[[1, 2]]), (nodes[[1, 2]], nodes[[0, 0]])):
        link, since, count = graph.pair_contacts(a, b)
        assert link.tolist() == [1, -1]
        assert since.tolist() == [0.0, 0.0]
        assert count.tolist() == [2.5, 2.0]


def test_events_without_a_time():
    graph = new_graph(False, None)
    for _ in range(3):
        apply_batch(graph, read_events([(0, 1), (1, 2)]))
    nodes = graph.nodes()
    assert graph.contacts.activity(nodes).tolist() == [3.0, 6.0, 3.0]
    link, since, count = graph.pair_contacts(nodes[:2], nodes[1:])
    assert (link.tolist(), since.tolist(), count.tolist()) == ([1, 1], [np.inf] * 2, [3.0, 3.0])
    apply_batch(graph, read_events([(0, 1, 5.0, 1)]))  # what was before any time is long ago
    assert graph.contacts.activity(nodes).tolist() == [1.0, 1.0, 0.0]
    assert graph.pair_contacts(nodes[:2], nodes[1:])[2].tolist() == [1.0, 0.0]


@pytest.mark.parametrize("directed", [False, True])
def test_without_times_nothing_is_kept(directed):
    graph = Graph("int64", directed=directed, half_life=1.0)
    apply_batch(graph, read_events([(0, 1, 0.0, 1), (1, 2, 0.0, 1), (1, 2, 0.0, -1)]))
    assert graph.contacts is None
    for arcs in (graph.pull, graph.push):
        assert len(arcs.times) == len(arcs.counts) == 0
    nodes = graph.nodes()
    for a, b in ((nodes[[0, 1, 0]], nodes[[1, 2, 2]]), (nodes[[1, 2, 2]], nodes[[0, 1, 0]])):
        link, since, count = graph.pair_contacts(a, b)
        assert (link.tolist(), since.tolist(), count.tolist()) == ([1, -1, 0], [np.inf] * 3, [0.0] * 3)


def test_contacts_of_a_directed_graph_are_kept_once():
    graph = new_graph(True, None)
    apply_batch(graph, read_events([(0, 1, 0.0, 1)]))
    assert len(graph.pull.times) == len(graph.pull.weights)
    assert len(graph.push.times) == 0


@pytest.mark.parametrize("half_life", [None, 1.0])
def test_a_refused_batch_is_no_contact(half_life):
    graph = new_graph(False, half_life, limit=4 << 16)
    apply_batch(graph, read_events([(1, 2, 0.0, 1)]))
    before = take_image(graph)[0]
    with pytest.raises(CapacityError):
        apply_batch(graph, read_events([(1, 2, 1.0, 1), *((1, node, 1.0, 1) for node in range(3, 9))]))
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(take_image(graph)[0], name), getattr(before, name))
    assert graph.clock == 0.0


MARK = "batch.mark[i] = LAPSED if events.op[i] == LAPSE else PARTED"
BUGS = {
    "not moved with the arc": ("arcs", "arcs.times[base + to] = arcs.times[base + at]", "pass"),
    "not forgotten with the edge": (
        "delta",
        MARK,
        MARK + "\nif half_life == 0:\n    batch.new[p] = 0\n    continue",
    ),
    "not forgotten with the ghost": (
        "delta",
        "if half_life > 0 and batch.new[p] == 0 and _is_forgotten(batch, p, before, half_life):",
        "if False:",
    ),
    "not forgotten with the node": ("delta", "if arcs == 0:", "if False:"),
}


def hunt():
    for half_life in (None, 1.0):
        agree(forgotten(half_life))
    for directed in (False, True):
        test_contacts_move_with_their_arcs(directed)


def found_wrong():
    with pytest.raises(AssertionError):
        hunt()


@pytest.mark.parametrize("bug", BUGS)
def test_the_twin_would_notice(tmp_path, bug):
    name, line, wrong = BUGS[bug]
    assert_noticed(tmp_path, f"dygcn.engine.graph.{name}", line, wrong, hunt)


def test_the_twin_would_notice_contacts_that_stay_behind(monkeypatch):
    """The mutant: where gaps are closed, contacts do not move with the weights."""
    whole = Adjacency.compact

    def compact(self):
        old = self.times[: len(self.times)].copy()
        whole(self)
        self.times[:] = old[: len(self.times)]

    monkeypatch.setattr(Adjacency, "compact", compact)
    found_wrong()


def test_the_twin_would_notice_a_late_contact_that_counts_in_full(monkeypatch):
    monkeypatch.setattr(Contacts, "worth", lambda self, last, count: count.astype(np.float64))
    found_wrong()
