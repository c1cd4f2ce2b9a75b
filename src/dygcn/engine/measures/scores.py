"""How well scores separate links from other pairs: the area under the ROC curve, cosines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dygcn.engine.records import Float32, Float64, Int64


def auc(linked: Float64, others: Float64) -> float:
    """Return the chance that a linked pair scores above another one, ties half."""
    ranked = np.sort(others)
    below = np.searchsorted(ranked, linked, side="left")
    not_above = np.searchsorted(ranked, linked, side="right")
    return float((below + not_above).sum() / (2 * len(linked) * len(others)))


def unit_rows(vectors: Float32) -> Float64:
    """Return the rows at length one, in float64: nearly parallel vectors differ in the last bits only."""
    rows = vectors.astype(np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    units: Float64 = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
    return units


def pair_cosines(units: Float64, pairs: Int64) -> Float64:
    """Return the cosine of each pair of rows; a row of zeros scores 0."""
    found: Float64 = np.einsum("ij,ij->i", units[pairs[:, 0]], units[pairs[:, 1]])
    return found
