"""Checks of options: what was wrong, and what is allowed."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from dygcn.engine.events.columns import MOST_RELATIONS
from dygcn.errors import OptionError, shown

GREATEST_FLOAT = sys.float_info.max  # a whole number may be beyond it


def one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Raise an OptionError unless the value is one of the allowed ones."""
    if value not in allowed:
        raise OptionError(f"{name} is {shown(value)}; known: {', '.join(allowed)}")


def check_fields(of: object, **allowed: tuple[str, ...] | range) -> None:
    """Raise an OptionError unless each field named is one of some texts, or a whole number of a range."""
    for name, values in allowed.items():
        value = getattr(of, name)
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if isinstance(values, range) and not (whole and int(value) in values):
            least, most = values[0], values[-1]
            raise OptionError(f"{name} is {shown(value)}; allowed is a whole number from {least} to {most}")
        if isinstance(values, tuple) and value not in values:
            raise OptionError(f"{name} is {shown(value)}; known: {', '.join(values)}")


def number(name: str, value: object, low: float, high: float = math.inf) -> None:
    """Raise an OptionError unless the value is a finite number, above `low` and at most `high`."""
    if not isinstance(value, int | float | np.number) or not (low < value <= high and math.isfinite(value)):
        limit = "" if math.isinf(high) else f" and at most {high:g}"
        raise OptionError(f"{name} is {shown(value)}; allowed is a number above {low:g}{limit}")


def check_recipe(rule: str, recipe: object, wanted: type) -> None:
    """Raise an OptionError unless the recipe is None or one for the rule."""
    if recipe is not None and not isinstance(recipe, wanted):
        raise OptionError(f"recipe is a {type(recipe).__name__}; the rule {rule!r} takes a {wanted.__name__}")


def read_tolerance(value: object) -> float:
    """Return the largest unannounced move of a message; raise OptionError if it is no length."""
    if not isinstance(value, int | float) or not 0 <= value <= GREATEST_FLOAT:
        raise OptionError(f"tolerance is {shown(value)}; allowed is a finite number, 0 or more")
    return float(value)


def check_relation_weights(weights: Mapping[Any, Any]) -> dict[str, float]:
    """Return the weight of each relation, sorted by name; a number used as a name counts as text."""
    for name, weight in weights.items():
        if not isinstance(weight, int | float | np.number) or not math.isfinite(weight):
            raise OptionError(f"the relation {shown(name)} has weight {shown(weight)}; allowed is 0 or more")
        if weight < 0:
            raise OptionError(
                f"the relation {shown(name)} has weight {weight:g}; allowed is 0 or more: a negative weight "
                "would break the mean that a vector is. Trust and distrust are two relations, each with a "
                "weight of its own"
            )
    found = {str(name): float(weight) for name, weight in weights.items()}
    if not len(weights) == len(found) <= MOST_RELATIONS or not max(found.values(), default=0):
        raise OptionError(
            f"relation_weights is {shown(weights)}; allowed are up to {MOST_RELATIONS:,} different names, "
            'one of them at least with a weight above 0: {"view": 1, "buy": 4}'
        )
    return dict(sorted(found.items()))
