"""What `recommend` gives up, and what it saves, by not scoring everyone: recall and time on real graphs.

Everyone is scored by `live.score`, which knows nothing of candidates; both rank ties by id.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dygcn._progress import Notify
from dygcn.live.embedding import LiveEmbedding
from dygcn.live.fitting import fit
from dygcn_lab.costs.graphs import graph_events
from dygcn_lab.costs.timing import load_average, parts_of

GRAPHS = ("college-msg", "as-733", "hepth-collab", "sx-mathoverflow", "digg-reply")
NODES, K, SEED = 100, 10, 0
ASKED = {
    "new": True,
    "next": False,
}  # score -> whether linked nodes are left out, as recommend does by default


def measure_recommend(
    graphs: Sequence[str] = (), *, nodes: int = NODES, k: int = K, notify: Notify | None = None
) -> dict[str, Any]:
    """Compare `recommend` with scoring everyone, for so many nodes of each graph, drawn with a fixed seed."""
    rows = []
    for name, tell in parts_of(list(graphs or GRAPHS), notify):
        tell(0, 4, "fitting")
        live = fit(graph_events(name), progress=False)
        ids = live.ids().tolist()
        drawn = np.random.default_rng(SEED).choice(len(ids), min(nodes, len(ids)), replace=False)
        about = {"graph": name, "nodes": len(live), "edges": live.edge_count}
        for number, links in enumerate(ASKED):
            tell(2 + number, 4, f"recommending, {links}")
            rows.append({**about, "links": links, **compared(live, [ids[at] for at in drawn], k, links)})
    return {"kind": "recommend", "k": k, "seed": SEED, "load_average": load_average(), "rows": rows}


def compared(live: LiveEmbedding, asked: Sequence[int | str], k: int, links: str) -> dict[str, float]:
    """Return recall, mean and least, and milliseconds of both ways."""
    recalls, took = [], np.zeros((2, len(asked)))
    recommended(live, asked[0], k, links)  # vectors are read once, and kept
    for at, node in enumerate(asked):
        took[0, at], found = _timed(recommended, live, node, k, links)
        took[1, at], best = _timed(best_of_everyone, live, node, k, links)
        recalls.append(len(set(found) & set(best)) / max(len(best), 1))
    mean = 1e3 * took.mean(axis=1)
    return {
        "asked": len(asked),
        "recall": float(np.mean(recalls)),
        "least_recall": float(np.min(recalls)),
        "recommend_ms": float(mean[0]),
        "everyone_ms": float(mean[1]),
        "times_faster": float(mean[1] / mean[0]),
    }


def recommended(live: LiveEmbedding, node: int | str, k: int, links: str) -> list[Any]:
    """Return the k nodes that are recommended."""
    return [one for one, _ in live.recommend(node, k, exclude_linked=ASKED[links], links=links)]


def best_of_everyone(live: LiveEmbedding, node: int | str, k: int, links: str) -> list[Any]:
    """Return the k nodes with the greatest scores, after scoring all; ties in the order of ids.

    Examples
    --------
    >>> live = fit([("u1", "tea"), ("u2", "tea"), ("u2", "jam")], dim=8)
    >>> best_of_everyone(live, "u1", 1, "new") == [live.recommend("u1", 1)[0][0]]
    True
    """
    out = {node, *(live.neighbors(node).tolist() if ASKED[links] else ())}
    others = [one for one in live.ids().tolist() if one not in out]
    best = np.argsort(-live.score(node, others, links), kind="stable")[:k]
    return [others[at] for at in best]


def _timed(call: Callable[..., list[int | str]], *arguments: Any) -> tuple[float, list[int | str]]:
    begun = time.perf_counter()
    found = call(*arguments)
    return time.perf_counter() - begun, found
