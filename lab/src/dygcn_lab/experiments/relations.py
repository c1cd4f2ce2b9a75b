"""Do chosen weights of relations tell new links better than equal ones? Time split, test part read once.

``python -m dygcn_lab.experiments.relations results/relations/links.json`` takes the folder of the data sets
from ``DYGCN_DATA``. The first 80 % of the events are the training part, on which weights are chosen and
models fitted. Test links are pairs that are linked for the first time in the rest, between nodes that the
training part knows; each has a negative that shares an end with it. All models of a seed are asked the same.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import dygcn
from dygcn.engine.measures import PairSet, draw_negatives, one_end

SETS = ("bitcoin-otc", "icews14")
WAYS = ("none", "equal", "choose")
"""None: one edge for each pair, whatever its relations are."""
MEASURES = ("cosine", "new")
"""Scores of links: the cosine of two vectors, and the head that is fitted for new links."""
SEEDS, DIM, TRAINING, RESAMPLES = range(5), 64, 0.8, 2000


def read(name: str, folder: Path) -> dict[str, Any]:
    """Return the events of a set, sorted by time, with a column `relation`."""
    table = pq.read_table(folder / name / "edges.parquet")
    columns = {field: table[field].to_numpy() for field in ("src", "dst", "t")}
    if name == "bitcoin-otc":
        relation = np.where(table["rating"].to_numpy() > 0, "trust", "distrust")
    else:
        relation = table["kind"].to_numpy().astype(str)
    order = np.argsort(columns["t"], kind="stable")
    return {field: values[order] for field, values in (columns | {"relation": relation}).items()}


def ask(events: dict[str, Any], seed: int) -> tuple[dict[str, Any], np.ndarray, np.ndarray, np.ndarray]:
    """Return the training part, test links, their negatives, and the relation of each link."""
    cut = int(TRAINING * len(events["t"]))
    ends = np.sort(np.stack((events["src"], events["dst"]), axis=1), axis=1).astype(np.int64)
    known, nodes = PairSet(ends[:cut], int(ends.max()) + 1), np.unique(ends[:cut])
    later, first = np.unique(ends[cut:], axis=0, return_index=True)
    new = np.isin(later, nodes).all(axis=1) & ~known.has(*later.T) & (later[:, 0] != later[:, 1])
    links, random = later[new], np.random.default_rng([seed, 9])
    apart = known, PairSet(links, int(ends.max()) + 1)
    others = np.stack(draw_negatives(one_end(links, random), nodes, apart, random), axis=1)
    training = {field: values[:cut] for field, values in events.items()}
    return training, links, others, events["relation"][cut:][first[new]]


def placements(live: dygcn.LiveEmbedding, links: np.ndarray, others: np.ndarray, by: str) -> np.ndarray:
    """Return for each link which share of the negatives scores less: their mean is the AUC."""
    scores = []
    for pairs in (links, others):
        here = np.array([a in live and b in live for a, b in pairs.tolist()])
        scores.append(np.full(len(pairs), -np.inf))  # nobody knows who has no edge
        a, b = pairs[here].T.tolist()
        if by == "cosine":
            first, second = live.vectors(a), live.vectors(b)
            lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
            scores[-1][here] = (first * second).sum(axis=1) / np.maximum(lengths, 1e-12)
        else:
            scores[-1][here] = live.score(a, b, links=by)
    ordered = np.sort(scores[1])
    below, upto = (np.searchsorted(ordered, scores[0], side) for side in ("left", "right"))
    return (below + upto) / 2 / len(ordered)


def run(name: str, folder: Path) -> dict[str, Any]:
    """Return what was measured on one set."""
    events = read(name, folder)
    found: dict[str, list[Any]] = {way: [] for way in WAYS}
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    chosen = []
    relation_of = np.empty(0, str)
    for seed in SEEDS:
        training, links, others, relation_of = ask(events, seed)
        for way in WAYS:
            options: dict[str, Any] = (
                {} if way == "none" else {"relation": "relation", "relation_weights": way}
            )
            begun = time.perf_counter()
            live = dygcn.fit(training, dim=DIM, seed=seed, progress=False, **options)
            seconds[way].append(time.perf_counter() - begun)
            found[way].append([placements(live, links, others, by) for by in MEASURES])
            if way == "choose":
                chosen.append(_short(live.model.relations, training["relation"]))
    arrays = {way: np.array(values) for way, values in found.items()}  # (seeds, measures, links)
    only = {"all links": np.ones(len(relation_of), bool)}
    if name == "bitcoin-otc":
        only["links of trust"] = relation_of == "trust"
    return {
        "events": len(events["t"]),
        "relations": len(np.unique(events["relation"])),
        "test links": len(relation_of),
        "seconds of fit": {way: float(np.median(times)) for way, times in seconds.items()},
        "chosen": chosen,
        "auc": {
            f"{which}, {by}": {way: _mean(values[:, at][:, rows]) for way, values in arrays.items()}
            for which, rows in only.items()
            for at, by in enumerate(MEASURES)
        },
        "differences": {
            f"{which}, {by}, {one} - {other}": _difference(
                arrays[one][:, at][:, rows], arrays[other][:, at][:, rows]
            )
            for which, rows in only.items()
            for at, by in enumerate(MEASURES)
            for one, other in (("choose", "equal"), ("equal", "none"), ("choose", "none"))
        },
    }


def _short(weights: Any, relation: np.ndarray) -> dict[str, Any]:
    """Return the weights of the eight most frequent relations, and how many of all have which weight."""
    names, counts = np.unique(relation, return_counts=True)
    most = names[np.argsort(-counts, kind="stable")][:8].tolist()
    values, many = np.unique(list(weights.values()), return_counts=True)
    return {
        "most frequent": {name: weights[name] for name in most},
        "relations by weight": dict(zip(map(str, values.tolist()), many.tolist(), strict=True)),
    }


def _mean(placed: np.ndarray) -> dict[str, Any]:
    by_seed = placed.mean(axis=1)
    return {"mean": float(by_seed.mean()), "by seed": by_seed.round(4).tolist()}


def _difference(one: np.ndarray, other: np.ndarray) -> dict[str, float]:
    """Return the mean difference over seeds, and 95 % of it when links are drawn again."""
    of_links = (one - other).mean(axis=0)
    random = np.random.default_rng(1)
    drawn = [random.choice(of_links, len(of_links)).mean() for _ in range(RESAMPLES)]
    low, high = np.quantile(drawn, (0.025, 0.975))
    return {"mean": float(of_links.mean()), "low": float(low), "high": float(high)}


def main(out: str) -> None:
    """Measure both sets, and write the result."""
    folder = Path(os.environ["DYGCN_DATA"])
    result = {"dim": DIM, "seeds": len(SEEDS), "sets": {name: run(name, folder) for name in SETS}}
    Path(out).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
