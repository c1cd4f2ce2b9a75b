"""One edge, added or removed by itself, equals the same edge in a batch."""

import copy
import functools
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import dygcn
from dygcn.engine.models.model import Model
from dygcn.engine.models.state import State
from dygcn.engine.propagation import ExactRule
from dygcn.live.embedding import LiveEmbedding
from tests.seeded import assert_noticed

NAMES = {"int64": list(range(8)), "string": [f"node {i}" for i in range(8)]}
HOW = settings(
    max_examples=150, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
HUNT = settings(HOW, phases=[Phase.generate], report_multiple_bugs=False, print_blob=False)
MODELS = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["int64", "string"]),
        "orders": st.integers(1, 3),
        "directed": st.booleans(),
        "memory": st.sampled_from([None, None, None, 2.0]),
        "unit": st.sampled_from([None, 1.0]),
        "tolerance": st.sampled_from([0.0, 0.0, 0.0, 0.1]),
        "first": st.sampled_from([1.0, 1.0, 2.0, 0.5]),  # the weight of all edges before
    }
)
EDGES = st.lists(
    st.tuples(st.integers(0, 7), st.integers(0, 7), st.sampled_from([1, 1, -1])), min_size=1, max_size=12
)


def new_embedding(how):
    weights = (np.eye(6, dtype=np.float32),) * (how["orders"] + 1)
    about = how["kind"], "hashed", np.ones(6), 3, how["directed"]
    live = LiveEmbedding(State(Model(weights, *about, half_life=how["memory"], unit=how["unit"])))
    names = NAMES[how["kind"]]
    ring = [(names[i], names[(i + 1) % 6], 1.0, 1, how["first"]) for i in range(6)]
    live.update(ring)
    live.publish(tolerance=how["tolerance"] if how["orders"] == 2 else 0.0)
    return live


def result(live, change):
    moved = dict(zip(change.ids.tolist(), change.orders.tolist(), strict=True))
    counts = change.rows, change.unchanged, change.missing, change.loops, change.version
    clock = live._state.graph.clock
    return moved, sorted(change.left.tolist()), counts, live.digest(), live.edge_count, len(live), clock


def agree(how, edges):
    alone, batch = new_embedding(how), new_embedding(how)
    names = NAMES[how["kind"]]
    now = None if how["memory"] is None else 3.0  # with memory, an event needs a time
    for a, b, op in edges:
        side = "add" if op > 0 else "remove"
        change = alone.update(**{side: [(names[a], names[b])]}, now=now)
        row = {"src": [names[a]], "dst": [names[b]], "op": [op]}
        assert result(alone, change) == result(batch, batch.update(row, now=now))
    for name in ("contact", "activity", "pair_t", "pair_count"):
        images = (getattr(live._state.image()[0].graph, name) for live in (alone, batch))
        np.testing.assert_array_equal(*images)
    assert alone.digest() == alone.recompute().digest()


@given(MODELS, EDGES)
@HOW
def test_one_edge_equals_a_batch_of_it(how, edges):
    agree(how, edges)


def hunt():
    HUNT(given(MODELS, EDGES)(agree))()


@pytest.mark.parametrize(
    ("module", "line", "wrong"),
    [
        (
            "dygcn.engine.graph.store",
            "return plain and self.weight_shift <= self.plain_shift",
            "return plain",
        ),
        ("dygcn.engine.propagation.kernels", "plan.t[0] = t", "plan.t[0] = 0.0"),
    ],
    ids=["finer weights", "time"],
)
def test_a_seeded_bug_is_noticed(tmp_path, module, line, wrong):
    assert_noticed(tmp_path, module, line, wrong, hunt)


def test_most_single_edges_go_this_way(monkeypatch):
    live = dygcn.fit([(i, (i + 1) % 9) for i in range(9)], dim=8)
    monkeypatch.setattr(State, "stage", functools.partial(pytest.fail, "a batch"))
    for name, pair in (("add", (1, 5)), ("add", (1, 5)), ("remove", (1, 5)), ("remove", (1, 2))):
        live.update(**{name: [pair]})
    assert live.digest() == live.recompute().digest()


def run_out_of_memory(*_, **__):
    raise MemoryError("no room, on purpose")


def edge_after_room_could_not_be_made():
    ring, chords = ([(i, (i * a + b) % 40) for i in range(40)] for a, b in ((1, 1), (7, 3)))
    live = dygcn.fit(ring + chords, dim=8)
    with mock.patch.object(ExactRule, "reserve", run_out_of_memory), pytest.raises(MemoryError):
        live.update({"src": [1], "dst": [2], "weight": [1.5]})
    for other in range(20, 26):  # an edge for which there is no place among the arcs is a batch
        live.update(add=[(5, other)])
        assert live.digest() == live.recompute().digest()


def test_an_edge_after_room_for_a_finer_weight_could_not_be_made():
    edge_after_room_could_not_be_made()


def test_rows_in_coarser_units_are_noticed(tmp_path):
    line = "self.rule.reserve(self.graph)  # a finer weight may have begun to need wider rows"
    assert_noticed(tmp_path, "dygcn.engine.models.state", line, "pass", edge_after_room_could_not_be_made)


def test_an_id_that_cannot_be_read_tears_nothing():
    live = dygcn.fit([(1, 2), (2, 3), (3, 4)], dim=8)
    before = live.digest()
    with pytest.raises((TypeError, dygcn.errors.EventError)):
        live.update(add=[(np.timedelta64(1, "s"), 2)])
    assert live.digest() == before


def test_a_copy_shares_the_rows_of_the_model():
    live = dygcn.fit([(i, (i + 1) % 9) for i in range(9)], dim=8)
    live.update(add=[(1, 5)])
    copied = copy.deepcopy(live)
    copied.update(remove=[(1, 5)])
    first, second = (one._state.rule._plan.arrays[6].arrays[2] for one in (live, copied))
    assert np.shares_memory(first, second)
    assert live.digest() == live.recompute().digest() != copied.digest() == copied.recompute().digest()
