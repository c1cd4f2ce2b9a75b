"""What a cell runs: groups of methods that share work, each giving one record for every method in it."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from typing import Any

import msgspec

from dygcn._extras import extra
from dygcn._progress import Notify
from dygcn.datasets import load
from dygcn.engine.records import Int64
from dygcn.engine.training import Recipe
from dygcn.errors import OptionError
from dygcn_lab.baselines import BASELINES
from dygcn_lab.evaluation import Method, judge_method
from dygcn_lab.evaluation.seen import shares
from dygcn_lab.evaluation.steps import Steps, steps_of
from dygcn_lab.experiments import score_groups, walk_groups
from dygcn_lab.experiments.cells import Cell, Record, rounded
from dygcn_lab.experiments.ours import (
    WIDTHS,
    DoNothing,
    Exact,
    FixedWeights,
    Retrained,
    SharedFit,
    choose,
    choose_memory,
)

DIM = 100  # the paper's
FEATURES = "hashed"  # of every group of ours here, whatever the default of `fit` is
TRIVIAL = (  # rows that learn nothing, under the harder questions
    *("edgebank", "edgebank-window", "edgebank-recency", "popularity", "degree-contact"),
    *("common-neighbours", "resource-allocation", "degree-product"),
)
OF_THE_PAPER = ("paper-published", "paper-steady", "paper-orders", "paper-rolling", "influence", "close-ups")
QUICK = {"gcn": {"epochs": 5}, "graphsage": {"steps": 10}, "dne": {"epochs": 2}, "dynwalks": {"walks": 1}}
_HALF_LIVES: dict[tuple[str, int, int], float | None] = {}  # chosen once, used for every seed
# What a user may ask for: group and record.
METHODS = {
    **{name: ("ours", name) for name in ("exact", "do-nothing", "fixed-weights")},
    "retrained": ("retrained", "retrained"),
    "rolling": ("paper-steady", "rolling"),
    "spectral": ("paper-steady", "spectral"),
    "rolling-as-published": ("paper-published", "rolling"),
    "spectral-as-published": ("paper-published", "spectral"),
    **{name: (name, name) for name in BASELINES},
}


@dataclasses.dataclass(frozen=True)
class Task:
    """A cell with its data at hand."""

    dataset: str
    steps: Steps
    labels: Int64 | None
    seed: int
    quick: bool
    settings: dict[str, Any]
    notify: Notify

    def judge(self, method: Method) -> Record:
        """Judge a method on the data."""
        steps = self.steps
        figures, seconds = judge_method(
            method,
            steps.moments,
            steps.nodes,
            steps.fitted,
            seed=self.seed,
            labels=self.labels,
            progress=self.notify,
        )
        return Record(rounded(figures), seconds)

    def options(self) -> dict[str, Any]:
        """Return options of `fit`; the half-life of removed edges is chosen on the fitted half alone."""
        rounds = 5 if self.quick else Recipe().rounds
        options = {"dim": DIM, "recipe": Recipe(rounds=rounds), "features": FEATURES, **self.settings}
        if "memory" not in options:
            options["memory"] = self._half_life(rounds, options["dim"])
        if options.get("width") == "chosen":
            fitted = self.steps.moments[: self.steps.fitted + 1]
            rest = {name: options[name] for name in ("dim", "memory", "features")}
            recipe = Recipe(rounds=rounds, held_out=0.0)
            widths = WIDTHS[:2] if self.quick else WIDTHS
            options["width"] = choose(fitted, self.steps.nodes, recipe, "width", widths, **rest)
        return options

    def baseline_options(self, name: str) -> dict[str, Any]:
        """Return options of a baseline, cut down for a quick run."""
        return {**self.settings, **(QUICK.get(name, {}) if self.quick else {})}

    def _half_life(self, rounds: int, dim: int) -> float | None:
        key = (self.dataset, rounds, dim)
        if key not in _HALF_LIVES:
            fitted = self.steps.moments[: self.steps.fitted + 1]
            _HALF_LIVES[key] = choose_memory(fitted, self.steps.nodes, rounds, dim=dim, features=FEATURES)
        return _HALF_LIVES[key]


def run_cell(cell: Cell, notify: Notify) -> dict[str, Record]:
    """Run a cell. Quick: the first eight steps, half of them fitted on, and little training."""
    groups: dict[str, Callable[[Task], dict[str, Record]]] = {
        "ours": _ours,
        "retrained": _retrained,
        "hashed": _hashed,
        "trivial": _trivial,
        "shares": _shares,
        "walks": walk_groups.walks,
        "freshness": walk_groups.freshness,
        "row-bits": walk_groups.row_bits,
        "cores": walk_groups.cores,
        "score": score_groups.score,
        "parts": score_groups.parts,
        "recall": score_groups.recall,
        **{f"headed-{name}": score_groups.headed(name) for name in score_groups.HEADED},
        **{name: _of_the_paper(name) for name in OF_THE_PAPER},
        **{name: _baseline(name) for name in BASELINES},
    }
    if cell.group not in groups:
        raise OptionError(f"{cell.group!r} is no group of methods; there are: {', '.join(groups)}")
    settings = dict(cell.settings)
    if cell.group in BASELINES and "orders" in settings:
        raise OptionError(f"{cell.group} has no orders; leave it out")
    dataset = load(cell.dataset)
    steps = steps_of(dataset)
    quick = bool(settings.pop("quick", False))
    if quick:
        steps = dataclasses.replace(steps.part(0, 7), fitted=4)
    labels = None if dataset.labels is None else dataset.labels[: steps.nodes]
    return groups[cell.group](Task(cell.dataset, steps, labels, cell.seed, quick, settings, notify))


def _baseline(name: str) -> Callable[[Task], dict[str, Record]]:
    def run(task: Task) -> dict[str, Record]:
        return {name: task.judge(BASELINES[name].factory(task.seed, **task.baseline_options(name)))}

    return run


def _of_the_paper(name: str) -> Callable[[Task], dict[str, Record]]:
    def run(task: Task) -> dict[str, Record]:
        with extra("evidence", of="dygcn-lab"):  # torch is imported here, and only here
            module = importlib.import_module("dygcn_lab.experiments.paper_groups")
        records: dict[str, Record] = module.GROUPS[name](task)
        return records

    return run


def _ours(task: Task) -> dict[str, Record]:
    options = task.options()
    fitting = SharedFit(task.seed, **options)
    methods: dict[str, Method] = {
        "exact": Exact(fitting),
        "do-nothing": DoNothing(fitting),
        "fixed-weights": FixedWeights(fitting),
    }
    found = {name: task.judge(method) for name, method in methods.items()}
    shared = {
        "notes": {name: options.get(name) for name in ("memory", "width")},
        "fit_seconds": found["exact"].fit_seconds,
    }
    return {name: msgspec.structs.replace(record, **shared) for name, record in found.items()}


def _hashed(task: Task) -> dict[str, Record]:
    """The exact rule over hashed features, and doing nothing, under all questions that there are."""
    options = task.options()
    fitting = SharedFit(task.seed, **options)
    methods: dict[str, Method] = {"hashed": Exact(fitting), "hashed-do-nothing": DoNothing(fitting)}
    notes = {"memory": options["memory"]}
    found = {name: task.judge(method) for name, method in methods.items()}
    return {name: msgspec.structs.replace(record, notes=notes) for name, record in found.items()}


def _trivial(task: Task) -> dict[str, Record]:
    """Baselines that learn nothing, under all questions that there are; they draw nothing either."""
    return {name: task.judge(BASELINES[name].factory(task.seed)) for name in TRIVIAL}


def _shares(task: Task) -> dict[str, Record]:
    """No method: how much of what is asked for was there before."""
    return {"shares": Record(rounded(shares(task.steps, task.labels)))}


def _retrained(task: Task) -> dict[str, Record]:
    """Its cosine is what is compared, so no score is learned, which would take twice the time."""
    options = task.options()
    recipe = dataclasses.replace(options.pop("recipe"), held_out=0.0)
    return {"retrained": task.judge(Retrained(task.seed, recipe=recipe, **options))}
