"""Settings of a recommender, chosen on a part of what it may see, as ours holds it out, within one budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dygcn.engine.training.samples import last_events, some_pairs
from dygcn_lab.evaluation.recommending import Question, ask

SETTINGS = 41  # that may be tried: two rounds over a grid of the size of ours
_USERS, _SEED, _ROUNDS = 2_000, 0, 2
_MOOT = {"trend_half_life": "trend"}  # without the second, the first changes nothing


def held_out(question: Question) -> Question:
    """Return a question about what is held out of what is fitted: by the rules of ours."""
    events = question.fitted
    if events.t is None:
        held = some_pairs(events.user, events.item + events.users, np.random.default_rng(_SEED))
    else:
        held = last_events(events.user, events.t)
    seen, later = events.part(~held), events.part(held)
    known = np.bincount(seen.item, minlength=seen.items) > 0
    found = ask(question.name, seen, seen, later, question.k, known)
    users, truth = found.users[-_USERS:], found.truth[-_USERS:]
    return Question(found.name, seen, seen, users, truth, found.k, question.official)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The best settings that were tried, and how many were."""

    settings: dict[str, Any]
    value: float
    tried: int


def choose(
    start: Mapping[str, Any],
    grid: Mapping[str, tuple[Any, ...]],
    value: Callable[[dict[str, Any]], float],
    most: int = SETTINGS,
) -> Chosen:
    """Search along one setting after another, two rounds, and try so many settings at most."""
    best, tried = dict(start), {tuple(start.items()): value(dict(start))}
    for name in list(grid) * _ROUNDS:
        for option in grid[name] if best.get(_MOOT.get(name, ""), True) else ():
            other = best | {name: option}
            if tuple(other.items()) in tried or len(tried) >= most:
                continue
            found = tried[tuple(other.items())] = value(other)
            if found > tried[tuple(best.items())] + 1e-6:
                best = other
    return Chosen(best, tried[tuple(best.items())], len(tried))
