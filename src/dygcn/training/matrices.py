"""Learning W_0..W_K with the paper's structure-preserving loss (eq. neg) on normalised vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dygcn.training.loss import link_loss

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dygcn.records import Float32, Float64, Int64
    from dygcn.training.samples import Progress, StepSample

FEWEST_PAIRS = 64  # below this there is nothing to learn from, and the starting matrices stay


@dataclass(frozen=True)
class Recipe:
    """How the matrices are trained. The defaults are the same for every graph.

    Parameters
    ----------
    rounds
        Steps of Adam.
    groups
        Time steps in a round.
    pairs, strangers
        Linked pairs and strangers drawn from each; every pair's left end meets every stranger.
    rate
        Greatest step of Adam; it falls to zero along half a cosine. Temperature and bias take ten times it.
    temperature
        First factor of the cosine inside the sigmoid.
    """

    rounds: int = 900
    groups: int = 8
    pairs: int = 48
    strangers: int = 48
    rate: float = 3e-3
    temperature: float = 6.0
    warm_up: int = 10


def starting_matrices(width: int, dim: int, orders: int, seed: int) -> tuple[Float32, ...]:
    """Return one random orthogonal projection, the same for every order, so that orders are comparable."""
    random = np.random.default_rng([seed, 2])
    square = np.linalg.qr(random.standard_normal((max(width, dim), max(width, dim))))[0]
    matrix = np.ascontiguousarray(square[:width, :dim], dtype=np.float32)
    return (matrix,) * (orders + 1)


def fit_matrices(
    samples: Sequence[StepSample],
    start: Float32,
    recipe: Recipe,
    seed: int,
    progress: Progress | None = None,
) -> Float32:
    """Return the trained matrices, all orders below each other: ((K + 1) * width, dim)."""
    samples = [sample for sample in samples if len(sample.pairs)]
    if sum(len(sample.pairs) for sample in samples) < FEWEST_PAIRS:
        return start
    random = np.random.default_rng([seed, 3])
    drawers = [_Drawer(sample, recipe, random) for sample in samples]
    turns = _shuffled_cycle(len(drawers), random)
    matrices, sharpness = _Adam(start), _Adam(np.array([np.log(recipe.temperature), 0.0]))
    for i in range(recipe.rounds):
        gradient, slope = np.zeros_like(start), np.zeros(2)
        for _ in range(recipe.groups):
            drawers[next(turns)].add_gradient(matrices.value, sharpness.value, gradient, slope)
        rate = (
            recipe.rate * min((i + 1) / recipe.warm_up, 1.0) * 0.5 * (1 + np.cos(np.pi * i / recipe.rounds))
        )
        matrices.step(gradient / np.float32(recipe.groups), rate)
        sharpness.step(slope / recipe.groups, 10 * rate)
        if progress is not None:
            progress(i + 1, recipe.rounds, "training")
    result: Float32 = matrices.value
    return result


def _shuffled_cycle(count: int, random: np.random.Generator) -> Iterator[int]:
    while True:
        yield from random.permutation(count).tolist()


class _Drawer:
    """Draws linked pairs and strangers from one step."""

    def __init__(self, sample: StepSample, recipe: Recipe, random: np.random.Generator) -> None:
        self._sample = sample
        self._recipe = recipe
        self._random = random
        self._linked = np.sort(self._keys(*sample.pairs.astype(np.int64).T))

    def _keys(self, a: Int64, b: Int64) -> Int64:
        low, high = np.minimum(a, b), np.maximum(a, b)
        keys: Int64 = low * len(self._sample.inputs) + high
        return keys

    def _draw(self) -> tuple[Int64, Int64, Int64]:
        recipe, random = self._recipe, self._random
        drawn = random.integers(len(self._sample.pairs), size=recipe.pairs)
        pairs = self._sample.pairs[drawn].astype(np.int64)
        end = random.integers(0, 2, recipe.pairs)
        rows = np.arange(recipe.pairs)
        return (
            pairs[rows, end],
            pairs[rows, 1 - end],
            random.choice(self._sample.pool, recipe.strangers).astype(np.int64),
        )

    def add_gradient(self, matrices: Float32, sharpness: Float64, gradient: Float32, slope: Float64) -> None:
        """Add the derivatives of one group's loss."""
        sample = self._sample
        left, right, strangers = self._draw()
        keys = self._keys(left[:, None], strangers[None, :])
        at = np.searchsorted(self._linked, keys).clip(max=len(self._linked) - 1)
        apart = (self._linked[at] != keys) & (left[:, None] != strangers[None, :])
        rows = np.concatenate((left, right, strangers))
        inputs = sample.inputs[rows].astype(np.float32)
        z = inputs @ matrices
        if sample.offset is not None:
            z += sample.offset[rows]
        m = len(left)
        temperature, bias = float(np.exp(sharpness[0])), float(sharpness[1])
        found = link_loss(z[:m], z[m : 2 * m], z[2 * m :], apart, temperature, bias)
        gradient += inputs.T @ np.concatenate((found.left, found.right, found.strangers))
        slope += (found.sharpness, found.bias)


class _Adam:
    """Adam (Kingma and Ba, 2015) on one array."""

    def __init__(self, value: NDArray[Any]) -> None:
        self.value = value.copy()
        self._mean = np.zeros_like(value)
        self._square = np.zeros_like(value)
        self._steps = 0

    def step(self, gradient: NDArray[Any], rate: float) -> None:
        self._steps += 1
        self._mean += 0.1 * (gradient - self._mean)
        self._square += 0.001 * (gradient * gradient - self._square)
        mean = self._mean / (1 - 0.9**self._steps)
        root = np.sqrt(self._square / (1 - 0.999**self._steps)) + 1e-8
        self.value -= (rate * mean / root).astype(self.value.dtype)
