"""What the cost of the score is measured on: two models that differ in times and heads alone."""

import dataclasses

import numpy as np
import pytest

from dygcn.engine.events import python_ids
from dygcn.live.fitting import fit
from dygcn_lab.costs.score import (
    bytes_of,
    dated_events,
    handed_over,
    loaded,
    random_head,
    score_costs,
    update_costs,
)
from dygcn_lab.costs.traffic import Traffic


@pytest.fixture(scope="module")
def events():
    return dated_events("power-law-300-2k")


@pytest.fixture
def lives(events):
    return loaded(events, dim=8)


def edges_of(live):
    return {
        frozenset((int(a), int(b)))
        for node in live._state.graph.nodes()
        for a, b, _ in zip(*live._state.graph.pull.arcs(np.array([node], np.int32)), strict=True)
    }


def test_all_are_at_work_on_one_graph_and_only_one_looks_at_times(lives):
    scored, unscored, _ = lives
    assert np.array_equal(scored.vectors(scored.ids()), unscored.vectors(unscored.ids()))
    assert scored._state.graph.contacts is not None
    assert unscored._state.graph.contacts is None
    a, b = scored.ids()[:50], scored.ids()[50:100]
    vectors = unscored.vectors(a).astype(np.float64), unscored.vectors(b).astype(np.float64)
    assert np.allclose(unscored.score(a, b), (vectors[0] * vectors[1]).sum(axis=1), atol=1e-5)
    assert not np.allclose(scored.score(a, b), unscored.score(a, b))


def test_updates_move_the_clock_and_leave_the_graph_as_it_was(lives, events):
    before = edges_of(lives[0])
    clock = lives[0]._state.graph.clock
    found = update_costs(lives, events, 20, 6)
    assert found["batch"] == 20
    assert min(found.values()) > 0
    assert all(edges_of(live) == before for live in lives)
    assert clock < lives[0]._state.graph.clock < clock + lives[0].model.unit
    assert lives[1]._state.graph.clock is None


def test_events_are_handed_over_with_times_and_without(lives, events):
    traffic = Traffic(lives[0]._state.graph, events)
    dated, bare = handed_over(traffic.round(1)[0], 7.0)
    assert dated == {**bare, "now": 7.0}
    dated, bare = handed_over(traffic.round(6)[0], 7.0)
    assert "t" not in bare["events"]
    assert dated["events"].pop("t").tolist() == [7.0] * 6
    assert dated["events"].keys() == bare["events"].keys()


@pytest.mark.parametrize("pairs", [1, 100, 250])
def test_scores_are_timed_beside_the_cosine(lives, pairs):
    found = score_costs(lives, pairs, 3)
    assert found["pairs"] == pairs
    assert min(found.values()) > 0


def test_pair_state_is_twelve_bytes_beside_the_twelve_of_an_arc(lives):
    found = bytes_of(lives)
    assert found["arcs_with"] == 2 * found["arcs_without"] == 2 * found["pair_state"]
    assert 24 <= found["pair_state"] < 100
    assert found["activity"] >= 12


def test_a_random_head_is_as_long_as_a_learned_one(events):
    ids = {"src": python_ids(events.src), "dst": python_ids(events.dst), "t": events.t}
    learned = fit(ids, dim=8, steps=12).model.links["new"]
    made = random_head(2)
    for field in dataclasses.fields(made):
        assert len(getattr(made, field.name)) == len(getattr(learned, field.name))
