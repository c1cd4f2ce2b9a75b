"""Seeded bugs: each one must be caught by the state machine, or the state machine proves nothing."""

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from dygcn.graph import Graph, Memory
from dygcn.live import LiveEmbedding
from dygcn.propagation import ExactRule
from tests.live.test_changes import test_ids_of_an_old_change_survive_recycling_without_having_been_read
from tests.live.test_event_rules import EventRules, EventRulesWithMemory

HUNT = settings(
    max_examples=200,
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
    whole = Graph.apply

    def apply(self, batch, now=None):
        delta = whole(self, batch, now)
        net = np.zeros(self.ids.high, np.int64)
        np.add.at(net, delta.receiver, delta.new.astype(np.int64) - delta.old)
        kept = net[delta.receiver] != 0
        arcs = {name: getattr(delta, name)[kept] for name in ("receiver", "sender", "old", "new")}
        return dataclasses.replace(delta, **arcs)

    monkeypatch.setattr(Graph, "apply", apply)


def old_messages_are_taken_too_late(monkeypatch):
    """The old message of a changed arc's sender, read after the sums of its order were written."""
    whole = ExactRule._add_up

    def add_up(self, order, receivers, grouped, table, has, out):
        result = whole(self, order, receivers, grouped, table, has, out)
        if out.base is not None and order < self.orders:
            self._write_messages(self.structural, order, out.base, np.empty(len(out.base), np.int64))
        return result

    def features_changed(self, graph, structural, features):
        self.structural = structural
        return first(self, graph, structural, features)

    first = ExactRule._features_changed
    monkeypatch.setattr(ExactRule, "_features_changed", features_changed)
    monkeypatch.setattr(ExactRule, "_add_up", add_up)


def last_order_is_not_reported(monkeypatch):
    whole = ExactRule._add_up

    def add_up(self, order, *rest):
        moved, has = whole(self, order, *rest)
        return (moved[:0], has[:0]) if order == self.orders else (moved, has)

    monkeypatch.setattr(ExactRule, "_add_up", add_up)


def nodes_are_never_recycled(monkeypatch):
    monkeypatch.setattr(Graph, "release", lambda self, nodes: None)


def changes_look_up_their_ids_too_late(monkeypatch):
    monkeypatch.setattr(LiveEmbedding, "_settle_latest", lambda self: None)


def weights_are_not_checked(monkeypatch):
    def on_grid(self, batch):
        weight = np.ones(len(batch)) if batch.weight is None else batch.weight
        return np.rint(np.clip(weight / self.grid, 0, 2**31 - 1)).astype(np.int32)

    monkeypatch.setattr(Graph, "_on_grid", on_grid)


def ghosts_never_age(monkeypatch):
    none = np.empty(0, np.int32)
    monkeypatch.setattr(Memory, "take_due", lambda self, clock: (none, none))


def removed_nodes_leave_ghosts(monkeypatch):
    monkeypatch.setattr(Memory, "remember", lambda self, a, b, weight, t: None)


MUTANTS = [
    (signed_sum_decides_who_is_touched, EventRules),
    (old_messages_are_taken_too_late, EventRules),
    (last_order_is_not_reported, EventRules),
    (nodes_are_never_recycled, EventRules),
    (weights_are_not_checked, EventRules),
    (ghosts_never_age, EventRulesWithMemory),
    (removed_nodes_leave_ghosts, EventRulesWithMemory),
]


def test_ids_that_are_looked_up_too_late_are_caught(monkeypatch):
    changes_look_up_their_ids_too_late(monkeypatch)
    with pytest.raises(AssertionError):
        test_ids_of_an_old_change_survive_recycling_without_having_been_read()


@pytest.mark.parametrize(("mutant", "machine"), MUTANTS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_seeded_bug_is_caught(mutant, machine, monkeypatch):
    mutant(monkeypatch)
    with pytest.raises((Exception, pytest.fail.Exception)):
        run_state_machine_as_test(machine, settings=HUNT)
