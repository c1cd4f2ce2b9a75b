"""Checks of options: what was wrong, and what is allowed."""

from __future__ import annotations

import math

import numpy as np

from dygcn.errors import OptionError


def one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Raise an OptionError unless the value is one of the allowed ones."""
    if value not in allowed:
        raise OptionError(f"{name} is {value!r}; known: {', '.join(allowed)}")


def whole(name: str, value: object, least: int, most: int = 1_000_000_000) -> None:
    """Raise an OptionError unless the value is a whole number in this range."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not least <= value <= most:
        raise OptionError(f"{name} is {value!r}; allowed is a whole number from {least} to {most}")


def number(name: str, value: object, low: float, high: float = math.inf) -> None:
    """Raise an OptionError unless the value is a finite number, above `low` and at most `high`."""
    if not isinstance(value, int | float | np.number) or not (low < value <= high and math.isfinite(value)):
        limit = "" if math.isinf(high) else f" and at most {high:g}"
        raise OptionError(f"{name} is {value!r}; allowed is a number above {low:g}{limit}")


def check_recipe(rule: str, recipe: object, wanted: type) -> None:
    """Raise an OptionError unless the recipe is one for the rule, or None."""
    if recipe is not None and not isinstance(recipe, wanted):
        raise OptionError(f"recipe is a {type(recipe).__name__}; the rule {rule!r} takes a {wanted.__name__}")


def read_tolerance(value: object) -> float:
    """Return how long a change may be that is withheld; an OptionError if the value is no such length."""
    if not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise OptionError(f"tolerance is {value!r}; allowed is a finite number, 0 or more")
    return float(value)
