"""The paper's loss (eq. neg): linked nodes near, strangers far; and its gradient, by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dygcn.records import Bool, Float32, Int32
    from dygcn.training.samples import StepSample


def link_loss(
    sample: StepSample,
    matrices: Float32,
    left: Int32,
    right: Int32,
    linked: Bool,
    weight: Float32,
    temperature: float,
) -> tuple[float, Float32]:
    """Return the mean loss of pairs and its gradient in the matrices.

    ``-log s(T cos)`` for a linked pair and ``-log(1 - s(T cos))`` for another, with s the sigmoid and
    cos the cosine of the two vectors, instead of the paper's dot product: lengths cannot run away.
    """
    rows, place = np.unique(np.concatenate((left, right)), return_inverse=True)
    inputs = sample.inputs[rows]
    vectors = inputs @ matrices
    if sample.offset is not None:
        vectors += sample.offset[rows]
    lengths = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-6)
    units = vectors / lengths
    a, b = place[: len(left)], place[len(left) :]
    cosine = np.einsum("ij,ij->i", units[a], units[b])
    sign = np.where(linked, 1.0, -1.0).astype(np.float32)
    margin = sign * np.float32(temperature) * cosine
    total = weight.sum()
    loss = float((weight * np.logaddexp(0, -margin)).sum() / total)
    slope = -weight * sign * np.float32(temperature) / (1 + np.exp(margin)) / total
    direction = np.zeros_like(units)
    np.add.at(direction, a, slope[:, None] * units[b])
    np.add.at(direction, b, slope[:, None] * units[a])
    # d unit(z) / d z takes away the part along z.
    direction -= units * np.einsum("ij,ij->i", direction, units)[:, None]
    return loss, inputs.T @ (direction / lengths)
