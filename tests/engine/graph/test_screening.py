"""What a graph will refuse is known before anything is written: exactly, and in one pass."""

import copy

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dygcn.engine.events import read_events, rows_of
from dygcn.engine.graph import Graph, apply_batch, screening
from dygcn.engine.graph.delta import overweight
from dygcn.engine.graph.image import build_graph, take_image
from dygcn.engine.graph.screening import check_batch, find_refused
from dygcn.engine.graph.staging import PairBuffers
from dygcn.errors import CapacityError, DamagedFolder, EventError

LIMIT = 40
NODES = st.integers(0, 5)
EVENTS = st.lists(
    st.tuples(
        NODES,
        NODES,
        st.integers(0, 30),
        st.sampled_from([1, 1, 1, -1]),
        st.sampled_from([1.0, 7.0, 12.0, 20.0, 39.0, 1e-9, 1e30]),
    ),
    max_size=10,
)
HISTORIES = st.lists(EVENTS, min_size=1, max_size=6)
FORMS = st.fixed_dictionaries(
    {"directed": st.booleans(), "half_life": st.sampled_from([None, None, 2.0]), "stay": st.booleans()}
)


def shape(graph):
    a, b, weight = graph.edges()
    pairs = sorted(zip(a.tolist(), b.tolist(), weight.tolist(), strict=True))
    return pairs, len(graph), graph.ids.high, graph.strength.tolist(), graph.clock


def applies(graph, batch):
    try:
        apply_batch(copy.deepcopy(graph), batch)
    except EventError:
        return False
    return True


def screened_as_applied(form, kind, histories):
    graph = Graph(kind, grid=1.0, limit=LIMIT, **form)
    for events in histories:
        rows = [(f"n{a}", f"n{b}", *rest) if kind == "string" else (a, b, *rest) for a, b, *rest in events]
        batch = read_events(rows, kind)
        before = shape(graph)
        refused = find_refused(graph, batch)
        assert shape(graph) == before
        fine = applies(graph, batch)
        assert (refused == {}) == fine
        if fine:
            check_batch(graph, batch)
        else:
            with pytest.raises(CapacityError):
                check_batch(graph, batch)
        assert list(refused) == sorted(refused)
        assert all(events[row][3] > 0 for row in refused)  # what is removed is never too much
        kept = rows_of(batch, np.array([row for row in range(len(batch)) if row not in refused], np.int64))
        apply_batch(graph, kept)
        assert graph.strength.max(initial=0) < LIMIT


PLAY = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))


@PLAY
@given(form=FORMS, kind=st.sampled_from(["int64", "string"]), histories=HISTORIES)
def test_what_is_left_can_be_applied_and_nothing_more_is_refused(form, kind, histories):
    screened_as_applied(form, kind, histories)


# The second event would age the ghost of the first edge, but is refused itself.
LATE = [[(0, 1, 0, 1, 39.0)], [(0, 1, 1, -1, 1.0)], [(0, 2, 1, 1, 25.0), (0, 3, 30, 1, 39.0)]]


# By the time of the last event the ghost is gone, so that there is room.
AGED = [[(0, 1, 0, 1, 39.0)], [(0, 1, 1, -1, 1.0)], [(0, 2, 30, 1, 39.0)]]


@pytest.mark.parametrize("histories", [LATE, AGED])
def test_ghosts_age_with_what_is_applied(histories):
    screened_as_applied({"half_life": 2.0}, "int64", histories)


def hunt():
    for known in (LATE, AGED):
        screened_as_applied({"half_life": 2.0}, "int64", known)
    screened_as_applied(
        {}, "int64", [[(0, 1, 0, 1, 20.0)], [(0, 2, 0, 1, 20.0)]]
    )  # the node has some already
    # Too much for one node and light for two, beside a node that has too much.
    screened_as_applied(
        {}, "int64", [[(0, 1, 0, 1, 20.0), (2, 3, 0, 1, 20.0), (4, 5, 0, 1, 39.0), (4, 6, 0, 1, 9.0)]]
    )


def the_bound_ignores_what_nodes_carry(monkeypatch):
    whole = screening._Trial.__init__

    def init(self, graph, batch, units, now):
        whole(self, graph, batch, units, now)
        self._light = float(units.sum()) < graph.limit

    monkeypatch.setattr(screening._Trial, "__init__", init)


def ghosts_are_as_light_as_with_all_events(monkeypatch):
    """The clock of events that are refused ages the ghosts of those that are not."""
    whole = screening._Trial._play

    def play(self, aged_to, clock, *, refuse):
        return whole(self, self._clock_after, self._clock_after, refuse=refuse)

    monkeypatch.setattr(screening._Trial, "_play", play)


def ghosts_do_not_age(monkeypatch):
    whole = screening._Trial._carried
    monkeypatch.setattr(
        screening._Trial, "_carried", lambda self, nodes, a, b, clock: whole(self, nodes, a, b, self._clock)
    )


def new_ids_are_one_id(monkeypatch):
    class One(screening.IdMap):
        def intern(self, column):
            return super().intern(column) * 0

    monkeypatch.setattr(screening, "IdMap", One)


@pytest.mark.parametrize(
    "mutant",
    [
        the_bound_ignores_what_nodes_carry,
        ghosts_are_as_light_as_with_all_events,
        ghosts_do_not_age,
        new_ids_are_one_id,
    ],
    ids=lambda mutant: mutant.__name__,
)
def test_a_seeded_bug_would_be_noticed(mutant, monkeypatch):
    mutant(monkeypatch)
    with pytest.raises((AssertionError, CapacityError)):
        hunt()


def test_events_that_bring_a_node_to_the_limit_are_refused_from_the_first_on():
    graph = Graph("int64", grid=1.0, limit=LIMIT)
    events = [(0, n, 0, 1, 15.0) for n in (1, 2, 3)] + [(8, 9, 0, 1, 39.0), (0, 1, 0, -1, 1.0)]
    assert list(find_refused(graph, read_events(events))) == []  # together they are 30 at node 0
    assert list(find_refused(graph, read_events([*events[:-1], (0, 7, 0, 1, 15.0)]))) == [2, 4]


def test_a_batch_of_the_wrong_form_is_refused_as_a_whole():
    numbers, dated = Graph("int64"), Graph("int64", half_life=3.0)
    assert list(find_refused(numbers, read_events([("a", "b"), ("b", "c")]))) == [0, 1]
    assert "one type a graph" in find_refused(numbers, read_events([("a", "b")]))[0]
    assert "remembers removed edges" in find_refused(dated, read_events([(1, 2)]))[0]
    assert find_refused(dated, read_events([(1, 2)]), now=3.0) == {}
    assert find_refused(numbers, read_events([])) == {}
    with pytest.raises(EventError, match="one type a graph"):
        check_batch(numbers, read_events([("a", "b")]))
    check_batch(numbers, read_events([]))


def test_reasons_name_the_weight_and_the_row():
    graph = Graph("int64")
    batch = read_events([(1, 2, 0, 1, 1.0), (1, 3, 0, 1, 1e300), (1, 4, 0, 1, 1e-300), (1, 5, 0, -1, 1e300)])
    found = find_refused(graph, batch)
    assert list(found) == [1, 2]
    assert found[1].startswith("weight is 1e+300;")
    with pytest.raises(CapacityError, match=r"row 1: weight is 1e\+300"):
        check_batch(graph, batch)


# ---- sums that would wrap around --------------------------------------------------------------------


MANY = (1 << 25, (1 << 25) + 1, (1 << 26) + 1)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("n", [2, *(pytest.param(n, marks=pytest.mark.large) for n in MANY)])
def test_any_number_of_heavy_edges_is_overweight(n, directed):
    """2^25 edges of 2^38 are 2^63: the sum of a few more would look light."""
    limit = 1 << 38
    a, b = np.zeros(n, np.int32), np.arange(1, n + 1, dtype=np.int32)
    old, new = np.zeros(n, np.int64), np.full(n, limit - 1, np.int64)
    strength, change = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)
    buffers = PairBuffers(directed)
    buffers.fill(a, b, old, new)
    assert overweight(buffers.arrays, directed, strength, change, limit)
    assert not change.any()


def test_what_is_taken_away_counts_also_after_the_sum_was_held():
    """Order does not matter: four times the limit comes first, and all that a node has is taken after it."""
    limit, n = 1 << 10, 50
    a, b = np.zeros(2 * n, np.int32), np.arange(1, 2 * n + 1, dtype=np.int32)
    old = np.concatenate((np.zeros(n), np.full(n, 20))).astype(np.int64)
    strength = np.zeros(2 * n + 1, np.int64)
    strength[0] = 20 * n
    for gained, found in ((900, True), (limit // n + 1, True), (limit // n, False)):
        new = np.concatenate((np.full(n, gained), np.zeros(n))).astype(np.int64)
        zeros = np.zeros_like(strength)
        buffers = PairBuffers(False)
        buffers.fill(a, b, old, new)
        assert overweight(buffers.arrays, False, strength, zeros, limit) is found


def test_a_saved_graph_whose_sums_would_wrap_is_refused():
    """A few edges of the greatest weight stand for 2^25 of them."""
    graph = Graph("int64", grid=1.0, limit=1 << 38)
    apply_batch(graph, read_events([(0, n, 0, 1, 1.0) for n in range(1, 9)]))
    image, _ = take_image(graph)
    image.weight[:] = (1 << 38) - 1
    with pytest.raises(DamagedFolder, match="integer sums"):
        build_graph(image, Graph("int64", grid=1.0, limit=1 << 38))
    fresh = Graph("int64", grid=1.0, limit=1 << 38)
    image.weight[:] = (1 << 34) - 1
    build_graph(image, fresh)
    assert len(fresh) == 9


def test_what_relations_add_is_charged_to_the_ends_of_their_own_pair():
    graph = Graph("int64", grid=1.0, limit=10, relations={"buy": 1.0, "view": 1.0})
    rows = {
        "src": [1, 1, 3, 5, 5, 5],
        "dst": [2, 2, 4, 6, 6, 7],
        "weight": [3.0, 3.0, 3.0, 9.0, 9.0, 1.0],
        "relation": ["buy", "view", "buy", "view", "buy", "buy"],
    }
    assert list(find_refused(graph, read_events(rows, relation="relation"))) == [4, 5]
