"""A fresh base in place of all vectors of the paper's rules."""

from __future__ import annotations

import dataclasses
import warnings
from typing import TYPE_CHECKING

from dygcn.engine.features import Embedding
from dygcn.engine.training import bases
from dygcn.errors import DriftWarning, DygcnError, FeatureError, OptionError
from dygcn.live.health import take_anchor

if TYPE_CHECKING:
    from dygcn.engine.models import Base, Model, Outcome, State
    from dygcn.engine.records import Float32, IdColumn


def check_base(model: Model, base: object) -> None:
    """Refuse a base that a model cannot take."""
    if model.paper is None:
        raise OptionError("the exact rule never drifts, so it has nothing to restart")
    if base is None:
        return
    if not isinstance(base, Embedding):
        raise OptionError(f"base is a {type(base).__name__}; allowed is a dygcn.Embedding, or None")
    if base.ids.kind != model.kind or base.vectors.shape[1] != model.dim:
        raise FeatureError(
            f"the embedding has {base.ids.kind} ids and {base.vectors.shape[1]} columns; "
            f"this model has {model.kind} ids and dim {model.dim}"
        )


def take_embedding(state: State, base: Embedding) -> Outcome:
    """Put the user's own vectors in place of all others."""
    outcome = state.adopt(base.ids, base.vectors)
    take_anchor(state)
    return outcome


def take_base(state: State, computed: Base, ids: IdColumn, vectors: Float32) -> Outcome:
    """Put the vectors of a base that was computed in place of all others."""
    outcome = state.adopt(ids, vectors, keep=False)
    assert state.model.paper is not None
    paper = dataclasses.replace(state.model.paper, base=computed)
    state.model = dataclasses.replace(state.model, paper=paper)
    take_anchor(state)
    return outcome


def base_or_warning(state: State) -> tuple[Base, IdColumn, Float32] | None:
    """Compute a base that is due; where none can be had (no torch, say) warn, and the update goes on."""
    try:
        return bases.fresh_vectors(state)
    except DygcnError as error:
        warnings.warn(f"a fresh base was due and could not be had: {error}", DriftWarning, stacklevel=5)
        return None


def renewed(state: State, base: tuple[Base, IdColumn, Float32], outcome: Outcome) -> Outcome:
    """Take a base that was due, inside an update; return what both did."""
    fresh = take_base(state, *base).moved
    return dataclasses.replace(
        outcome, moved=dataclasses.replace(fresh, rows=fresh.rows + outcome.moved.rows)
    )
