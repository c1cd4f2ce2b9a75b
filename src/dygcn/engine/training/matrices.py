"""Learning W_0..W_K with the paper's structure-preserving loss (eq. neg) on normalised vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, count, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dygcn.engine.measures import PairSet
from dygcn.engine.records import Bool, Float, Float32, Float64, Int32, Progress
from dygcn.errors import OptionError


@dataclass(frozen=True, slots=True)
class LinkGradient:
    """Loss of one group and its derivatives."""

    loss: float
    left: Float  # (m, dim) in the vectors of one end of each linked pair
    right: Float  # (m, dim) in those of the other
    negatives: Float  # (q, dim)
    sharpness: float  # in the logarithm of the temperature
    bias: float


def link_loss(
    left: Float, right: Float, negatives: Float, apart: Bool, temperature: float, bias: float
) -> LinkGradient:
    """Return the loss of m linked pairs and of every left end with every negative.

    ``-log s(T cos + b)`` for a linked pair and ``-log(1 - s(T cos + b))`` for another, with s the sigmoid:
    the paper's loss on cosines instead of dot products, so that lengths cannot run away; T and b are no part
    of the score. `apart`, (m, q), says where a left end and a negative are neither linked nor the same.
    """
    (u, u_length), (v, v_length), (n, n_length) = (_unit(z) for z in (left, right, negatives))
    near = np.einsum("ij,ij->i", u, v)
    far = u @ n.T
    linked = temperature * near + bias
    others = temperature * far + bias
    count = max(int(apart.sum()), 1)
    loss = np.logaddexp(0, -linked).mean() + (np.logaddexp(0, others) * apart).sum() / count
    pull = -_sigmoid(-linked) / len(linked)
    push = _sigmoid(others) * apart.astype(np.float32) / np.float32(count)
    t = np.float32(temperature)
    pull_t, push_t = t * pull[:, None], t * push
    return LinkGradient(
        float(loss),
        _through_unit(pull_t * v + push_t @ n, u, u_length),
        _through_unit(pull_t * u, v, v_length),
        _through_unit(push_t.T @ u, n, n_length),
        float(temperature * ((pull * near).sum() + (push * far).sum())),
        float(pull.sum() + push.sum()),
    )


def _unit(z: Float) -> tuple[Float, Float]:
    length = np.maximum(np.linalg.norm(z, axis=1, keepdims=True), np.float32(1e-6))
    return z / length, length


def _through_unit(gradient: Float, unit: Float, length: Float) -> Float:
    """Return the gradient before normalisation: D unit(z) / dz removes the part along z."""
    along = np.einsum("ij,ij->i", gradient, unit)[:, None]
    result: Float = (gradient - along * unit) / length
    return result


def _sigmoid(x: Float) -> Float:
    return (1 + np.tanh(x / 2)) / 2


Inputs = NDArray[np.float16] | Float32
LARGEST_SAMPLE = 512 << 20  # bytes of messages kept, over all steps
FEWEST_PAIRS = 64  # below this there is nothing to learn from, and the starting matrices stay
_WIDENED = 256 << 20  # bytes up to which samples are widened to float32 once: each draw would do it again
_PASSES = 60.0  # how often an edge is seen, at most (about: edges of the largest step)
_GROUPS = 8  # time steps in a round
_PAIRS = 48  # linked pairs drawn from each, and negatives; every pair's left end meets every negative
_RATE = 3e-3  # greatest step of Adam, which falls to zero along half a cosine
_WARM_UP = 10  # rounds
_TEMPERATURE = 6.0  # first factor of the cosine inside the sigmoid


@dataclass(frozen=True, slots=True)
class StepSample:
    """Nodes at one step, and which of them are linked at the next."""

    inputs: Inputs  # (n, (K + 1) * width) what the matrices act on, all orders side by side
    offset: Float32 | None  # (n, dim) added to the vectors, where the model keeps an embedding fresh
    pairs: Int32  # (p, 2) rows that are linked at the next step
    pool: Int32  # rows from which negatives are drawn
    step: int = 0


@dataclass(frozen=True)
class Recipe:
    """How the matrices are trained. The defaults are the same for every graph.

    Parameters
    ----------
    rounds
        Steps of Adam, at most: fewer where each edge of the largest step is seen 60 times before.
    held_out
        Share of the training steps, the last ones, on which the score of links is learned with matrices that
        were fitted without them; then the matrices are fitted on all. 0: links are scored by the cosine, and
        fitting takes half the time.
    """

    rounds: int = 900
    held_out: float = 0.25

    def __post_init__(self) -> None:
        if not (isinstance(self.held_out, int | float) and 0 <= self.held_out < 1):
            raise OptionError(f"held_out is {self.held_out!r}; allowed is a share from 0 to below 1")


def starting_matrices(width: int, dim: int, orders: int, seed: int) -> tuple[Float32, ...]:
    """Return one random orthogonal projection, the same for every order, so that orders are comparable."""
    random = np.random.default_rng([seed, 2])
    square = np.linalg.qr(random.standard_normal((max(width, dim), max(width, dim))))[0]
    matrix = np.ascontiguousarray(square[:width, :dim], dtype=np.float32)
    return (matrix,) * (orders + 1)


def fit_matrices(
    samples: Sequence[StepSample], start: Float32, recipe: Recipe, seed: int, progress: Progress | None = None
) -> Float32:
    """Return the trained matrices, all orders below each other: ((K + 1) * width, dim)."""
    samples = [sample for sample in samples if len(sample.pairs)]
    if sum(len(sample.pairs) for sample in samples) < FEWEST_PAIRS:
        return start
    if sum(4 * sample.inputs.size for sample in samples) <= _WIDENED:
        samples = [replace(sample, inputs=sample.inputs.astype(np.float32)) for sample in samples]
    edges = max(len(sample.pairs) for sample in samples)
    rounds = min(recipe.rounds, int(np.ceil(_PASSES * edges / (_GROUPS * _PAIRS))))
    random = np.random.default_rng([seed, 3])
    linked = [PairSet(sample.pairs.astype(np.int64), len(sample.inputs)) for sample in samples]
    turns = chain.from_iterable(random.permutation(len(samples)).tolist() for _ in count())
    matrices, sharpness = _Adam(start), _Adam(np.array([np.log(_TEMPERATURE), 0.0]))
    for i in range(rounds):
        groups = [_draw(samples[at], linked[at], random) for at in islice(turns, _GROUPS)]
        gradient, slope = _gradient(groups, matrices.value, sharpness.value)
        rate = _RATE * min((i + 1) / _WARM_UP, 1.0) * 0.5 * (1 + np.cos(np.pi * i / rounds))
        matrices.step(gradient, rate)
        sharpness.step(slope, 10 * rate)  # temperature and bias
        if progress is not None:
            progress(i + 1, rounds, "training")
    result: Float32 = matrices.value
    return result


@dataclass(frozen=True, slots=True)
class _Group:
    """Linked pairs and negatives of one step: rows of left ends, right ends and negatives, in that order."""

    inputs: Float32
    offset: Float32 | None
    apart: Bool


def _gradient(groups: list[_Group], matrices: Float32, sharpness: Float64) -> tuple[Float32, Float64]:
    """Return the mean derivatives of the groups' losses; all groups go through the matrices at once."""
    inputs = np.concatenate([group.inputs for group in groups])
    vectors = inputs @ matrices
    temperature, bias = float(np.exp(sharpness[0])), float(sharpness[1])
    slope = np.zeros(2)
    at = 0
    for group in groups:
        z = vectors[at : at + len(group.inputs)]
        if group.offset is not None:
            z += group.offset
        m = len(group.apart)
        found = link_loss(z[:m], z[m : 2 * m], z[2 * m :], group.apart, temperature, bias)
        z[:m], z[m : 2 * m], z[2 * m :] = found.left, found.right, found.negatives
        slope += (found.sharpness, found.bias)
        at += len(z)
    return inputs.T @ vectors / np.float32(len(groups)), slope / len(groups)


def _draw(sample: StepSample, linked: PairSet, random: np.random.Generator) -> _Group:
    drawn = random.integers(len(sample.pairs), size=_PAIRS)
    pairs = sample.pairs[drawn].astype(np.int64)
    end, each = random.integers(0, 2, _PAIRS), np.arange(_PAIRS)
    left, right = pairs[each, end], pairs[each, 1 - end]
    negatives = random.choice(sample.pool, _PAIRS).astype(np.int64)
    near, far = left[:, None], negatives[None, :]
    apart = ~linked.has(near, far) & (near != far)
    rows = np.concatenate((left, right, negatives))
    offset = None if sample.offset is None else sample.offset[rows]
    return _Group(sample.inputs[rows].astype(np.float32, copy=False), offset, apart)


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
