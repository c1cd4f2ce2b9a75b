"""A fresh base in place of all vectors of the paper's rules."""

from __future__ import annotations

import dataclasses
import warnings
from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.features import Embedding
from dygcn.engine.models import Outcome
from dygcn.engine.models.state import last_of_each
from dygcn.engine.records import Changed
from dygcn.errors import DriftWarning, DygcnError, FeatureError, OptionError
from dygcn.paper import bases
from dygcn.paper.health import rolled, take_anchor

if TYPE_CHECKING:
    from dygcn.engine.models import Model, State
    from dygcn.engine.records import Float32, IdColumn
    from dygcn.paper.options import Base, Watch
    from dygcn.paper.spec import RollingSpec


def check_base(model: Model, base: object) -> Embedding | None:
    """Return a base that a user brought; refuse one that a model cannot take."""
    if base is None:
        return None
    if not isinstance(base, Embedding):
        raise OptionError(f"base is a {type(base).__name__}; allowed is a dygcn.Embedding, or None")
    if base.ids.kind != model.ids or base.vectors.shape[1] != model.dim:
        raise FeatureError(
            f"the embedding has {base.ids.kind} ids and {base.vectors.shape[1]} columns; "
            f"this model has {model.ids} ids and dim {model.dim}"
        )
    return base


def adopt(state: State, ids: IdColumn, vectors: Float32, *, keep: bool = True) -> Outcome:
    """Put vectors in place of all that a state has.

    Nodes without one start as the aggregation of their neighbours.

    Parameters
    ----------
    keep
        Ids that are not in the graph come into it, and stay without an edge; if not, they are left out.
    """
    rule, graph = rolled(state), state.graph
    nodes = graph.intern(ids) if keep else graph.find(ids)
    vectors, nodes = vectors[nodes >= 0], nodes[nodes >= 0]
    nodes, last = last_of_each(nodes)
    vectors = vectors[last]
    if keep:
        state.transaction.set_own(nodes)
    everyone = graph.nodes()
    rule.restart(graph, nodes, vectors, np.setdiff1d(everyone, nodes))
    orders = np.zeros(len(everyone), np.int8)
    return Outcome(Changed(everyone, orders, len(everyone)), state.transaction.release(everyone[:0]))


def take_embedding(state: State, watch: Watch, base: Embedding) -> Outcome:
    """Put the user's own vectors in place of all others."""
    outcome = adopt(state, base.ids, base.vectors)
    take_anchor(state, watch)
    return outcome


def take_base(state: State, spec: RollingSpec, computed: Base, ids: IdColumn, vectors: Float32) -> Outcome:
    """Put the vectors of a base that was computed in place of all others."""
    outcome = adopt(state, ids, vectors, keep=False)
    state.model = dataclasses.replace(state.model, spec=dataclasses.replace(spec, base=computed))
    take_anchor(state, spec.watch)
    return outcome


def base_or_warning(state: State, base: Base) -> tuple[Base, IdColumn, Float32] | None:
    """Compute a base that is due; where none can be had (no torch, say) warn, and the update goes on."""
    try:
        return bases.fresh_vectors(state, base)
    except DygcnError as error:
        warnings.warn(f"a fresh base was due and could not be had: {error}", DriftWarning, stacklevel=6)
        return None


def renewed(
    state: State, spec: RollingSpec, base: tuple[Base, IdColumn, Float32], outcome: Outcome
) -> Outcome:
    """Take a base that was due, inside an update; return what both did."""
    fresh = take_base(state, spec, *base).moved
    return dataclasses.replace(
        outcome, moved=dataclasses.replace(fresh, rows=fresh.rows + outcome.moved.rows)
    )
