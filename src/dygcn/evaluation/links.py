"""Link prediction: whether vectors at t tell the edges at t + 1 from pairs that are not linked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dygcn.records import Float32, Float64, Int64


def auc(linked: Float64, others: Float64) -> float:
    """Return the chance that a linked pair scores above another one, ties half.

    Examples
    --------
    >>> import numpy as np
    >>> auc(np.array([2.0, 1.0]), np.array([1.0, 0.0]))
    0.875
    """
    ranked = np.sort(others)
    below = np.searchsorted(ranked, linked, side="left")
    not_above = np.searchsorted(ranked, linked, side="right")
    return float((below + not_above).sum() / (2 * len(linked) * len(others)))


def strangers_for(edges: Int64, random: np.random.Generator) -> tuple[Int64, Int64]:
    """Return, for one random end of each edge, a uniform node that has an edge but none to that end.

    Parameters
    ----------
    edges
        (m, 2) undirected edges, each once.
    """
    active = np.unique(edges)
    size = int(active[-1]) + 1
    low, high = edges.min(axis=1), edges.max(axis=1)
    linked = np.sort(low * size + high)
    kept = edges[np.arange(len(edges)), random.integers(0, 2, len(edges))]
    strangers = random.choice(active, len(kept))
    for _ in range(1000):
        keys = np.minimum(kept, strangers) * size + np.maximum(kept, strangers)
        at = np.searchsorted(linked, keys).clip(max=len(linked) - 1)
        again = (linked[at] == keys) | (kept == strangers)
        if not again.any():
            break
        strangers[again] = random.choice(active, int(again.sum()))
    apart = ~again  # an end that is linked to everybody has no stranger
    return kept[apart], strangers[apart]


def link_scores(vectors: Float32, edges: Int64, random: np.random.Generator) -> tuple[Float64, Float64]:
    """Return the cosines of all edges and of as many uniform strangers.

    Parameters
    ----------
    vectors
        (n, dim) by node number; a row of zeros for a node without a vector scores 0.
    edges
        (m, 2) edges at the next step.
    """
    rows = vectors.astype(np.float64)  # vectors that are nearly parallel differ in the last bits only
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    units = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
    kept, strangers = strangers_for(edges, random)
    linked = np.einsum("ij,ij->i", units[edges[:, 0]], units[edges[:, 1]])
    return linked, np.einsum("ij,ij->i", units[kept], units[strangers])


def f1_at_median(linked: Float64, others: Float64) -> float:
    """Return the F1 score of "linked" above the median of all scores, as the authors of the paper did.

    Examples
    --------
    >>> import numpy as np
    >>> f1_at_median(np.array([3.0, 2.0, 0.5]), np.array([1.0, 0.0, -1.0]))
    0.6666666666666666
    """
    bar = np.median(np.concatenate((linked, others)))
    right, wrong = float((linked > bar).sum()), float((others > bar).sum())
    return 2 * right / (right + wrong + len(linked))


def link_auc(vectors: Float32, edges: Int64, random: np.random.Generator) -> float:
    """Return the AUC of the cosine on all edges against as many uniform strangers; see `link_scores`."""
    return auc(*link_scores(vectors, edges, random))
