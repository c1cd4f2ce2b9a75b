"""The paper's rules by name: their settings, what is saved of them, what follows an update."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import msgspec
import numpy as np

from dygcn.engine.models import RuleSpec, register
from dygcn.engine.models.checks import one_of
from dygcn.engine.models.folder import take_tensor
from dygcn.errors import OptionError
from dygcn.paper import bases
from dygcn.paper.fresh_base import base_or_warning, check_base, renewed, take_base, take_embedding
from dygcn.paper.health import wants_restart
from dygcn.paper.options import BASES, Base, BaseRecipe, Watch, check_options, check_shapes
from dygcn.paper.plans import RuleOptions
from dygcn.paper.rolling import RollingRule, SpectralRule

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dygcn.engine.features import Features
    from dygcn.engine.models import Model, Outcome, State
    from dygcn.engine.models.folder import Tensors
    from dygcn.engine.records import Float32

_BASE = "base."


class Saved(msgspec.Struct, forbid_unknown_fields=True):
    """What a manifest says of these rules alone."""

    options: RuleOptions
    base: str
    recipe: BaseRecipe
    watch: Watch


@register
@dataclass(frozen=True, eq=False)
class RollingSpec(RuleSpec):
    """Algorithm 1: how it aggregates, where the first vectors came from, and what is watched."""

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
        check_options(self.options)
        if self.watch.restart == "auto" and self.base.name == "embedding":
            raise OptionError("restart='auto' needs a base that can be computed again; yours is an Embedding")

    def new_rule(self, weights: Sequence[Float32], features: Features) -> RollingRule:
        """Return the vectors of an empty graph; the rule has no features."""
        return self.rule_class(weights, self.options)

    def settings(self) -> dict[str, Any]:
        """Return everything but the tensors of the base."""
        saved: dict[str, Any] = msgspec.to_builtins(
            Saved(self.options, self.base.name, self.base.recipe, self.watch)
        )
        return saved

    def tensors(self) -> Tensors:
        """Return the tensors of the base."""
        return {_BASE + name: tensor for name, tensor in self.base.tensors.items()}

    @classmethod
    def read(cls, settings: object, tensors: Tensors, orders: int, shape: tuple[int, int]) -> Self:
        """Take back what was saved, checked; the loops that use a base do not look."""
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
        """Take every vector, and what vectors were like at the last base."""
        vectors = take_tensor(tensors, "vectors", np.float32, 2)
        anchor = take_tensor(tensors, "anchor", np.float64)
        if vectors.shape != (nodes, dim) or not np.isfinite(vectors).all():
            raise ValueError("vectors that do not fit the nodes, or hold NaN or infinite values")
        if anchor.shape != (3,) or not (
            np.isfinite(anchor).all() and anchor[0] >= 0 and -1 <= anchor[1] <= 1
        ):
            raise ValueError("an anchor that is not a length, an AUC and a count")
        return {"vectors": vectors, "anchor": anchor}

    def after_update(self, state: State, outcome: Outcome, version: int) -> Callable[[], Outcome] | None:
        """Check a sample, if it is time; a fresh base may be due."""
        base = base_or_warning(state, self.base) if wants_restart(state, self.watch, version) else None
        return None if base is None else partial(renewed, state, self, base, outcome)

    def restart(self, state: State, base: object) -> Callable[[], Outcome]:
        """Prepare a base that the user brought, or compute the one that was fitted on the graph as it is."""
        given = check_base(state.model, base)
        if given is not None:
            return partial(take_embedding, state, self.watch, given)
        return partial(take_base, state, self, *bases.fresh_vectors(state, self.base))

    def describe(self) -> dict[str, str]:
        """Return the base, and how messages are aggregated."""
        options = self.options
        return {"base": self.base.name, "aggregation": options.aggregation, "activation": options.activation}


@register
class SpectralSpec(RollingSpec):
    """Algorithm 2, which has one more matrix, for the pass over the whole graph."""

    name = "spectral"
    more_weights = ("Ws",)
    rule_class = SpectralRule

    @classmethod
    def read(cls, settings: object, tensors: Tensors, orders: int, shape: tuple[int, int]) -> Self:
        """Take back what was saved; only the first order is updated from the change itself."""
        if orders != 1:
            raise ValueError("matrices that do not fit the rule")
        return super().read(settings, tensors, orders, shape)


def with_base(model: Model, base: Base) -> Model:
    """Return a model of one of these rules with another base."""
    assert isinstance(model.spec, RollingSpec)
    return dataclasses.replace(model, spec=dataclasses.replace(model.spec, base=base))
