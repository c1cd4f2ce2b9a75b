"""What the paper's rules carry beside their matrices: options, the base, and what is watched."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from dygcn.errors import OptionError
from dygcn.propagation import RuleOptions
from dygcn.propagation.equations import ACTIVATIONS
from dygcn.propagation.plans import AGGREGATIONS, ISOLATED

if TYPE_CHECKING:
    from dygcn.records import Float32

BASES = ("gcn", "hashed", "embedding", "graphsage", "gin")
LOSSES = ("dot", "cosine")
RESTARTS = ("never", "warn", "auto")


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


@dataclass(frozen=True)
class BaseRecipe:
    """How the static base is trained. The defaults are the paper's GCN; anything else is ours.

    Parameters
    ----------
    aggregation
        ``"sum"`` is A + I as published; ``"mean"`` divides by its row sums.
    activation, output
        Of the hidden layer and of the vectors: ``"relu"``, ``"tanh"`` or ``"none"``.
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
    activation: str = "relu"
    output: str = "relu"
    loss: str = "dot"
    once: bool = True
    epochs: int = 200
    rate: float = 1e-3
    pairs: int = 8192
    warm: int = 0
    unit: bool = False

    def __post_init__(self) -> None:
        one_of("aggregation", self.aggregation, AGGREGATIONS)
        one_of("activation", self.activation, ACTIVATIONS)
        one_of("output", self.output, ACTIVATIONS)
        one_of("loss", self.loss, LOSSES)
        whole("epochs", self.epochs, 0, 1_000_000)
        whole("warm", self.warm, 0, 1_000_000)
        whole("pairs", self.pairs, 1, 1 << 24)
        number("rate", self.rate, 0)


@dataclass(frozen=True)
class Watch:
    """What is looked at while the vectors are rolled forward. Nothing, by default; all of it is ours.

    Parameters
    ----------
    band
        Allowed mean length of the vectors, as multiples of what it was at the last base. Outside it,
        `NormBandWarning` says whether the run explodes or collapses.
    restart
        What to do when the sampled check fails: ``"never"`` checks nothing, ``"warn"`` raises a
        `DriftWarning`, ``"auto"`` takes a fresh base (`LiveEmbedding.restart`).
    tolerance
        How far the AUC of sampled links against strangers may fall below what it was at the last base.
    every, sample
        The check runs once in so many updates, on so many links.
    """

    band: tuple[float, float] | None = None
    restart: str = "never"
    tolerance: float = 0.05
    every: int = 10
    sample: int = 1000

    def __post_init__(self) -> None:
        one_of("restart", self.restart, RESTARTS)
        if self.band is not None and not 0 <= self.band[0] < 1 < self.band[1]:
            raise OptionError(f"band is {self.band!r}; allowed is (low, high) with 0 <= low < 1 < high")
        whole("every", self.every, 1)
        whole("sample", self.sample, 1)
        number("tolerance", self.tolerance, 0, 1)


@dataclass(frozen=True, eq=False)
class Base:
    """Where the first vectors came from, and what a restart needs to compute them again."""

    name: str = "embedding"  # one of BASES
    recipe: BaseRecipe = field(default_factory=BaseRecipe)
    tensors: Mapping[str, Float32] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, eq=False)
class Paper:
    """The part of a model that only the paper's rules have."""

    options: RuleOptions = field(default_factory=RuleOptions)
    base: Base = field(default_factory=Base)
    watch: Watch = field(default_factory=Watch)

    def __post_init__(self) -> None:
        one_of("base", self.base.name, BASES)
        one_of("aggregation", self.options.aggregation, AGGREGATIONS)
        one_of("isolated", self.options.isolated, ISOLATED)
        one_of("activation", self.options.activation, ACTIVATIONS)
