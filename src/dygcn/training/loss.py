"""The paper's loss (eq. neg): linked nodes near, strangers far; and its gradient, by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dygcn.records import Bool, Float32


@dataclass(frozen=True, slots=True)
class LinkGradient:
    """Loss of one group and its derivatives."""

    loss: float
    left: Float32  # (m, dim) in the vectors of one end of each linked pair
    right: Float32  # (m, dim) in those of the other
    strangers: Float32  # (q, dim)
    sharpness: float  # in the logarithm of the temperature
    bias: float


def link_loss(
    left: Float32, right: Float32, strangers: Float32, apart: Bool, temperature: float, bias: float
) -> LinkGradient:
    """Return the loss of m linked pairs and of every left end with every stranger.

    ``-log s(T cos + b)`` for a linked pair and ``-log(1 - s(T cos + b))`` for another, with s the
    sigmoid: the paper's loss on cosines instead of dot products, so that lengths cannot run away, with
    a temperature and a bias that are learned beside the matrices and are no part of the score.

    Parameters
    ----------
    left, right
        (m, dim) vectors of the linked pairs.
    strangers
        (q, dim) vectors.
    apart
        (m, q) where a left end and a stranger are neither linked nor the same.
    """
    (u, u_length), (v, v_length), (n, n_length) = (_unit(z) for z in (left, right, strangers))
    near = np.einsum("ij,ij->i", u, v)
    far = u @ n.T
    linked = temperature * near + bias
    others = temperature * far + bias
    count = max(int(apart.sum()), 1)
    loss = np.logaddexp(0, -linked).mean() + (np.logaddexp(0, others) * apart).sum() / count
    pull = -_sigmoid(-linked) / len(linked)
    push = _sigmoid(others) * apart / count
    t = np.float32(temperature)
    to_u = t * (pull[:, None] * v + push @ n)
    return LinkGradient(
        float(loss),
        _through_unit(to_u, u, u_length),
        _through_unit(t * pull[:, None] * u, v, v_length),
        _through_unit(t * push.T @ u, n, n_length),
        float(temperature * ((pull * near).sum() + (push * far).sum())),
        float(pull.sum() + push.sum()),
    )


def _unit(z: Float32) -> tuple[Float32, Float32]:
    length = np.maximum(np.linalg.norm(z, axis=1, keepdims=True), np.float32(1e-6))
    return z / length, length


def _through_unit(gradient: Float32, unit: Float32, length: Float32) -> Float32:
    """d unit(z) / dz takes away the part along z."""
    along = np.einsum("ij,ij->i", gradient, unit)[:, None]
    result: Float32 = (gradient - along * unit) / length
    return result


def _sigmoid(x: Float32) -> Float32:
    result: Float32 = 0.5 * (1 + np.tanh(0.5 * x))
    return result
