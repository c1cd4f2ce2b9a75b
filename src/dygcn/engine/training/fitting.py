"""Fitting the exact rule: of whatever its features are made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dygcn.engine.models import RULES
from dygcn.engine.models.checks import check_recipe
from dygcn.engine.training.beside import read_beside
from dygcn.engine.training.fitting_exact import fit_exact
from dygcn.engine.training.fitting_walks import fit_walks
from dygcn.engine.training.matrices import Recipe
from dygcn.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dygcn.engine.models import State
    from dygcn.engine.models.choices import Choices
    from dygcn.engine.records import EventBatch
    from dygcn.engine.training.samples import Progress


def check(choices: Choices) -> None:
    """Refuse options that belong to another rule."""
    for name in ("base", "labels"):
        if getattr(choices, name) is not None:
            others = " and ".join(repr(rule) for rule in RULES if rule != choices.rule)
            raise OptionError(f"{name}= is for the rules {others}; the rule is {choices.rule!r}")
    check_recipe(choices.rule, choices.recipe, Recipe)


def fit(
    batch: EventBatch, parts: Sequence[EventBatch], choices: Choices, progress: Progress | None = None
) -> State:
    """Return the fitted state, all events played."""
    recipe = choices.recipe if isinstance(choices.recipe, Recipe) else Recipe()
    features = choices.features
    if isinstance(features, list):
        beside = read_beside(features, choices.ids or batch.src.kind, int(choices.dim), int(choices.seed))
        return fit_walks(batch, parts, choices, recipe, progress, beside)
    if isinstance(features, str) and features == "walks":
        return fit_walks(batch, parts, choices, recipe, progress)
    if choices.recommend is True:
        raise OptionError(
            f"recommend=True stands beside features='walks', the default, or ['walks', x]; features are "
            f"{features if isinstance(features, str) else 'a table'!r}: leave one of them out"
        )
    return fit_exact(batch, parts, choices, features, recipe, progress)


def steady_recipe() -> None:
    """Return nothing: the rule never drifts."""
