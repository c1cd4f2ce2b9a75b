"""The options of `fit`, checked once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, Protocol, cast

import numpy as np

from dygcn.engine.events import rows_of, take
from dygcn.engine.graph.ids import IdMap
from dygcn.engine.models.checks import GREATEST_FLOAT, check_fields
from dygcn.engine.models.model import find_spec, rule_names
from dygcn.engine.models.state import State
from dygcn.engine.records import Bool, EventBatch, Float64, Progress
from dygcn.errors import EventError, OptionError, shown

GREATEST_ORDERS = 16
_COLUMNS = range(1, (1 << 14) + 1)
_HALF_LIFE = (
    "a half-life above 0 in units of t, or None; if t is a date: seconds, or datetime.timedelta(days=7)"
)
_TIME = (
    'a time above 0 in units of t, or None; if t is a date: seconds, text as in "90d", "12h", "30m", "45s", '
    '"2w", or datetime.timedelta(days=90)'
)
LEAST_UNIT, GREATEST_UNIT = 1e-100, 1e100
_EXPONENT = 900  # of weights: then the grid's own exponent is below 1000, which a saved model can have


@dataclass(frozen=True)
class Choices:
    """Options of `dygcn.fit`; from `features` to `recipe` they are not for every rule."""

    dim: int
    orders: int
    rule: str
    memory: float | None
    seed: int
    width: int
    directed: bool
    features: object = "walks"
    base: object = None
    labels: object = None
    recipe: object = None
    whole_weights: bool = False
    ids: str | None = None
    relations: Mapping[str, float] = field(default_factory=dict)
    recommend: bool | str = "auto"
    expire: float | None = None

    def __post_init__(self) -> None:
        check_fields(self, rule=rule_names(), dim=_COLUMNS, orders=range(1, GREATEST_ORDERS + 1))
        check_fields(self, width=_COLUMNS, seed=range(2**63))
        memory, expire = self.memory, self.expire
        for name, value, allowed in (("memory", memory, _HALF_LIFE), ("expire", expire, _TIME)):
            length = isinstance(value, int | float | np.number) and 0 < value <= GREATEST_FLOAT
            if value is not None and not length:
                raise OptionError(f"{name} is {shown(value)}; allowed is {allowed}")
        if expire is not None and self.rule != "exact":
            raise OptionError(f"expire= is for rule='exact'; the rule is {self.rule!r}: leave out expire=")
        if expire is not None and memory is not None:
            raise OptionError(
                "expire= does not go with memory=: with a memory, a removal is the last contact of its "
                "pair, and an edge that is added again would leave at another time; leave out one of them"
            )
        if self.whole_weights and memory is not None:
            raise OptionError(
                "whole_weights=True does not go with memory=: what is left of a removed edge is a part of "
                "its weight, and no whole number; leave out one of them"
            )
        if self.recommend not in ("auto", True, False):
            raise OptionError(f"recommend is {self.recommend!r:.60}; allowed are 'auto', True and False")
        if self.recommend is True and self.rule != "exact":
            raise OptionError(f"recommend=True is for rule='exact'; the rule is {self.rule!r}: leave it out")
        if self.recommend is True and self.directed:
            raise OptionError(
                "recommend=True is for graphs without direction: leave out directed=, or recommend="
            )
        find_fitting(self.rule).check(self)


@dataclass(frozen=True, slots=True)
class FitTask:
    """What a rule is fitted on: events, their training steps, and options."""

    batch: EventBatch
    parts: Sequence[EventBatch]
    choices: Choices
    progress: Progress | None = None

    def settings(self, message_bits: int) -> dict[str, Any]:
        """Return the settings of a model that follow from options, events and training steps."""
        choices, unit = self.choices, time_unit(self.parts) or self.choices.expire
        batch, column, relations = self.batch, self.batch.relation, choices.relations
        if column is not None and any(relations[name] != 1 for name in column.names):
            weight = np.array([relations[name] for name in column.names])[column.codes]
            weight = weight if batch.weight is None else weight * batch.weight
            rows = np.flatnonzero(weight > 0)  # an event of weight 0 adds no edge
            batch = replace(rows_of(batch, rows), weight=weight[rows])
        if unit is not None and not LEAST_UNIT < unit < GREATEST_UNIT:  # a saved model cannot store it
            raise EventError(
                f"training steps are {unit:g} long in units of t; allowed is from {LEAST_UNIT:g} to "
                f"{GREATEST_UNIT:g}: give t in another unit"
            )
        return {
            "ids": choices.ids or self.batch.src.kind,
            "seed": int(choices.seed),
            "directed": bool(choices.directed),
            "grid": weight_grid(batch, message_bits, choices.whole_weights),
            "half_life": choices.memory and float(choices.memory),
            "unit": unit,
            "expire": choices.expire,
            "whole": choices.whole_weights,
            "relations": choices.relations,
        }


class Fitting(Protocol):
    """A module that fits a rule."""

    def check(self, choices: Choices) -> None:
        """Raise an OptionError for an option that belongs to another rule."""

    def fit(self, task: FitTask) -> State:
        """Return the fitted state after all events."""

    def steady_recipe(self) -> object | None:
        """Return a recipe with the options that keep the rule stable; None: it needs none."""


def find_fitting(name: str) -> Fitting:
    """Return the module that fits a rule."""
    return cast("Fitting", import_module(find_spec(name).fitting))


def ids_of(batch: EventBatch) -> IdMap:
    """Return every id in the events."""
    ids = IdMap(batch.src.kind)
    for column in (batch.src, batch.dst):
        ids.intern(column)
    return ids


def weight_grid(batch: EventBatch, message_bits: int, whole: bool = False) -> float:
    """Return the grid of the weights: as fine as sums below 2^62 allow, with room to grow.

    Without weights a node may have 2^22 neighbours. With weights, it may carry 64 times what any node does
    in these events, and 2^18 times the median; the grid is 2^-24 of the median at the finest. Whole weights
    have the grid one, and a node may have 2^38 neighbours (2^36 with features that are given).
    """
    carried = 62 - message_bits  # bits of a node's weights in sum, in grid units
    adds = batch.op > 0
    if whole:
        if batch.weight is not None:
            _refuse(
                adds & (np.rint(batch.weight) != batch.weight),
                batch.weight,
                "with whole_weights=True every weight is a whole number from 1: round the weights, or leave "
                "whole_weights out",
            )
        return 1.0
    if batch.weight is None or not adds.any():
        return float(2.0 ** (22 - carried))
    weight = batch.weight[adds]
    _refuse(
        adds & ((batch.weight < 2.0**-_EXPONENT) | (batch.weight > 2.0**_EXPONENT)),
        batch.weight,
        f"allowed is {2.0**-_EXPONENT:.1g} to {2.0**_EXPONENT:.1g}: scale all weights alike, and the vectors "
        "stay the same",
    )
    median = np.median(weight)
    most = max(64 * _greatest_strength(batch, weight), 2.0**18 * median)
    return float(2.0 ** np.ceil(max(np.log2(most) - carried, np.log2(median) - 24)))


def _refuse(broken: Bool, weight: Float64, says: str) -> None:
    if broken.any():
        row = int(broken.argmax())
        raise EventError(f"weight is {weight[row]:g}; {says}", row)


def time_unit(steps: Sequence[EventBatch]) -> float | None:
    """Return the median length of a training step; None without times, or where all times are equal."""
    lengths = np.diff([float(step.t.max()) for step in steps if step.t is not None and len(step)])
    lengths = lengths[lengths > 0]
    return float(np.median(lengths)) if len(lengths) else None


def _greatest_strength(batch: EventBatch, weight: Float64) -> float:
    """Return the greatest sum of weights at a node, if nothing were ever removed or replaced."""
    ids, adds = IdMap(batch.src.kind), np.flatnonzero(batch.op > 0)
    ends = np.concatenate([ids.intern(take(column, adds)) for column in (batch.src, batch.dst)])
    return float(np.bincount(ends, np.concatenate((weight, weight))).max())
