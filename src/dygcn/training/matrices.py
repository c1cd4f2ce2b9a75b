"""Learning W_0..W_K with the paper's structure-preserving loss (eq. neg) on normalised vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dygcn.records import Float32, Int32, Int64
from dygcn.training.loss import link_loss
from dygcn.training.samples import Progress, StepSample

FEWEST_PAIRS = 64  # below this there is nothing to learn from, and the starting matrices stay


@dataclass(frozen=True)
class Recipe:
    """How the matrices are trained. The defaults are the same for every graph.

    Parameters
    ----------
    rounds
        Mini-batches.
    batch
        Linked pairs in a mini-batch, all of one step.
    strangers
        Pairs that are not linked, for each linked one.
    rate
        Greatest step of Adam; it falls to zero along half a cosine.
    temperature
        Factor of the cosine inside the sigmoid.
    new_weight
        How many times an edge that is new at t + 1 counts.
    """

    rounds: int = 300
    batch: int = 1024
    strangers: int = 1
    rate: float = 2e-3
    temperature: float = 6.0
    new_weight: float = 3.0


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
    if sum(len(sample.pairs) for sample in samples) < FEWEST_PAIRS:
        return start
    random = np.random.default_rng([seed, 3])
    drawers = [_Drawer(sample, recipe, random) for sample in samples]
    adam = _Adam(start)
    for i in range(recipe.rounds):
        drawer = drawers[int(random.integers(len(drawers)))]
        _, gradient = drawer.loss(adam.value)
        adam.step(gradient, recipe.rate * 0.5 * (1 + np.cos(np.pi * i / recipe.rounds)))
        if progress is not None:
            progress(i + 1, recipe.rounds, "training")
    return adam.value


class _Drawer:
    """Draws mini-batches of linked pairs and strangers from one step."""

    def __init__(self, sample: StepSample, recipe: Recipe, random: np.random.Generator) -> None:
        self._sample = sample
        self._recipe = recipe
        self._random = random
        chance = np.where(sample.new, recipe.new_weight, 1.0)
        self._chance = np.cumsum(chance / chance.sum())
        low, high = sample.pairs.min(axis=1), sample.pairs.max(axis=1)
        self._linked = np.sort(self._keys(low, high))

    def _keys(self, low: Int32, high: Int32) -> Int64:
        return low.astype(np.int64) * len(self._sample.inputs) + high

    def loss(self, matrices: Float32) -> tuple[float, Float32]:
        """Return loss and gradient on one mini-batch."""
        recipe, random, sample = self._recipe, self._random, self._sample
        size = min(recipe.batch, len(sample.pairs))
        drawn = np.searchsorted(self._chance, random.random(size)).clip(max=len(sample.pairs) - 1)
        pairs = sample.pairs[drawn]
        kept = np.tile(pairs[np.arange(size), random.integers(0, 2, size)], recipe.strangers)
        strangers = random.choice(sample.pool, len(kept))
        low, high = np.minimum(kept, strangers), np.maximum(kept, strangers)
        keys = self._keys(low, high)
        found = self._linked[np.searchsorted(self._linked, keys).clip(max=len(self._linked) - 1)] == keys
        apart = ~found & (kept != strangers)
        left = np.concatenate((pairs[:, 0], kept[apart]))
        right = np.concatenate((pairs[:, 1], strangers[apart]))
        linked = np.arange(len(left)) < size
        weight = np.where(linked, 1.0, 1.0 / recipe.strangers).astype(np.float32)
        return link_loss(sample, matrices, left, right, linked, weight, recipe.temperature)


class _Adam:
    """Adam (Kingma and Ba, 2015) on one array."""

    def __init__(self, value: Float32) -> None:
        self.value = value.copy()
        self._mean = np.zeros_like(value)
        self._square = np.zeros_like(value)
        self._steps = 0

    def step(self, gradient: Float32, rate: float) -> None:
        self._steps += 1
        self._mean += 0.1 * (gradient - self._mean)
        self._square += 0.001 * (gradient * gradient - self._square)
        mean = self._mean / (1 - 0.9**self._steps)
        square = self._square / (1 - 0.999**self._steps)
        self.value -= np.float32(rate) * mean / (np.sqrt(square) + np.float32(1e-8))
