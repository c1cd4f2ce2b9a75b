"""Seeded bugs: each one must be caught by the state machine, or the state machine proves nothing."""

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from dygcn.engine.graph import Graph, Memory
from dygcn.engine.graph.transaction import Transaction
from dygcn.engine.propagation import ExactRule, exact
from dygcn.engine.propagation.spreading import Spreading
from dygcn.errors import DygcnError
from dygcn.live.embedding import LiveEmbedding
from tests.live.steps import step, take
from tests.live.test_changes import test_ids_of_an_old_change_survive_recycling_without_having_been_read
from tests.live.test_event_rules import EventRules, EventRulesWithMemory
from tests.seeded import assert_noticed


def in_pieces(monkeypatch):
    """Have even the smallest update go order by order."""
    monkeypatch.setattr(exact, "FEW_EVENTS", -1)


HUNT = settings(
    max_examples=1000,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
    derandomize=True,
    report_multiple_bugs=False,
    database=None,
    print_blob=False,
)


def signed_sum_decides_who_is_touched(monkeypatch):
    """The bug of the authors' code: a node that gains and loses equally is missed."""
    in_pieces(monkeypatch)
    whole = Transaction.write

    def write(self):
        delta = whole(self)
        net = np.zeros(self.graph.ids.high, np.int64)
        np.add.at(net, delta.receiver, delta.new.astype(np.int64) - delta.old)
        kept = net[delta.receiver] != 0
        arcs = {name: getattr(delta, name)[kept] for name in ("receiver", "sender", "old", "new")}
        return dataclasses.replace(delta, **arcs)

    monkeypatch.setattr(Transaction, "write", write)


def last_order_is_not_reported(monkeypatch):
    in_pieces(monkeypatch)
    whole = Spreading.add

    def add(self, order, arcs, frontier):
        after = whole(self, order, arcs, frontier)
        if order == len(self._sums):
            self.seen[self._buffers.reached.arrays.nodes[frontier.reached_count : after.reached_count]] = 0
            after.reached_count = frontier.reached_count
        return after

    monkeypatch.setattr(Spreading, "add", add)


def last_order_of_a_small_update_is_not_reported(monkeypatch):
    """The same in the one call for a few events."""
    whole = ExactRule._go_on

    def go_on(self, transaction, written, order, *rest):
        changed = whole(self, transaction, written, order, *rest)
        result = (changed.orders < self.orders) | (order != exact.ALL_DONE)
        return dataclasses.replace(changed, nodes=changed.nodes[result], orders=changed.orders[result])

    monkeypatch.setattr(ExactRule, "_go_on", go_on)


def nodes_are_never_recycled(monkeypatch):
    monkeypatch.setattr(Graph, "release", lambda self, nodes: None)


def changes_look_up_their_ids_too_late(monkeypatch):
    monkeypatch.setattr(LiveEmbedding, "_before_change", lambda self: None)


def weights_are_not_checked(monkeypatch):
    def on_grid(self, batch):
        weight = np.ones(len(batch)) if batch.weight is None else batch.weight
        return np.rint(np.clip(weight / self.grid, 0, 2**31 - 1)).astype(np.int64)

    monkeypatch.setattr(Graph, "on_grid", on_grid)


def ghosts_never_age(monkeypatch):
    none = np.empty(0, np.int32)
    monkeypatch.setattr(Memory, "take_due", lambda self, clock: (none, none))


def removed_nodes_leave_ghosts(monkeypatch):
    whole = Transaction.remove

    def remove(self, nodes):
        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(Memory, "remember", lambda self, a, b, weight, t: None)
            return whole(self, nodes)

    monkeypatch.setattr(Transaction, "remove", remove)


MUTANTS = [
    (signed_sum_decides_who_is_touched, EventRules),
    (last_order_is_not_reported, EventRules),
    (last_order_of_a_small_update_is_not_reported, EventRules),
    (nodes_are_never_recycled, EventRules),
    (weights_are_not_checked, EventRules),
    (ghosts_never_age, EventRulesWithMemory),
]


def test_ids_that_are_looked_up_too_late_are_caught(monkeypatch):
    changes_look_up_their_ids_too_late(monkeypatch)
    with pytest.raises(AssertionError):
        test_ids_of_an_old_change_survive_recycling_without_having_been_read()


@pytest.mark.parametrize(("mutant", "machine"), MUTANTS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_seeded_bug_is_caught(mutant, machine, monkeypatch):
    """Not by any exception: a mutant of something that is no longer called that would raise one, too."""
    mutant(monkeypatch)
    with pytest.raises((AssertionError, DygcnError, pytest.fail.Exception)):
        run_state_machine_as_test(machine, settings=HUNT)


def test_steps_show_the_seeded_bug_of_ghosts(monkeypatch):
    """Another node takes the number of one that left, and its ghost."""
    steps = [
        step("begin", directed=False, orders=2, strings=False, seed=0),
        step("add_and_remove", add=[(0, 1), (1, 2), (0, 2)], remove=[]),
        step("add_and_remove", add=[], remove=[(0, 1)]),
        step("remove_nodes", nodes=[0]),
        step("add_and_remove", add=[(3, 2)], remove=[]),
        step("time_passes", passed=3.0),
        step("agrees_with_the_dict"),
    ]
    take(EventRulesWithMemory, steps)
    removed_nodes_leave_ghosts(monkeypatch)
    with pytest.raises(AssertionError):
        take(EventRulesWithMemory, steps)


def hunt(few):
    """Play updates of more than so many events order by order, others in one call."""
    exact.FEW_EVENTS = few
    run_state_machine_as_test(EventRules, settings=HUNT)


LINES = {
    "old messages are taken too late": (
        "dygcn.engine.propagation.kernels",
        "if step.order == 1:",
        "old = arcs.changes.changed_senders\n"
        "write_messages(step.sums, old, changed_senders, step.out.table, step.out.has)\n"
        "if step.order == 1:",
        exact.FEW_EVENTS,
    ),
    "old messages of a large update are taken too late": (
        "dygcn.engine.propagation.spreading",
        "counts = side_by_side(calls)",
        "counts = side_by_side(calls)\n_put_old_messages(sums.arrays, changed_senders, buffer, parts)",
        -1,
    ),
    "those who left are reported as changed": (
        "dygcn.engine.propagation.kernels",
        "plan.tools.marks.seen[batch.nodes[2, i]] = 1  # who left is reported by the graph",
        "plan.tools.marks.seen[batch.nodes[2, i]] = 0",
        exact.FEW_EVENTS,
    ),
}


@pytest.mark.parametrize("bug", LINES)
def test_a_wrong_line_of_a_kernel_is_caught(bug, tmp_path):
    name, line, wrong, few = LINES[bug]
    assert_noticed(tmp_path, name, line, wrong, hunt, few)


def test_without_a_bug_nothing_is_caught(monkeypatch):
    """Small updates order by order, as some of the mutants need them: that alone changes nothing."""
    in_pieces(monkeypatch)
    run_state_machine_as_test(EventRules, settings=settings(HUNT, max_examples=40))
