"""The specifications of the paper's rules: settings, saved tensors, fresh bases, and checks after updates."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Self

import msgspec
import numpy as np

from dygcn.engine.events.keys import salted
from dygcn.engine.features.inputs import Features
from dygcn.engine.features.tables import Embedding
from dygcn.engine.measures import auc
from dygcn.engine.models.checks import one_of
from dygcn.engine.models.contracts import Outcome
from dygcn.engine.models.folder import Tensors, take_tensor
from dygcn.engine.models.links import norms, pair_cosines
from dygcn.engine.models.model import Model, RuleSpec, register
from dygcn.engine.models.state import State, last_of_each
from dygcn.engine.records import Changed, Float32, Float64, IdColumn, Nodes
from dygcn.errors import DriftWarning, FeatureError, NormBandWarning, OptionError
from dygcn.paper import bases
from dygcn.paper.options import BASES, Base, BaseRecipe, Watch, check_shapes
from dygcn.paper.plans import RuleOptions
from dygcn.paper.rolling import RollingRule, SpectralRule

_BASE = "base."
_SAMPLE, _AT_LEAST = 1000, 30  # links; an AUC of fewer says nothing
_NEGATIVES = 5  # for each link


class Saved(msgspec.Struct, forbid_unknown_fields=True):
    """The settings of these rules in a manifest."""

    options: RuleOptions
    base: str
    recipe: BaseRecipe
    watch: Watch


@register
@dataclass(frozen=True, eq=False)
class RollingSpec(RuleSpec):
    """Algorithm 1: how it aggregates, the origin of the first vectors, and the checks."""

    name = "rolling"
    fitting = "dygcn.paper.fitting"
    from_graph = False
    nodes_stay = True
    drifts = True
    features = ("none",)
    rule_class: ClassVar[type[RollingRule]] = RollingRule

    options: RuleOptions = field(default_factory=RuleOptions)
    base: Base = field(default_factory=Base)
    watch: Watch = field(default_factory=Watch)

    def __post_init__(self) -> None:
        one_of("base", self.base.name, BASES)

    def new_rule(self, weights: Sequence[Float32], features: Features) -> RollingRule:
        """Return the vectors of an empty graph; the rule has no features."""
        return self.rule_class(weights, self.options)

    def settings(self) -> dict[str, Any]:
        """Return all settings except the base's tensors."""
        saved: dict[str, Any] = msgspec.to_builtins(
            Saved(self.options, self.base.name, self.base.recipe, self.watch)
        )
        return saved

    def tensors(self) -> Tensors:
        """Return the tensors of the base."""
        return {_BASE + name: tensor for name, tensor in self.base.tensors.items()}

    @classmethod
    def read(cls, settings: object, tensors: Tensors, orders: int, shape: tuple[int, int]) -> Self:
        """Restore a spec, fully checked: the loops that use a base do not check."""
        width, dim = shape
        saved = msgspec.convert(settings, Saved)
        names = [name for name in tensors if name.startswith(_BASE)]
        found = {name.removeprefix(_BASE): np.ascontiguousarray(tensors.pop(name)) for name in names}
        for name, tensor in found.items():
            if tensor.dtype != np.float32 or not np.isfinite(tensor).all():
                raise ValueError(f"tensor {_BASE + name!r} of another type, or with NaN or infinite values")
        base = Base(saved.base, saved.recipe, found)
        check_shapes(base, dim)
        if width != dim:
            raise ValueError("matrices that do not fit the rule")
        return cls(saved.options, base, saved.watch)

    def read_state(self, tensors: Tensors, nodes: int, owners: int, dim: int, features: Features) -> Tensors:
        """Load every vector, and the statistics at the last base."""
        vectors = take_tensor(tensors, "vectors", np.float32, 2)
        anchor = take_tensor(tensors, "anchor", np.float64)
        if vectors.shape != (nodes, dim) or not np.isfinite(vectors).all():
            raise ValueError("vectors that do not fit the nodes, or hold NaN or infinite values")
        if anchor.shape != (3,) or not (
            np.isfinite(anchor).all() and anchor[0] >= 0 and -1 <= anchor[1] <= 1
        ):
            raise ValueError("an anchor that is not a length, an AUC and a count")
        return {"vectors": vectors, "anchor": anchor}

    def after_update(self, state: State, version: int) -> None:
        """Count an update; when a check is due, warn if the vectors explode, collapse or drift."""
        rule = rolled(state)
        rule.anchor[2] += 1
        if rule.anchor[2] % self.watch.every == 0:
            if self.watch.links is not None:
                _check_links(state, rule, self.watch.links, version)
            if self.watch.band is not None:
                _check_lengths(state, rule, self.watch.band, version)

    def restart(self, state: State, base: object) -> Callable[[], Outcome]:
        """Prepare the user's base, or recompute the fitted kind of base on the current graph."""
        if base is not None:
            return partial(_install, state, None, *_checked_base(state.model, base))
        return partial(_install, state, *bases.fresh_vectors(state, self.base))

    def describe(self) -> dict[str, str]:
        """Return the base, and how messages are aggregated."""
        options = self.options
        return {"base": self.base.name, "aggregation": options.aggregation, "activation": options.activation}


@register
class SpectralSpec(RollingSpec):
    """Algorithm 2, with one more matrix for the pass over the whole graph."""

    name = "spectral"
    more_weights = ("Ws",)
    rule_class = SpectralRule

    @classmethod
    def read(cls, settings: object, tensors: Tensors, orders: int, shape: tuple[int, int]) -> Self:
        """Restore a spec; only the first order is computed from the change itself."""
        if orders != 1:
            raise ValueError("matrices that do not fit the rule")
        return super().read(settings, tensors, orders, shape)


def with_base(model: Model, base: Base) -> Model:
    """Return a model of one of these rules with another base."""
    assert isinstance(model.spec, RollingSpec)
    return dataclasses.replace(model, spec=dataclasses.replace(model.spec, base=base))


# ---- a fresh base ------------------------------------------------------------------------------------------


def _checked_base(model: Model, base: object) -> tuple[IdColumn, Float32]:
    """Return ids and vectors of the user's base; raise if the model cannot use it."""
    if not isinstance(base, Embedding):
        raise OptionError(f"base is a {type(base).__name__}; allowed is a dygcn.Embedding, or None")
    if base.ids.kind != model.ids or base.vectors.shape[1] != model.dim:
        raise FeatureError(
            f"the embedding has {base.ids.kind} ids and {base.vectors.shape[1]} columns; "
            f"this model has {model.ids} ids and dim {model.dim}"
        )
    return base.ids, base.vectors


def adopt(state: State, ids: IdColumn, vectors: Float32, *, keep: bool = True) -> Outcome:
    """Replace all vectors of a state; nodes without one start as the aggregation of their neighbours.

    `keep`: ids that are not in the graph come into it, and stay without an edge; if not, they are left out.
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


def _install(state: State, computed: Base | None, ids: IdColumn, vectors: Float32) -> Outcome:
    """Replace all vectors by those of a computed base, or of the user's: its ids come into the graph."""
    outcome = adopt(state, ids, vectors, keep=computed is None)
    if computed is not None:
        state.model = with_base(state.model, computed)
    take_anchor(state)
    return outcome


# ---- health: a norm band and a sampled AUC, off by default, not in the paper -------------------------------
# A finite vector may still be wrong: runs were seen to explode to 1e8 and to collapse to 1e-3.


def take_anchor(state: State) -> None:
    """Store statistics of the vectors right after a base, for later checks to compare with."""
    rule = rolled(state)
    rule.anchor = np.array([_length(state, rule, 0), _score(state, rule, 0)[0], 0.0])


def rolled(state: State) -> RollingRule:
    """Return the rule of a state, checked to be one of the paper's."""
    assert isinstance(state.rule, RollingRule)
    return state.rule


def _check_lengths(state: State, rule: RollingRule, band: tuple[float, float], version: int) -> None:
    """Warn if the mean length of the vectors left its band around that of the last base."""
    (low, high), before = band, rule.anchor[0]
    ratio = _length(state, rule, version) / before if before > 0 else 1.0
    if not low <= ratio <= high:
        warnings.warn(
            f"the run {'explodes' if ratio > high else 'collapses'}: at version {version} the mean "
            f"length of the vectors is {ratio:.3g} times that of the last base (the band is {low:g} to "
            f"{high:g}); restart() takes a fresh base",
            NormBandWarning,
            stacklevel=4,
        )


def _check_links(state: State, rule: RollingRule, tolerance: float, version: int) -> None:
    """Warn if links score significantly worse than at the last base."""
    (score, links), then = _score(state, rule, version), rule.anchor[1]
    if then < 0:  # the base had too few links to say: compare with now
        rule.anchor[1] = score
    elif score >= 0:
        chance = 2 * np.sqrt((score * (1 - score) + then * (1 - then)) / links)
        if score < then - tolerance - chance:
            warnings.warn(
                f"at version {version} sampled links have AUC {score:.3f}, at the last base {then:.3f}; "
                "restart() takes a fresh base",
                DriftWarning,
                stacklevel=4,
            )


def _length(state: State, rule: RollingRule, salt: int) -> float:
    nodes = state.graph.some_nodes(salt, _SAMPLE)
    return float(norms(rule.vectors(nodes)).mean()) if len(nodes) else 0.0


def _score(state: State, rule: RollingRule, salt: int) -> tuple[float, int]:
    """Return the AUC of sampled links against negatives (-1 if there are too few), and how many links."""
    nodes = state.graph.some_nodes(salt, _SAMPLE)
    left, right, negatives = _links(state, nodes, salt)
    if len(left) < _AT_LEAST:
        return -1.0, len(left)
    linked, *others = (_cosine(rule, left, column) for column in (right, *negatives))
    return auc(linked, np.concatenate(others)), len(left)


def _links(state: State, nodes: Nodes, salt: int) -> tuple[Nodes, Nodes, list[Nodes]]:
    """Return nodes, a neighbour of each, and non-neighbours, sampled by ids and salt."""
    graph = state.graph
    place = np.empty(graph.ids.high, np.int64)
    place[nodes] = np.arange(len(nodes))
    owner, other, weight = graph.pull.arcs(nodes)
    owner, other = owner[weight > 0], other[weight > 0]
    order = np.lexsort((salted(graph.ids.keys[other], salt), place[owner]))
    owner, first = np.unique(place[owner[order]], return_index=True)
    left, right = nodes[owner], other[order][first]
    negatives = [np.roll(left, shift) for shift in range(1, _NEGATIVES + 1)]
    for column in negatives:  # one that is no negative is replaced by the first that is
        near = (column == left) | (graph.pull.look_up(left, column) != 0)
        column[near] = negatives[0][near]
    apart = (negatives[0] != left) & (graph.pull.look_up(left, negatives[0]) == 0)
    return left[apart], right[apart], [column[apart] for column in negatives]


def _cosine(rule: RollingRule, a: Nodes, b: Nodes) -> Float64:
    each = np.arange(len(a))
    return pair_cosines(rule.vectors(np.concatenate((a, b))), each, each + len(a))
