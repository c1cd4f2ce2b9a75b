"""Fit on the first half of the steps, follow the second half, and ask each step for the next edges.

Beside the learned matrices stand the two rows that a user should always see: *do nothing* (vectors
frozen when fitting ended) and *recompute with fixed weights* (the starting matrices, never trained).
"""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dygcn.evaluation import Snapshots, link_auc
from dygcn.live import LiveEmbedding, fit
from dygcn.models import read_vectors
from dygcn.training import starting_matrices

if TYPE_CHECKING:
    from dygcn.models import Model
    from dygcn.records import Float32, Int64


@dataclass(frozen=True)
class Steps:
    """Events numbered by step: step 0 is the graph at the start."""

    src: Int64
    dst: Int64
    op: Int64
    step: Int64
    fitted: int  # the last step that is fitted on

    def part(self, first: int, last: int) -> Steps:
        """Return the events of steps first..last."""
        keep = (self.step >= first) & (self.step <= last)
        return Steps(self.src[keep], self.dst[keep], self.op[keep], self.step[keep], self.fitted)

    def table(self) -> dict[str, Any]:
        """Return the events as `dygcn.fit` takes them."""
        return {"src": self.src, "dst": self.dst, "op": self.op, "t": self.step}

    @property
    def last(self) -> int:
        """Number of the last step."""
        return int(self.step.max())


def window_steps(src: Int64, dst: Int64, t: Int64, op: Int64, first: int, last: int) -> Steps:
    """Number snapshot data: snapshot `first` is step 0, whatever came before it is forgotten."""
    kept = t <= last
    src, dst, t, op = src[kept], dst[kept], t[kept], op[kept]
    begun = t <= first
    edges = Snapshots().apply(src[begun], dst[begun], op[begun])
    return Steps(
        np.concatenate((edges[:, 0], src[~begun])),
        np.concatenate((edges[:, 1], dst[~begun])),
        np.concatenate((np.ones(len(edges), np.int64), op[~begun])),
        np.concatenate((np.zeros(len(edges), np.int64), t[~begun] - first)),
        (last - first + 1) // 2 - 1,
    )


def equal_steps(src: Int64, dst: Int64, t: Int64, count: int, start: float = 0.4) -> Steps:
    """Number a stream: the first 40 % of the events, then so many parts with equally many events."""
    order = np.argsort(t, kind="stable")
    begun = int(len(order) * start)
    parts = np.linspace(begun, len(order), count + 1).round().astype(np.int64)
    step = np.searchsorted(parts, np.arange(len(order)), side="right")
    return Steps(src[order], dst[order], np.ones(len(order), np.int64), step.astype(np.int64), count // 2)


def judge_links(steps: Steps, seed: int = 0, **options: Any) -> dict[str, Any]:
    """Return mean AUC (all edges at t + 1, uniform strangers) of the three rows, and what it cost.

    Parameters
    ----------
    steps
        The first half is fitted on, the second half only updated through.
    options
        For `dygcn.fit`.
    """
    half = steps.fitted
    begun = time.perf_counter()
    live = fit(steps.part(0, half).table(), seed=seed, **options)
    fitted = time.perf_counter() - begun
    model = live.model
    plain = dataclasses.replace(
        model, weights=starting_matrices(model.width, model.dim, model.orders, model.seed)
    )
    nodes = int(max(steps.src.max(), steps.dst.max())) + 1
    frozen = _read(live, model, nodes)
    graph = Snapshots()
    known = steps.part(0, half)
    graph.apply(known.src, known.dst, known.op)
    scores: dict[str, list[float]] = {"learned": [], "fixed": [], "stale": []}
    for step in range(half, steps.last):
        rows = {
            "learned": _read(live, model, nodes),
            "fixed": _read(live, plain, nodes),
            "stale": frozen,
        }
        coming = steps.part(step + 1, step + 1)
        edges = graph.apply(coming.src, coming.dst, coming.op)
        for name, vectors in rows.items():
            scores[name].append(link_auc(vectors, edges, np.random.default_rng([seed, step])))
        live.update(coming.table())
    return {
        **{name: float(np.mean(values)) for name, values in scores.items()},
        "test_steps": steps.last - half,
        "fit_seconds": fitted,
    }


def by_number(ids: Int64, vectors: Float32, nodes: int) -> Float32:
    """Return a table with a row for every node number; zero for nodes without a vector.

    Examples
    --------
    >>> by_number(np.array([2, 0]), np.array([[5.0], [7.0]], np.float32), 3).ravel().tolist()
    [7.0, 0.0, 5.0]
    """
    out = np.zeros((nodes, vectors.shape[1]), np.float32)
    out[ids] = vectors
    return out


def _read(live: LiveEmbedding, model: Model, nodes: int) -> Float32:
    state = live.state
    return by_number(live.ids(), read_vectors(model, state.rule, state.graph, state.graph.nodes()), nodes)
