"""A small update in one call equals the same update order by order, however little buffers there is."""

import dataclasses
from collections import Counter
from itertools import pairwise
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from dygcn.engine.events import read_events
from dygcn.engine.graph import apply_batch
from dygcn.engine.graph.constants import DONE, OVERWEIGHT, SMALL_POOL
from dygcn.engine.models.model import Model
from dygcn.engine.models.state import State
from dygcn.engine.propagation import exact, gathering, outcomes
from dygcn.engine.propagation import spreading as buffers
from dygcn.engine.records import Written
from dygcn.errors import CapacityError
from dygcn.live.files import digest_of

WIDTH = 5
LIGHT, ANY = st.just(1.0), st.sampled_from([1.0, 1.0, 2.0, 0.5, 200.0, 3e6])  # two of the last are too much
NODES = st.one_of(st.integers(0, 3), st.integers(0, 9), st.integers(200, 205))
QUICK = settings(
    max_examples=40, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
HUNT = settings(QUICK, phases=[Phase.generate], report_multiple_bugs=False, print_blob=False)


ROWS = st.sampled_from([1, 4, 8, 12, 16, 24, 32, 48, 64, 96])


@st.composite
def plays(draw, orders):
    """Settings, a broom to begin with, and small batches, each with the rows that there is buffers for."""
    weights = draw(st.sampled_from([LIGHT, ANY]))
    event = st.tuples(NODES, NODES, st.sampled_from([1, 1, 1, -1]), weights)
    batch = st.tuples(ROWS, st.lists(event, max_size=10))
    return {
        "orders": orders,
        "directed": draw(st.booleans()),
        "timed": draw(st.booleans()),
        "broom": (draw(st.integers(0, 3)), draw(st.sampled_from([0, 0, 20, 125, 126]))),
        "batches": draw(st.lists(batch, min_size=1, max_size=8)),
    }


def explicit_plays(orders):
    """There is buffers for the orders before each order, not for that one; and a node carries too much."""
    made = {"orders": orders, "directed": False, "timed": False}
    for order in range(2, orders + 1):
        yield {**made, "broom": (order - 2, 60), "batches": [(24, [(200, 0, 1, 1.0)])]}
    yield {**made, "broom": (0, 20), "batches": [(64, [(0, 200, 1, 3e6)]), (64, [(0, 201, 1, 3e6)])]}


def broom(stick, leaves):
    """A path from node 0, and leaves at the end of it."""
    nodes = [0, *range(10, 10 + stick)]
    return [*pairwise(nodes), *((nodes[-1], 300 + leaf) for leaf in range(leaves))]


def new_state(orders, directed, timed):
    weights = (np.eye(WIDTH, dtype=np.float32),) * (orders + 1)
    unit = 1.0 if timed else None
    return State(Model(weights, "int64", "hashed", np.ones(WIDTH), 3, directed, unit=unit))


def order_by_order(state, batch):
    delta = apply_batch(state.graph, batch)
    return delta, state.rule.apply(state.graph, delta)


def in_one_call(state, batch):
    state.stage(batch)
    return state.rule.write(state.transaction)


def outcome(state, how, batch):
    """What an update says, in a form that can be compared; None if it was refused."""
    try:
        delta, changed = how(state, batch)
    except CapacityError:
        return None
    result = [np.asarray(getattr(delta, field.name)).tolist() for field in dataclasses.fields(Written)]
    reached = dict(zip(changed.nodes.tolist(), changed.orders.tolist(), strict=True))
    assert len(reached) == len(changed.nodes)
    state._finish(delta, changed)
    return result, reached, changed.rows


def agree(play):
    made = play["orders"], play["directed"], play["timed"]
    together, apart = new_state(*made), new_state(*made)
    for state in (together, apart):
        order_by_order(state, read_events([(a, b, 0.0, 1) for a, b in broom(*play["broom"])]))
    for time, (rows, events) in enumerate(play["batches"]):
        batch = read_events([(a, b, float(time), op, weight) for a, b, op, weight in events])
        with mock.patch.object(buffers, "_FIRST", rows):
            together.rule._buffers.clear()
            found = outcome(together, in_one_call, batch)
        assert found == outcome(apart, order_by_order, batch)
        marks = together.rule._spreading
        assert not marks.seen.any()
        assert (marks.place == -1).all()
        assert digest_of(together) == digest_of(apart)
        assert digest_of(together) == digest_of(State.from_image(together.model, together.image()[0]))
        if play["timed"]:
            for name in ("contact", "activity", "pair_t", "pair_count"):
                one, other = (getattr(state.image()[0].graph, name) for state in (together, apart))
                np.testing.assert_array_equal(one, other)


class Spy:
    """Counts what became of the updates in one call, and of the orders that were left to do."""

    def __init__(self, monkeypatch):
        self.counts = Counter()
        self._together, self._order = exact.update_at_once, gathering.gather_part
        monkeypatch.setattr(exact, "update_at_once", self.update)
        monkeypatch.setattr(gathering, "gather_part", self.order)
        self._begun = False
        whole = exact.ExactRule.write

        def write(rule, *arguments):
            self._begun = True
            try:
                return whole(rule, *arguments)
            finally:
                self._begun = False

        monkeypatch.setattr(exact.ExactRule, "write", write)

    def update(self, *arguments):
        result = self._together(*arguments)
        status, order, *_ = result
        names = {SMALL_POOL: "SMALL_POOL", OVERWEIGHT: "OVERWEIGHT"}
        ends = {outcomes.ALL_DONE: "ALL_DONE", outcomes.NOT_BEGUN: "NOT_BEGUN"}
        self.counts[ends.get(order, f"order {order}") if status == DONE else names[status]] += 1
        return result

    def order(self, *arguments):
        result = self._order(*arguments)
        if self._begun:
            self.counts["MISPLACED" if result[1] else "DONE"] += 1
        return result


EVERY = {"ALL_DONE", "NOT_BEGUN", "OVERWEIGHT", "SMALL_POOL", "DONE", "MISPLACED"}


@pytest.mark.parametrize("orders", [1, 2, 3, 4])
def test_one_call_equals_order_by_order(orders, monkeypatch):
    spy, test = Spy(monkeypatch), given(plays(orders))(agree)
    for play in explicit_plays(orders):
        test = example(play)(test)
    QUICK(test)()
    assert set(spy.counts) == EVERY | {f"order {order}" for order in range(1, orders + 1)}, spy.counts


def test_going_on_from_the_wrong_order_would_be_noticed(monkeypatch):
    whole = exact.ExactRule._go_on

    def go_on(self, transaction, written, order, *rest):
        return whole(self, transaction, written, order + (order > 0), *rest)

    monkeypatch.setattr(exact.ExactRule, "_go_on", go_on)
    with pytest.raises(AssertionError):
        HUNT(given(plays(3))(agree))()


def test_forgetting_who_was_reached_before_would_be_noticed(monkeypatch):
    whole = exact.ExactRule._go_on

    def go_on(self, transaction, written, order, changed, reached_count, *rest):
        return whole(self, transaction, written, order, changed, 0 if order > 1 else reached_count, *rest)

    monkeypatch.setattr(exact.ExactRule, "_go_on", go_on)
    with pytest.raises(AssertionError):
        HUNT(given(plays(3))(agree))()
