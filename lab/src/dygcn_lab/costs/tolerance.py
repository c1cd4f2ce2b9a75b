"""What a tolerance saves whoever is told of changes, and how far from exact vectors what was told becomes."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from dygcn._progress import Notify
from dygcn.engine.records import EventBatch, Float32, Int64, Nodes
from dygcn.live.change import Change
from dygcn.live.embedding import LiveEmbedding, start
from dygcn.live.fitting import fit
from dygcn_lab.costs.graphs import graph_events
from dygcn_lab.costs.kinds import DIM, random_walks
from dygcn_lab.costs.timing import load_average, parts_of
from dygcn_lab.costs.traffic import Traffic, as_users_do

GRAPHS = ("college-msg", "sx-mathoverflow", "as-caida", "arxiv-coauthor")
TOLERANCES = (0.0, 0.003, 0.01, 0.03)
EVENTS = 2000
FITTED, RANDOM = "fitted", "random rows"  # the model of a graph; both have walk features
_MOST_FITTED = 50_000  # nodes; a larger graph has random rows, which cost the same
_ASKED, _K, _AT_ONCE = 200, 10, 50
_SLACK = 1e-6  # vectors are float32


class Mirror:
    """The vectors that a sink holds: all of them once, then those of nodes that a change lists.

    Examples
    --------
    >>> live = fit([("ann", "bob"), ("bob", "cat")], dim=4)
    >>> mirror = Mirror(live)
    >>> mirror.write(live.update(add=[("ann", "cat")]))
    >>> mirror.rows, float(mirror.distances().max())
    (3, 0.0)
    """

    def __init__(self, live: LiveEmbedding) -> None:
        nodes = live._state.graph.nodes()
        self._live, self.rows = live, 0
        self._vectors = np.zeros((live._state.graph.ids.high, live.model.dim), np.float32)
        self._vectors[nodes] = live._vectors_of(nodes)

    def write(self, change: Change) -> None:
        """Write the vectors of the nodes that moved."""
        self._vectors[change._nodes] = change.vectors
        self.rows += len(change)

    def compare(self) -> tuple[Nodes, Float32, Float32]:
        """Return the nodes of the graph, their vectors here, and the exact ones."""
        nodes = self._live._state.graph.nodes()
        return nodes, self._vectors[nodes], self._live._vectors_of(nodes)

    def distances(self) -> Float32:
        """Return how far the vector of each node is from the exact one."""
        _, here, exact = self.compare()
        found: Float32 = np.linalg.norm(here - exact, axis=1)
        return found


def measure_tolerance(
    graphs: Sequence[str] = (),
    *,
    tolerances: Sequence[float] = TOLERANCES,
    events: int = EVENTS,
    seed: int = 0,
    notify: Notify | None = None,
) -> dict[str, Any]:
    """Apply the same single events with each tolerance, and write what is listed as moved to a sink.

    The default model is fitted on graphs of up to 50,000 nodes; each node of a larger one has a random row.
    Rows are compared with those of the first tolerance.
    """
    rows: list[dict[str, Any]] = []
    for name, tell in parts_of(list(graphs or GRAPHS), notify):
        tell(0, len(tolerances) + 1, "fitting")
        drawn = graph_events(name, seed)
        live, model = _model_of(drawn, seed)
        found: list[dict[str, Any]] = []
        for number, tolerance in enumerate(tolerances):
            tell(number + 1, len(tolerances) + 1, f"tolerance {tolerance:g}")
            row = _publish(copy.deepcopy(live), drawn, tolerance, events, seed)
            first = found[0] if found else row
            row["times_fewer_rows"] = first["rows_per_event"] / row["rows_per_event"]
            found.append({"graph": name, "model": model, **row})
        rows += found
    return {"kind": "tolerance", "events": events, "load_average": load_average(), "rows": rows}


def _model_of(drawn: EventBatch, seed: int) -> tuple[LiveEmbedding, str]:
    model = random_walks(drawn, DIM, seed=seed)
    assert model.table is not None
    if len(model.table) <= _MOST_FITTED:
        return fit(drawn, dim=DIM, progress=False), FITTED
    live = start(model)
    live.update(dataclasses.replace(drawn, t=None))
    return live, RANDOM


def _publish(
    live: LiveEmbedding, drawn: EventBatch, tolerance: float, events: int, seed: int
) -> dict[str, Any]:
    traffic, mirror = Traffic(live._state.graph, drawn, seed), Mirror(live)
    live.publish(tolerance=tolerance)
    for _ in range(events):
        mirror.write(live.update(**as_users_do(traffic.round(1)[0])))
    written = mirror.rows
    nodes, here, exact = mirror.compare()
    distances = mirror.distances()
    bound = live.error_bound(live._ids_of(nodes))
    asked = np.random.default_rng(seed).choice(len(nodes), min(_ASKED, len(nodes)), replace=False)
    recall = found_again(here, exact, asked)
    mirror.write(live.publish())
    _, here, exact = mirror.compare()
    return {
        "tolerance": tolerance,
        "rows_per_event": written / events,
        "error": float(np.sqrt((distances.astype(np.float64) ** 2).mean())),
        "worst": float(distances.max()),
        "bound": float(bound.max()),
        "within_bound": bool((distances <= bound + _SLACK).all()),
        "recall": recall,
        "same_bits": bool((here.view(np.int32) == exact.view(np.int32)).all()),
    }


def found_again(here: Float32, exact: Float32, asked: Int64, k: int = _K) -> float:
    """Return the recall at k of nearest neighbours by vectors of a sink, against exact ones.

    One that is found is right if its exact cosine is among the k greatest, or equal to the last of them:
    nodes with the same neighbours can have the same vector.

    Examples
    --------
    >>> exact, asked = np.float32([[1, 0], [0, 1], [2, 1], [2, 1], [1, 2]]), np.array([0])
    >>> found_again(np.float32([[1, 0], [0, 1], [2, 1.1], [2, 1], [1, 2]]), exact, asked, 1)  # one of two
    1.0
    >>> found_again(np.float32([[1, 0], [0, 1], [2, 1], [2, 1], [1, 0]]), exact, asked, 1)
    0.0
    """
    right = 0
    for at in range(0, len(asked), _AT_ONCE):
        some = asked[at : at + _AT_ONCE]
        by_sink, by_exact = _cosines(here, some), _cosines(exact, some)
        found = np.argpartition(-by_sink, k - 1, axis=1)[:, :k]
        last = -np.partition(-by_exact, k - 1, axis=1)[:, k - 1 : k]
        right += int((np.take_along_axis(by_exact, found, axis=1) >= last - _SLACK).sum())
    return right / (k * len(asked))


def _cosines(vectors: Float32, asked: Int64) -> Float32:
    """Return the cosines of some rows with all, each with itself left out."""
    cosines: Float32 = vectors[asked] @ vectors.T / np.maximum(np.linalg.norm(vectors, axis=1), 1e-12)
    cosines /= np.maximum(np.linalg.norm(vectors[asked], axis=1, keepdims=True), 1e-12)
    cosines[np.arange(len(asked)), asked] = -np.inf
    return cosines
