"""The paper's loss (eq. neg): linked nodes near, negatives far; and its gradient, by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dygcn.engine.records import Bool, Float


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

    ``-log s(T cos + b)`` for a linked pair and ``-log(1 - s(T cos + b))`` for another, with s the
    sigmoid: the paper's loss on cosines instead of dot products, so that lengths cannot run away, with
    a temperature and a bias that are learned beside the matrices and are no part of the score.

    Parameters
    ----------
    left, right
        (m, dim) vectors of the linked pairs.
    negatives
        (q, dim) vectors.
    apart
        (m, q) where a left end and a negative are neither linked nor the same.
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
    """D unit(z) / dz takes away the part along z."""
    along = np.einsum("ij,ij->i", gradient, unit)[:, None]
    result: Float = (gradient - along * unit) / length
    return result


def _sigmoid(x: Float) -> Float:
    return (1 + np.tanh(x / 2)) / 2
