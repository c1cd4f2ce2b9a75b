"""What can be chosen of the base of the paper's rules, and of how a run is watched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.models.checks import number, one_of, whole
from dygcn.errors import OptionError
from dygcn.paper.equations import ACTIVATIONS
from dygcn.paper.plans import AGGREGATIONS, ISOLATED, RuleOptions

if TYPE_CHECKING:
    from dygcn.engine.records import Float32

NETWORKS = ("gcn", "graphsage", "gin")
BASES = (*NETWORKS, "hashed", "embedding")
LOSSES = ("dot", "cosine")
RESTARTS = ("never", "warn", "auto")


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
        How far the AUC of sampled links against negatives may fall below what it was at the last base.
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
        if self.band is not None:
            _check_band(self.band)
        whole("every", self.every, 1)
        whole("sample", self.sample, 1)
        if self.tolerance != 0:
            number("tolerance", self.tolerance, 0, 1)


def _check_band(band: object) -> None:
    pair = band if isinstance(band, tuple | list) else ()
    numbers = len(pair) == 2 and all(isinstance(edge, int | float | np.number) for edge in pair)
    if not numbers or not 0 <= pair[0] < 1 < pair[1]:
        raise OptionError(f"band is {band!r}; allowed is (low, high) with 0 <= low < 1 < high")


@dataclass(frozen=True, eq=False)
class Base:
    """Where the first vectors came from, and what a restart needs to compute them again."""

    name: str = "embedding"  # one of BASES
    recipe: BaseRecipe = field(default_factory=BaseRecipe)
    tensors: Mapping[str, Float32] = field(default_factory=dict, repr=False)


def check_shapes(base: Base, dim: int) -> None:
    """Raise a ValueError unless a base has the tensors of its kind, in shapes that fit each other.

    The loops that use them do not look.
    """
    shapes = {name: tensor.shape for name, tensor in base.tensors.items()}
    square, line = (dim, dim), (dim,)
    expected: dict[str, tuple[int, ...]] = {}
    if base.name == "gcn":
        expected = {"in": (*shapes.get("in", ())[:1], dim), "out": square}
    elif base.name == "hashed":
        width = shapes.get("W0", ())[:1]
        expected = {f"W{k}": (*width, dim) for k in range(len(shapes))}
    elif base.name in NETWORKS:
        expected = {"table.weight": (*shapes.get("table.weight", ())[:1], dim)}
        for layer in ("first", "second"):
            expected |= _layer_shapes(base.name, layer, square, line)
    if (
        shapes != expected
        or any(0 in shape for shape in shapes.values())
        or (base.name != "embedding") > len(shapes)
    ):
        raise ValueError(f"a base {base.name!r} with tensors {shapes}, expected {expected}")


def _layer_shapes(
    name: str, layer: str, square: tuple[int, ...], line: tuple[int, ...]
) -> dict[str, tuple[int, ...]]:
    if name == "graphsage":
        parts = {"lin_l.weight": square, "lin_l.bias": line, "lin_r.weight": square}
    else:
        parts = {
            f"nn.{i}.{part}": shape for i in (0, 2) for part, shape in (("weight", square), ("bias", line))
        }
    return {f"{layer}.{part}": shape for part, shape in parts.items()}


def check_options(options: RuleOptions) -> None:
    """Raise an OptionError unless every option is a known one."""
    one_of("aggregation", options.aggregation, AGGREGATIONS)
    one_of("isolated", options.isolated, ISOLATED)
    one_of("activation", options.activation, ACTIVATIONS)
