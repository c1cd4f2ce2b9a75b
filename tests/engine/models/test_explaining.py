"""Shares of a vector: they add up, to the bit where they are integers."""

import tracemalloc
import uuid

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dygcn
from dygcn import datasets
from dygcn.engine.events import id_column, python_ids, read_events, rows_of
from dygcn.engine.models.explaining import MOST_EVENTS, explain, explain_change
from dygcn.engine.models.readout import read_vectors
from dygcn.engine.models.state import State
from dygcn.errors import FeatureError, OptionError, UnknownNode
from dygcn.live.files import digest_of
from dygcn_lab.testbed.dense import dense_messages, dense_vectors, walk_vectors
from dygcn_lab.testbed.seeding import small_model
from tests.engine.models.test_trial import WIDTH, model_of, rolling_state, what_is_seen

QUICK = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
NODE = st.integers(0, 9)
EVENT = st.tuples(
    NODE,
    NODE,
    st.sampled_from([0.0, 1.0, 4.0]),
    st.sampled_from([1, 1, -1]),
    st.sampled_from([0.25, 1.0, 3.5]),
)
CLOSE = 1e-6


def check(state, node, close=CLOSE):
    """Assert that all shares of a node's vector add up."""
    found, lean = explain(state, node, shares=True), explain(state, node)
    rule, graph, one = state.exact, state.graph, np.array([node], np.int32)
    whole = [rule.whole_sums(graph, one, order) for order in range(1, rule.orders + 1)]
    assert np.array_equal(found.sum_shares.sum(axis=1), found.sums)
    assert np.array_equal(found.sums, np.concatenate([rows for _, rows in whole]))
    assert np.array_equal((np.abs(found.weights) * found.has).sum(axis=1), found.degrees)
    assert found.degrees.tolist() == [degree[0] for degree, _ in whole]
    assert sorted(found.neighbours.tolist()) == sorted(graph.pull.arcs(one)[1].tolist())
    vector = read_vectors(state.model, rule, graph, one)[0]
    assert np.array_equal(found.vector, vector)
    total = found.own_vector + found.vector_shares.sum(axis=(0, 1))
    np.testing.assert_allclose(total + found.rounding_vector, vector, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.vector_shares @ found.vector, found.projections, rtol=0, atol=1e-12)
    whole = found.own + found.totals.sum() + found.rounding
    assert whole == pytest.approx(float(found.vector @ found.vector), abs=1e-12)
    assert np.array_equal(lean.projections, found.projections)
    assert lean.sum_shares is None
    # Served vectors are float32 sums, whose error grows with their length: see `vector_in_double`.
    length = max(1.0, float(np.linalg.norm(found.vector)))
    assert np.abs(found.rounding_vector).max(initial=0.0) < close * length
    return found


def vector_in_double(state, node):
    """Read a vector out of its messages in double precision: what shares add up to, whatever its length."""
    model, one = state.model, np.array([node], np.int32)
    rows = [
        state.exact.messages(state.graph, one, k)[0] * model.scales * 2.0**-24
        for k in range(model.orders + 1)
    ]
    levels = [(row, np.array([True])) for row in rows]
    if model.table is None:
        return dense_vectors(levels, model.weights, model.floor)[0]
    names = python_ids(state.graph.ids.names(one)).tolist()
    return walk_vectors(levels, model, names)[0]


def state_of(model, events):
    state = State(model)
    state.apply(read_events(events, model.ids))
    return state


@QUICK
@given(
    st.lists(EVENT, max_size=30),
    st.booleans(),
    st.sampled_from(["hashed", "walks", "given"]),
    st.sampled_from([None, 2.0]),
    st.integers(1, 3),
)
def test_shares_add_up_in_any_graph(events, directed, features, half_life, orders):
    state = State(model_of(False, directed, features, half_life, None, orders))
    if features == "given":
        values = np.random.default_rng(0).uniform(-1, 1, (5, WIDTH)).astype(np.float32)
        state.set_features(id_column([0, 2, 4, 6, 77]), values)
    if events:
        state.apply(read_events(events))
    for node in state.graph.nodes().tolist():
        check(state, node, close=1e-4)  # neighbours may cancel out, and then rounding is all that is left


@QUICK
@given(st.lists(EVENT, min_size=1, max_size=30), st.booleans())
def test_shares_are_those_of_a_dense_twin(events, directed):
    state = state_of(model_of(False, directed, "hashed", 2.0, None, 2), events)
    graph, nodes = state.graph, state.graph.nodes()
    A = np.zeros((graph.ids.high, graph.ids.high))
    a, b, weight = graph.pull.arcs(nodes)
    A[a, b] = np.abs(weight)
    everyone = np.arange(graph.ids.high, dtype=np.int32)
    x = state.exact.messages(graph, everyone, 0)[0] * 2.0**-24
    levels = dense_messages(A, x, np.isin(everyone, nodes), 2)
    for node in nodes.tolist():
        found = explain(state, node)
        for k in (1, 2):
            h, before = levels[k][0][node], levels[k - 1][0]
            degree = A[node] @ levels[k - 1][1]  # of those who have a message
            unit = 1 / max(np.linalg.norm(h), state.model.floor)
            if degree == 0 or np.linalg.norm(h) < 1e-3:
                continue
            shares = (A[node][:, None] * before / degree * unit) @ state.model.weights[k] @ found.vector
            np.testing.assert_allclose(found.projections[k - 1], shares[found.neighbours], rtol=0, atol=1e-5)


def embedding_state():
    random = np.random.default_rng(1)
    events = [(int(a), int(b)) for a, b in random.integers(0, 30, (80, 2)) if a != b]
    base = dygcn.Embedding(list(range(25)), random.standard_normal((25, 8)).astype(np.float32))
    live = dygcn.fit(events, features=base, dim=8)
    live.update(add=[(0, 28), (28, 31), (31, 32)], remove=[events[0]])
    return live._state


def test_shares_of_an_embedding_that_is_kept_fresh_add_up():
    state = embedding_state()
    for node in state.graph.nodes().tolist():
        check(state, node)


def test_a_node_that_nothing_reaches_has_its_vector_from_its_id():
    state = state_of(small_model(features="walks"), [(0, 3)])  # neither has a row
    found = check(state, int(state.graph.nodes()[0]))
    assert np.array_equal(found.own_vector, found.vector)
    assert not found.has[0].any()
    assert found.degrees.tolist() == [0, 0]


def test_neighbours_are_ranked_by_what_they_add():
    state = state_of(small_model(), [(0, node) for node in range(1, 9)])
    found = explain(state, int(state.graph.find(id_column([0]))[0]))
    assert np.abs(found.totals).tolist() == sorted(np.abs(found.totals).tolist(), reverse=True)
    assert found.totals[0] == pytest.approx(found.projections[:, 0].sum())


def test_shares_of_nodes_that_hear_a_hub(monkeypatch):
    monkeypatch.setenv("DYGCN_HEAVY_FROM", "32")
    random = np.random.default_rng(3)
    star = [(0, node) for node in range(1, 300)] + [tuple(pair) for pair in random.integers(1, 300, (200, 2))]
    state = state_of(small_model(), [(int(a), int(b)) for a, b in star])
    for node in range(300, 340):
        state.apply(read_events([(0, node), (node - 200, node)]))
    rule, hub = state.exact, int(state.graph.find(id_column([0]))[0])
    assert rule.sums[1].degree[hub + 1] < rule.whole_sums(state.graph, np.array([hub + 1], np.int32), 2)[0][0]
    for node in [hub, *state.graph.nodes()[1:20].tolist()]:
        check(state, node)


@pytest.mark.large
def test_a_hub_takes_one_number_for_each_neighbour():
    spokes = np.arange(1, 100_001)
    state = State(small_model())
    state.apply(read_events({"src": np.zeros(100_000, np.int64), "dst": spokes}))
    hub = int(state.graph.find(id_column([0]))[0])
    tracemalloc.start()
    found = explain(state, hub)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found.neighbours) == 100_000
    assert peak < 100_000 * 16 * 8  # one row of floats for each neighbour would be more
    whole = found.own + found.totals.sum() + found.rounding
    assert whole == pytest.approx(float(found.vector @ found.vector), abs=1e-9)


def test_who_has_no_messages_is_refused():
    state = state_of(small_model(), [(1, 2)])
    for node in (-1, 2, 99):
        with pytest.raises(UnknownNode):
            explain(state, node)
    state = rolling_state()
    with pytest.raises(FeatureError, match="rolling"):
        explain(state, 0)
    with pytest.raises(FeatureError, match="rolling"):
        explain_change(state, 1, read_events([(1, 3)]))


# ---- real graphs -------------------------------------------------------------------------------------------


def check_data(name, features, count, until=None):
    events = read_events(datasets.load(name).events())
    events = rows_of(events, np.arange(len(events) if until is None else min(until, len(events))))
    live = dygcn.fit(events, dim=32, features=features)
    state = live._state
    nodes = np.random.default_rng(5).permutation(state.graph.nodes())[:count].tolist()
    degrees = state.graph.pull.count[: state.graph.ids.high]
    for node in [*nodes, int(degrees.argmax())]:
        found = check(state, node)
        total = found.own_vector + found.vector_shares.sum(axis=(0, 1))
        np.testing.assert_allclose(total, vector_in_double(state, node), rtol=0, atol=CLOSE)


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize("name", ["as-733", "college-msg"])
def test_shares_add_up_in_real_graphs(name):
    check_data(name, "walks", 30, until=8000)


@pytest.mark.slow
@pytest.mark.usefixtures("data")
@pytest.mark.parametrize("features", ["walks", "hashed"])
@pytest.mark.parametrize("name", ["as-733", "college-msg"])
def test_shares_of_a_thousand_nodes_add_up_in_real_graphs(name, features):
    check_data(name, features, 1000)


# ---- events ------------------------------------------------------------------------------------------------


@QUICK
@given(
    st.lists(EVENT, min_size=1, max_size=20),
    st.lists(EVENT, max_size=12),
    st.booleans(),
    st.sampled_from([None, 2.0]),
    st.sampled_from([None, 0.0, 6.0]),
    st.booleans(),
)
def test_movements_by_event_add_up_to_that_of_the_batch(before, events, directed, half_life, passed, timed):
    state = state_of(model_of(False, directed, "hashed", half_life, 1.0, 2), before)
    batch, now = read_events(events, "int64"), None if passed is None else 4.0 + passed
    if not timed:
        batch.t = None
        now = 9.0 if half_life is not None else now
    expected = State.from_image(state.model, state.image()[0])
    seen = what_is_seen(state)
    expected.apply(batch, now)
    for name in range(10):
        found = explain_change(state, name, batch, now)
        node = expected.graph.find_one(name)
        after = np.zeros(6, np.float32)
        if node >= 0:
            after = read_vectors(state.model, expected.rule, expected.graph, np.array([node], np.int32))[0]
        assert np.array_equal(found.after, after)
        assert len(found.by_event) == len(batch) == len(found.projections)
        whole = found.after.astype(np.float64) - found.before
        total = found.by_event.sum(axis=0) + found.waiting
        np.testing.assert_allclose(total, whole, rtol=0, atol=1e-14)
    assert what_is_seen(state) == seen


def test_only_events_that_reach_a_node_move_it():
    state = state_of(small_model(), [(0, 1), (1, 2), (5, 6), (6, 7)])
    batch = read_events([(7, 8), (2, 3), (0, 4), (0, 4)])
    before = digest_of(state)
    found = explain_change(state, 0, batch)
    assert found.by_event.any(axis=1).tolist() == [False, False, True, False]
    assert not found.waiting.any()
    assert found.projections[2] == pytest.approx(((found.after.astype(float) - found.before) ** 2).sum())
    assert digest_of(state) == before
    arrived = explain_change(state, 8, batch)
    assert not arrived.before.any()
    assert arrived.by_event.any(axis=1).tolist() == [True, False, False, False]


def test_too_many_events_are_refused():
    state = state_of(small_model(), [(0, 1)])
    with pytest.raises(OptionError, match="at most"):
        explain_change(state, 0, read_events([(0, 1)] * (MOST_EVENTS + 1)))
    many = explain_change(state, 0, read_events([(0, 1 + k) for k in range(300)]))
    assert len(many.by_event) == 300


@pytest.mark.parametrize("wrong", [3.5, "ann", True, None, 2**70, [1], np.float32(1), uuid.UUID(int=1)])
def test_what_can_be_no_id_is_refused(wrong):
    """Zeros would be the answer for a node that no event moves."""
    live = dygcn.fit([(1, 2), (2, 3)], dim=4)
    with pytest.raises(UnknownNode, match="its ids are int64"):
        live.explain_change(wrong, add=[(1, 3)])
    assert not live.explain_change(99, add=[(1, 3)]).by_event.any()
    assert live.explain_change(np.int32(1), add=[(1, 3)]).by_event.any()
