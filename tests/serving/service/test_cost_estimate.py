"""What a batch is expected to cost: its events at least, and a hub's degree where all is pushed."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dygcn
from dygcn.engine.events import read_events
from dygcn.serving.service import cost_estimate as budget
from dygcn.serving.service.cost_estimate import (
    expected_rows,
    expected_rows_of_ageing,
    expected_rows_one_by_one,
    rows_of_expiry,
)
from dygcn_lab.testbed.seeding import small_model

SPOKES = 300


@pytest.fixture(scope="module")
def star():
    return dygcn.fit([(0, spoke) for spoke in range(1, SPOKES)], dim=8)


def test_an_event_at_a_hub_costs_no_more_than_elsewhere(star):
    for event, rows in [((0, 999), 2), ((998, 999), 2), ((1, 999), 3)]:
        assert expected_rows(star._state, read_events([event])) == rows


def test_where_all_messages_are_pushed_it_costs_the_degree(monkeypatch):
    monkeypatch.setenv("DYGCN_HEAVY_FROM", "inf")
    live = dygcn.fit([(0, spoke) for spoke in range(1, SPOKES)], dim=8)
    assert expected_rows(live._state, read_events([(0, 999)])) >= SPOKES - 1
    assert expected_rows(live._state, read_events([(998, 999)])) == 2
    assert expected_rows(live._state, read_events([(1, 999)])) == 3


def test_edges_that_leave_by_the_clock_count():
    random = np.random.default_rng(4)
    events = {"src": random.integers(0, 30, 500), "dst": random.integers(30, 90, 500), "t": np.arange(500)}
    live = dygcn.start(dataclasses.replace(small_model(), unit=1.0, expire=100.0))
    live.update(events)
    nothing, edges = read_events([], "int64"), live.edge_count
    expected = [rows_of_expiry(live._state, nothing, now) for now in (499, 520, 700)]
    assert expected == sorted(expected)
    assert expected[0] == 0
    assert expected[2] >= 40 * edges
    assert expected_rows_of_ageing(live._state, nothing, 520, 1000) == expected[1]
    assert expected_rows_one_by_one(live._state, nothing, 520, 1000) == expected[1]
    assert live.update(now=520).rows <= expected[1]


def test_each_event_counts(star):
    one = expected_rows(star._state, read_events([(0, 999)]))
    assert expected_rows(star._state, read_events([(0, 999)] * 10)) == 10 * one


def test_nothing_costs_nothing(star):
    assert expected_rows(star._state, read_events([], "int64")) == 0


def test_ids_of_another_type_are_counted_and_refused_elsewhere(star):
    assert expected_rows(star._state, read_events([("ann", "bob")])) == 1


def test_one_order_has_no_neighbours_to_tell():
    live = dygcn.fit([(0, spoke) for spoke in range(1, 50)], dim=8, orders=1)
    assert expected_rows(live._state, read_events([(0, 999)])) == 2


_MODEL = dygcn.fit([(1, 2), (2, 3)], dim=4).model
_NODES = 12


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, _NODES), st.integers(0, _NODES)), min_size=1, max_size=20))
def test_expected_is_each_end_and_whoever_stands_beside_it(edges):
    begun = {(a, b) for a in range(8) for b in range(a) if (a * b) % 3 != 1}
    live = dygcn.start(_MODEL)
    live.update(add=sorted(begun))
    degree = dict.fromkeys(range(_NODES + 1), 0)
    for a, b in begun:
        degree[a] += 1
        degree[b] += 1
    expected = expected_rows(live._state, read_events(edges))
    assert expected == sum(2 + degree[a] + degree[b] for a, b in edges)
    rows = live.update(add=edges).rows
    assert rows <= 2 * expected + 2 * len(edges) ** 2  # new edges stand beside each other, too


def hub_of_hubs():
    """A centre, 60 hubs around it, 50 leaves at each: few are near a leaf, and many two steps on."""
    near = [(0, hub) for hub in range(1, 61)]
    return near + [(hub, 1000 * hub + leaf) for hub in range(1, 61) for leaf in range(50)]


@pytest.mark.parametrize("orders", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("edge", [(1005, 77), (1, 78), (0, 79), (5, 6), (9_999_998, 9_999_999)])
def test_expected_rows_look_as_deep_as_the_rule(orders, edge):
    live = dygcn.start(small_model(orders=orders))
    live.bulk([hub_of_hubs()])
    expected = expected_rows(live._state, read_events([edge]))
    rows = live.update(add=[edge]).rows
    assert rows <= 2 * expected
    assert expected <= 2 * rows + 2 * orders


def test_a_ring_that_is_too_large_to_follow_counts_as_everybody(monkeypatch):
    live = dygcn.start(small_model(orders=4))
    live.bulk([hub_of_hubs()])
    monkeypatch.setattr(budget, "_LOOK", 10)
    assert expected_rows(live._state, read_events([(1, 78)])) > 2 * len(live)


def test_one_ring_alone_would_be_noticed(monkeypatch):
    """The mutant: the expected rows of a deep rule are those of one of two orders."""

    def one_ring(state, batch):
        nodes = state.graph.find(batch.src)
        return 2 * len(batch) + int(state.graph.push.count[nodes[nodes >= 0]].sum())

    monkeypatch.setitem(globals(), "expected_rows", one_ring)
    with pytest.raises(AssertionError):
        test_expected_rows_look_as_deep_as_the_rule(4, (1005, 77))


# ---- events one by one, and time ---------------------------------------------------------------------------


def rows_one_by_one(live, events):
    return sum(live.update([one]).rows for one in events)


@pytest.mark.parametrize("orders", [2, 3, 4])
@pytest.mark.parametrize("new_hub", [False, True])
def test_events_that_are_played_one_by_one_count_each(orders, new_hub):
    """Each leaf is two steps from all others: a batch reaches them once, and 30 events 30 times."""
    live = dygcn.start(small_model(orders=orders))
    live.bulk([[(0, spoke) for spoke in range(1, SPOKES)]])
    events = [{"src": 5000 if new_hub else one, "dst": 1000 + one} for one in range(1, 31)]
    expected = expected_rows_one_by_one(live._state, read_events(events), None, 10**9)
    rows = rows_one_by_one(live, events)
    assert rows <= 2 * expected
    assert expected <= 2 * rows + 2 * orders * len(events)


def test_counting_stops_where_it_is_enough(star):
    batch = read_events([(0, 1000 + one) for one in range(100)])
    assert 500 < expected_rows_one_by_one(star._state, batch, None, 500) < 500 + 3 * SPOKES


@pytest.fixture
def haunted():
    """Ghosts at a hub, removed one after the other, and apart from it."""
    model = dygcn.fit(
        [(1, 2, 0.0), (2, 3, 1.0)], columns=("src", "dst", "t"), dim=4, features="hashed", memory=100.0
    ).model
    live = dygcn.start(model)
    live.update(add=[(0, spoke) for spoke in range(1, SPOKES)], now=1.0)
    live.update([{"src": 0, "dst": one, "op": -1, "t": 1.0 + one} for one in range(1, 50)])
    return live


@pytest.mark.parametrize(("now", "some"), [(50.0, False), (101.5, False), (110.0, True), (9000.0, True)])
def test_ghosts_that_age_count(haunted, now, some):
    nothing = read_events([], "int64")
    expected = expected_rows_of_ageing(haunted._state, nothing, now, 10**9)
    assert expected == expected_rows_one_by_one(haunted._state, nothing, now, 10**9)
    rows = haunted.update(add=[], now=now).rows
    assert (expected > 0, rows > 0) == (some, some)
    assert rows <= 2 * expected
    assert expected <= 4 * rows


def test_time_between_events_counts_for_each(haunted):
    """A ghost of the hub ages before each event: every event moves all who are beside the hub."""
    events = [{"src": 900, "dst": 901 + one, "op": 1, "t": 102.0 + one} for one in range(40)]
    batch = read_events(events)
    expected = expected_rows_one_by_one(haunted._state, batch, None, 10**9)
    at_once = expected_rows_of_ageing(haunted._state, batch, None, 10**9)
    rows = rows_one_by_one(haunted, events)
    assert rows > 10 * at_once
    assert rows <= 2 * expected
    assert expected <= 4 * rows


def test_what_events_remove_ages_with_those_that_follow(haunted):
    removed = [{"src": 0, "dst": 60 + one, "op": -1, "t": 2000.0 + one} for one in range(10)]
    times = [2000.5 + 100 * age + one for age in range(1, 5) for one in range(10)]  # each of them ages alone
    later = [{"src": 900, "dst": 901, "op": 1, "t": t} for t in times]
    batch = read_events(removed + later)
    expected = expected_rows_one_by_one(haunted._state, batch, None, 10**9)
    assert rows_one_by_one(haunted, removed + later) <= 2 * expected


_REMEMBERING = dygcn.fit([(1, 2, 0.0), (2, 3, 1.0)], columns=("src", "dst", "t"), dim=4, memory=10.0).model


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.sampled_from([1, -1]), st.integers(0, 30))),
    st.integers(0, 90),
)
@settings(deadline=None, max_examples=40)
def test_ghosts_that_are_due_are_those_that_are_taken(rows, clock):
    live = dygcn.start(_REMEMBERING)
    rows.sort(key=lambda one: one[3])
    for a, b, op, t in rows:
        live.update([{"src": a, "dst": b, "op": op, "t": float(t)}])
    memory = live._state.graph.memory
    looked = [side.tolist() for side in memory.look_due(float(clock))]
    assert looked == [side.tolist() for side in memory.look_due(float(clock))]
    assert looked == [side.tolist() for side in memory.take_due(float(clock))]
