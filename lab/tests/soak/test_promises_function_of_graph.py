"""State is a function of the graph: the check in its quick size, and the bugs it must notice."""

import numpy as np
import pytest

import dygcn
from dygcn.engine.graph.transaction import Transaction
from dygcn.engine.propagation import ExactRule
from dygcn_lab.soak.promises import function_of_graph as check
from dygcn_lab.testbed.seeding import seeded, small_model


def an_event_counts_twice(self):
    """One weight of a batch is added to the graph's strengths again."""
    delta = GRAPH_WRITE(self)
    if len(delta.receiver):
        self.graph.strength[delta.receiver[0]] += 1
        self.graph.edge_count += len(self.events.op) > 5
    return delta


def a_row_is_added_twice(self, transaction):
    delta, moved = RULE_WRITE(self, transaction)
    if len(moved.nodes) > 3 and self.sums[0].slot[moved.nodes[0]] < 0:
        self.sums[0].narrow[moved.nodes[0]] += 1
    return delta, moved


GRAPH_WRITE, RULE_WRITE = Transaction.write, ExactRule.write


@pytest.mark.parametrize(
    ("owner", "name", "wrong"),
    [
        (Transaction, "write", an_event_counts_twice),
        (ExactRule, "write", a_row_is_added_twice),
        (ExactRule, "write", check.lose_a_push),
    ],
    ids=["an event counts twice", "a row is added twice", "a push is lost"],
)
def test_other_bugs_would_be_noticed(owner, name, wrong):
    with seeded(owner, name, wrong):
        tally = check.walk(150, 3)
    assert tally.bad > 0
    assert 0 < len(tally.notes) <= 5


def test_the_bug_is_gone_afterwards():
    with seeded(ExactRule, "write", check.lose_a_push):
        pass
    assert check.walk(60, 3).bad == 0


def test_nothing_left_is_nothing():
    live = dygcn.start(small_model())
    live.update(add=[(1, 2), (2, 3)])
    assert not check.is_empty(live)
    live.update(remove=[(1, 2), (2, 3)])
    assert check.is_empty(live)
    live._state.exact.sums[0].narrow[0, 0] = 1
    assert not check.is_empty(live)


def test_batches_of_any_size_are_all_events():
    events = [(n, n + 1, 0.0, 1, 1.0) for n in range(20)]
    digests = {check.in_batches(small_model(), events, size).digest() for size in (1, 3, 20, 100)}
    assert len(digests) == 1


def test_models_are_as_asked_for():
    model = small_model("string", directed=True, orders=3, half_life=2.0)
    assert (model.ids, model.directed, model.orders, model.half_life) == ("string", True, 3, 2.0)
    assert np.isfinite(model.weights[0]).all()
