"""Groups of methods that are the paper's own: its rules, its bases, its close-ups. Needs torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from dygcn.paper import BaseRecipe, RollingRecipe
from dygcn_lab.experiments.cells import Record, rounded
from dygcn_lab.experiments.closeups import closeup_records, influence_records
from dygcn_lab.experiments.groups import Task
from dygcn_lab.experiments.long_run import long_run
from dygcn_lab.experiments.paper_rules import (
    DIM,
    RULES,
    Frames,
    Series,
    fit_rule,
    one_step,
    retrained,
    train_bases,
    unchanged,
)

ORDERS = (1, 2, 3, 4)  # of the paper's figure
# The paper trains the GCN on every snapshot.
PUBLISHED, STEADY = RollingRecipe(base=BaseRecipe(once=False)), RollingRecipe.steady()


def _frames(task: Task) -> Frames:
    return Frames.of(task.steps, task.labels)


def _recipe(task: Task, whole: RollingRecipe) -> RollingRecipe:
    """Return a recipe, cut down for a quick run."""
    if not task.quick:
        return whole
    base = dataclasses.replace(whole.base, epochs=5, warm=whole.base.warm and 2)
    return dataclasses.replace(whole, rounds=5, base=base)


def _paper(task: Task, recipe: RollingRecipe) -> dict[str, Record]:
    """GCN retrained, both rules one step from it, and both on their own output, beside doing nothing."""
    dim, orders = task.settings.get("dim", DIM), task.settings.get("orders", 2)
    trained = train_bases(_frames(task), _recipe(task, recipe), task.seed, dim, task.notify)
    models = {rule: fit_rule(rule, trained, orders, task.notify) for rule in RULES}
    found: dict[str, Series] = {"gcn": retrained(trained), "unchanged": unchanged(trained)}
    found |= {rule: one_step(model, trained) for rule, model in models.items()}
    found |= {f"{name}, long run": series for name, series in long_run(trained, models).items()}
    return {name: Record(rounded(series.figures)) for name, series in found.items()}


def _orders(task: Task) -> dict[str, Record]:
    """The rolling rule with every K, from the same bases."""
    trained = train_bases(_frames(task), _recipe(task, STEADY), task.seed, notify=task.notify)
    found = {}
    for orders in ORDERS:
        series = one_step(fit_rule("rolling", trained, orders, task.notify), trained)
        found[str(orders)] = Record(rounded(series.figures))
    return found


def _rolling(task: Task) -> dict[str, Record]:
    """The rolling rule alone, at another size of the vectors."""
    dim = task.settings.get("dim", DIM)
    trained = train_bases(_frames(task), _recipe(task, STEADY), task.seed, dim, task.notify)
    return {
        "rolling": Record(
            rounded(one_step(fit_rule("rolling", trained, notify=task.notify), trained).figures)
        )
    }


def _close_ups(task: Task) -> dict[str, Record]:
    return closeup_records(_frames(task), _recipe(task, STEADY), task.seed, task.notify)


GROUPS: dict[str, Callable[[Task], dict[str, Record]]] = {
    "paper-published": lambda task: _paper(task, PUBLISHED),
    "paper-steady": lambda task: _paper(task, STEADY),
    "paper-orders": _orders,
    "paper-rolling": _rolling,
    "influence": lambda task: influence_records(_frames(task)),
    "close-ups": _close_ups,
}
