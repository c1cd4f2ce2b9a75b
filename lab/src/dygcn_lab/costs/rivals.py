"""What a batch is measured against: doing everything again, by us or by others."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dygcn.errors import MissingExtra
from dygcn_lab.costs.timing import timed, undisturbed
from dygcn_lab.testbed.own_state import own_state

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dygcn.engine.records import Int64
    from dygcn.live.embedding import LiveEmbedding

RECOMPUTE, CLEORA, CLEORA_READY, GCN = (
    "recompute in place",
    "Cleora rerun",
    "Cleora rerun, its graph ready",
    "GCN forward",
)
WORKERS = 2  # cores that others may use


@dataclass(frozen=True, slots=True)
class Rival:
    """Microseconds to be right again after any batch, medians."""

    name: str
    state_us: float
    vectors_us: float  # with the vectors of all nodes


def median_us(seconds: Sequence[float]) -> float:
    """Return the median in microseconds."""
    return 1e6 * statistics.median(seconds)


def recompute(live: LiveEmbedding, repeats: int) -> Rival:
    """Time the state from nothing, in place, and the reading of all vectors."""
    graph, rule = own_state(live).graph, own_state(live).exact
    nodes = graph.nodes()
    state, vectors = [], []
    for _ in range(repeats):
        with undisturbed():
            state.append(timed(lambda: rule.rebuild(graph)))
            vectors.append(state[-1] + timed(lambda: live._vectors_of(nodes)))
    return Rival(RECOMPUTE, median_us(state), median_us(vectors))


def cleora(edges: Int64, dim: int, repeats: int) -> list[Rival]:
    """Time Cleora as it is judged here, from lines of text in memory and from its own graph."""
    from dygcn_lab.baselines.cleora import Cleora, edge_lines, read_graph  # noqa: PLC0415

    method, lines = Cleora(dim=dim), edge_lines(edges)
    whole, ready = [], []
    for _ in range(repeats):
        with undisturbed():
            begun = time.perf_counter()
            graph = read_graph(lines, WORKERS)
            built = time.perf_counter()
            method.propagated(graph, WORKERS)
            done = time.perf_counter()
        whole.append(done - begun)
        ready.append(done - built)
    both = ((CLEORA, median_us(whole)), (CLEORA_READY, median_us(ready)))
    return [Rival(name, took, took) for name, took in both]


def gcn(edges: Int64, width: int, dim: int, repeats: int) -> list[Rival]:
    """Time one pass of a two-layer GCN, its matrix and features ready."""
    from dygcn_lab.baselines.gcn_forward import forward_seconds  # noqa: PLC0415

    took = median_us(forward_seconds(edges, (width, width, dim), WORKERS, repeats))
    return [Rival(GCN, took, took)]


def others(
    edges: Int64, width: int, dim: int, repeats: int, tell: Callable[[str], None]
) -> tuple[list[Rival], list[str]]:
    """Time what others published; return also a note for each that is not installed.

    Parameters
    ----------
    edges
        (m, 2), each once; nodes are numbers.
    tell
        Called before each with its name.
    """
    found: list[Rival] = []
    notes = []
    runs: dict[str, Callable[[], list[Rival]]] = {
        CLEORA: lambda: cleora(edges, dim, repeats),
        GCN: lambda: gcn(edges, width, dim, repeats),
    }
    for name, run in runs.items():
        tell(name)
        try:
            found += run()
        except MissingExtra as error:
            notes.append(f"left out: {name}. {error}")
    return found, notes
