"""Changes that are no events: each is read and checked first, and written when what is returned is called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dygcn._late import late
from dygcn.engine.events import read_events
from dygcn.engine.features import CANNOT_BE_SET, Embedding, read_features
from dygcn.engine.models import Outcome, State
from dygcn.errors import FeatureError
from dygcn.live.finding import many_ids

if TYPE_CHECKING:
    from dygcn.engine.training import bases
    from dygcn.live import fresh_base
else:  # these bring all of training, and most who load an embedding never fit one
    fresh_base, bases = late("dygcn.live.fresh_base"), late("dygcn.engine.training.bases")

Write: TypeAlias = Callable[[], Outcome]


class Loading:
    """A bulk load. The part that ended it early, if one did, is told by `end`: the parts before it stay."""

    def __init__(self, state: State, parts: Iterable[object], columns: Sequence[str] | None) -> None:
        _ = state.exact  # the paper's rules cannot
        self._state = state
        self._batches = (read_events(part, state.model.kind, columns) for part in parts)
        self._failure: Exception | None = None

    def __call__(self) -> Outcome:
        """Load all parts."""
        outcome, self._failure = self._state.bulk(self._batches)
        return outcome

    def end(self) -> None:
        """Raise the error of the bad part."""
        if self._failure is not None:
            raise self._failure


def features(state: State, ids: object, values: object) -> Write:
    """Read features of nodes' own."""
    if state.model.features in CANNOT_BE_SET:
        raise FeatureError(CANNOT_BE_SET[state.model.features])
    _ = state.exact  # the paper's rules have none
    column, matrix = read_features((ids, values))
    if matrix.shape[1] != state.model.width:
        raise FeatureError(f"values have {matrix.shape[1]} columns; this model has width {state.model.width}")
    return partial(state.set_features, column, matrix)


def removal(state: State, ids: object) -> Write:
    """Find nodes that are to be removed; ids that are not in the graph are counted."""
    column = many_ids(ids)
    nodes = state.graph.find(column) if len(column) else np.empty(0, np.int32)
    known = nodes[nodes >= 0]

    def remove() -> Outcome:
        outcome = state.remove(known)
        outcome.missing = len(nodes) - len(known)
        return outcome

    return remove


def base(state: State, given: Embedding | None) -> Write:
    """Check a base of the user's own, or compute the one that was fitted on the graph as it is now."""
    fresh_base.check_base(state.model, given)
    if given is not None:
        return partial(fresh_base.take_embedding, state, given)
    return partial(fresh_base.take_base, state, *bases.fresh_vectors(state))
