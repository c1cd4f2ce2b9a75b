"""Options of the paper's rules: as published by default, and options that keep long runs stable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dygcn.engine.models.checks import check_fields, number
from dygcn.engine.records import Float32
from dygcn.errors import OptionError
from dygcn.paper.plans import ACTIVATIONS, AGGREGATIONS, RuleOptions

BASES = ("gcn", "embedding")
_LOSSES = ("dot", "cosine")
_MANY = 1_000_000_001


@dataclass(frozen=True)
class BaseRecipe:
    """How the static base is trained. The defaults are the paper's GCN; other values are extensions.

    Parameters
    ----------
    aggregation
        ``"sum"`` is A + I as published; ``"mean"`` divides by its row sums.
    output
        Activation of the vectors: ``"relu"``, ``"tanh"`` or ``"none"``; that of the hidden layer is ReLU.
    loss
        ``"dot"`` (eq. neg), or ``"cosine"`` with a learned temperature and bias.
    once
        Train once on all steps, then only compute; if not, train anew on every snapshot.
    epochs
        Steps of Adam in all, or for each snapshot.
    warm
        Trained on every snapshot: so many epochs from the last snapshot's matrices, instead of `epochs` from
        scratch; 0: always from scratch.
    unit
        Scale vectors to length one.
    """

    aggregation: str = "sum"
    output: str = "relu"
    loss: str = "dot"
    once: bool = True
    epochs: int = 200
    rate: float = 1e-3
    warm: int = 0
    unit: bool = False

    def __post_init__(self) -> None:
        check_fields(self, aggregation=AGGREGATIONS, output=ACTIVATIONS, loss=_LOSSES)
        check_fields(self, epochs=range(1_000_001), warm=range(1_000_001))
        number("rate", self.rate, 0)


@dataclass(frozen=True)
class Watch:
    """Checks while vectors are rolled forward, which only warn; off by default, and not in the paper.

    Parameters
    ----------
    band
        Allowed mean length of the vectors, as multiples of what it was at the last base. Outside it,
        `NormBandWarning` says whether the run explodes or collapses.
    links
        How far the AUC of sampled links against negatives may fall below what it was at the last base, before
        a `DriftWarning`; None: not checked.
    every
        The checks run once in so many updates.
    """

    band: tuple[float, float] | None = None
    links: float | None = None
    every: int = 10

    def __post_init__(self) -> None:
        pair: Any = self.band if isinstance(self.band, tuple | list) else ()
        numbers = len(pair) == 2 and all(isinstance(edge, int | float | np.number) for edge in pair)
        if self.band is not None and not (numbers and 0 <= pair[0] < 1 < pair[1]):
            raise OptionError(f"band is {self.band!r}; allowed is (low, high) with 0 <= low < 1 < high")
        check_fields(self, every=range(1, _MANY))
        if self.links not in (None, 0):
            number("links", self.links, 0, 1)


@dataclass(frozen=True)
class RollingRecipe:
    """All options of the rolling and the spectral rule.

    The defaults are the paper's text, where it says something. `RollingRecipe.steady` has our options on.

    Parameters
    ----------
    options
        How messages are aggregated and what acts on the result: `RuleOptions`.
    loss
        ``"dot"`` (eq. neg), or ``"cosine"`` with a learned temperature and bias.
    rollout
        Steps on its own output in training. 1 starts from the base at each step, as in the paper.
    bound
        Greatest spectral norm of a matrix (of W_s half of it, since the pass has norm 2); None: no bound.
    start
        First matrices: ``"glorot"`` (uniform), or ``"identity"`` (W_0 keeps, W_k adds little, W_s halves).
    link_weight, task_weight
        Weights of the paper's loss and of the cross-entropy on labels, where `fit` was given some.
    rounds, rate
        Steps of Adam, and their size.
    base
        How the base is trained: `BaseRecipe`.
    watch
        What is looked at while updates run: `Watch`.

    Examples
    --------
    >>> RollingRecipe().options.aggregation, RollingRecipe.steady().options.aggregation
    ('sum', 'mean')
    """

    options: RuleOptions = field(default_factory=RuleOptions)
    loss: str = "dot"
    rollout: int = 1
    bound: float | None = None
    start: str = "glorot"
    link_weight: float = 1.0
    task_weight: float = 1.0
    rounds: int = 300
    rate: float = 1e-3
    base: BaseRecipe = field(default_factory=BaseRecipe)
    watch: Watch = field(default_factory=Watch)

    def __post_init__(self) -> None:
        for name, kind in (("options", RuleOptions), ("base", BaseRecipe), ("watch", Watch)):
            if not isinstance(getattr(self, name), kind):
                raise OptionError(f"{name} is {getattr(self, name)!r}; allowed is a {kind.__name__}")
        check_fields(self, loss=_LOSSES, start=("glorot", "identity"))
        check_fields(self, rollout=range(1, _MANY), rounds=range(_MANY))
        number("rate", self.rate, 0)
        if self.bound is not None:
            number("bound", self.bound, 0)
        for name in ("link_weight", "task_weight"):
            if getattr(self, name):
                number(name, getattr(self, name), 0)

    @classmethod
    def steady(cls, rollout: int = 5) -> RollingRecipe:
        """Return the options that keep long runs stable; all of them are extensions of the paper."""
        return cls(
            options=RuleOptions("mean", "none", "rest", level=True),
            loss="cosine",
            rollout=rollout,
            bound=1.0,
            start="identity",
            rounds=100,
            rate=3e-3,
            base=BaseRecipe("sum", "none", "cosine", once=False, rate=1e-2, warm=30, unit=True),
            watch=Watch(band=(0.1, 10.0)),
        )


@dataclass(frozen=True, eq=False)
class Base:
    """The origin of the first vectors, with what a restart needs to compute them again."""

    name: str = "embedding"  # one of BASES
    recipe: BaseRecipe = field(default_factory=BaseRecipe)
    tensors: Mapping[str, Float32] = field(default_factory=dict, repr=False)


def check_shapes(base: Base, dim: int) -> None:
    """Raise a ValueError unless a base has the tensors of its kind: the loops that use them do not look."""
    shapes = {name: tensor.shape for name, tensor in base.tensors.items()}
    expected: dict[str, tuple[int, ...]] = {}
    if base.name == "gcn":
        expected = {"in": (*shapes.get("in", ())[:1], dim), "out": (dim, dim)}
    if shapes != expected or any(0 in shape for shape in shapes.values()):
        raise ValueError(f"a base {base.name!r} with tensors {shapes}, expected {expected}")
