"""Classes of nodes with and without given features, of nodes in the fit and of newcomers.

`python -m dygcn_lab.experiments.feature_classes [SET]...` writes results/features/classes.json, in the root
of the repository; `--trained` also fits `features=x` alone, which takes minutes. The sets are looked for in
the folder that DYGCN_DATA names.

Logistic regression with scikit-learn's defaults on a fifth of the labels, five splits. A fit sees no label:
it weighs features by held-out links. The recipe that all fits share (projection, shares that are tried, how
far from the best AUC is enough) was settled with the accuracies of cora, fb100-amherst41 and patent-labelled
in view, newcomers included; those of dblp-labelled were not looked at before. patent-labelled and
dblp-labelled have no features: theirs are drawn at random, and must not harm.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dygcn
from dygcn.engine.features.tables import NodeColumns, read_nodes
from dygcn.engine.records import Float32, Int64
from dygcn_lab.evaluation.classes import FrozenClassifier
from dygcn_lab.report.blocks import with_blocks, write_json
from dygcn_lab.report.tables import rows_table

RESULT = Path("results/features/classes.json")
PAGE = Path("docs/features.md")
SPLITS, LABELLED, NEWCOMERS = 5, 0.2, 0.2
LEAST = 50
"""Nodes of a class; smaller ones are not asked for."""


@dataclass(frozen=True)
class Labelled:
    """A graph whose nodes 0, 1, 2 and so on have classes and features."""

    src: Int64
    dst: Int64
    labels: Int64  # -1: none
    matrix: Float32 | None = None  # features as numbers
    nodes: dict[str, Any] | None = None  # features as a table

    def features(self, some: Int64) -> dict[str, Any]:
        """Return what `fit` takes for the features of some nodes."""
        if self.nodes is None:
            assert self.matrix is not None
            return {"features": ["walks", (some, self.matrix[some])]}
        return {"nodes": self.table(some)}

    def table(self, some: Int64) -> dict[str, Any]:
        """Return the rows of some nodes."""
        assert self.nodes is not None
        return {"id": some, **{name: values[some] for name, values in self.nodes.items()}}

    def give(self, live: dygcn.LiveEmbedding, some: Int64) -> None:
        """Give some nodes their features, later."""
        if self.nodes is None:
            assert self.matrix is not None
            live.set_features(some, self.matrix[some])
        else:
            live.set_features(nodes=self.table(some))


def read_set(name: str, folder: Path) -> Labelled:
    """Read one of `SETS`."""
    edges, nodes = (pq.read_table(folder / name / f"{part}.parquet") for part in ("edges", "nodes"))
    src, dst = (np.asarray(edges[end], np.int64) for end in ("src", "dst"))
    return SETS[name](folder / name, nodes, src, dst)


def _cora(folder: Path, nodes: pa.Table, src: Int64, dst: Int64) -> Labelled:
    words = pq.read_table(folder / "features.parquet")
    at = np.asarray(words["id"]), np.asarray(words["word"])
    matrix = np.zeros((len(nodes), int(at[1].max()) + 1), np.float32)
    matrix[at] = 1.0
    mixed = np.random.default_rng(0).permutation(len(src))  # the file is in the order of ids
    return Labelled(src[mixed], dst[mixed], np.asarray(nodes["label"], np.int64), matrix)


def _amherst(folder: Path, nodes: pa.Table, src: Int64, dst: Int64) -> Labelled:
    year = np.asarray(nodes["year"], np.int64)
    names = ("status", "gender", "major", "second_major", "dorm", "high_school")
    columns = {name: np.asarray(nodes[name]).astype(str).astype(object) for name in names}
    for values in columns.values():
        values[values == "0"] = None
    return Labelled(src, dst, np.where(year > 0, year, -1), nodes=columns)


def _noise(folder: Path, nodes: pa.Table, src: Int64, dst: Int64) -> Labelled:
    random, count = np.random.default_rng(0), len(nodes)
    columns = {
        "letter": np.array(list("abcdefghijklmnopqrst"), object)[random.integers(0, 20, count)],
        "one": random.normal(size=count),
        "other": random.normal(size=count),
    }
    return Labelled(src, dst, np.asarray(nodes["label"], np.int64), nodes=columns)


SETS: dict[str, Callable[[Path, pa.Table, Int64, Int64], Labelled]] = {
    "cora": _cora,
    "fb100-amherst41": _amherst,
    "patent-labelled": _noise,
    "dblp-labelled": _noise,
}


def accuracies(vectors: Float32, labels: Int64, ask: Int64 | None = None) -> list[float]:
    """Return the accuracy of each split, on all other nodes or on those of `ask`, which are not learned."""
    classes, counts = np.unique(labels[labels >= 0], return_counts=True)
    judged = np.isin(labels, classes[counts >= LEAST])
    rest = np.setdiff1d(np.flatnonzero(judged), np.empty(0, np.int64) if ask is None else ask)
    found = []
    for split in range(SPLITS):
        order = np.random.default_rng(split).permutation(rest)
        learned = np.zeros(len(labels), np.bool_)
        learned[order[: int(LABELLED * len(order))]] = True
        model = FrozenClassifier(vectors, labels, learned)
        asked = judged & ~learned
        if ask is not None:
            asked &= np.isin(np.arange(len(labels)), ask)
        found.append(model.accuracy(vectors, asked)[0])
    return found


def _vectors(live: dygcn.LiveEmbedding, count: int) -> Float32:
    out = np.zeros((count, live.model.dim), np.float32)
    out[live.ids()] = live.vectors()
    return out


def judge_fit(data: Labelled, trained: bool = False) -> dict[str, dict[str, Any]]:
    """Return accuracy and seconds of each sort of features, for nodes that were in the fit."""
    everyone = np.arange(len(data.labels))
    events = {"src": data.src, "dst": data.dst}
    options: dict[str, dict[str, Any]] = {"walks": {}, "walks+given": data.features(everyone)}
    if trained:
        alone = data.matrix if data.matrix is not None else _encoded(data)
        options["given, trained"] = {"features": (everyone, alone)}
    found = {}
    for name, asked in options.items():
        begun = time.perf_counter()
        live = dygcn.fit(events, progress=False, **asked)
        seconds = time.perf_counter() - begun
        figures = accuracies(_vectors(live, len(everyone)), data.labels)
        block = live.model.projection
        share = {} if block is None else {"share": block.share, "columns": block.matrix.shape[1]}
        found[name] = _summary(figures) | {"fit_seconds": round(seconds, 2), **share}
    return found


def _encoded(data: Labelled) -> Float32:
    """Return the features that `nodes=` makes of a table."""
    table = read_nodes(data.table(np.arange(len(data.labels))))
    return NodeColumns.of(table).encode(table)


def judge_newcomers(data: Labelled) -> dict[str, dict[str, Any]]:
    """Return the accuracy on nodes that arrive after the fit, with their edges, with and without features."""
    count = len(data.labels)
    late = np.random.default_rng(7).permutation(count)[: int(NEWCOMERS * count)]
    is_late = np.isin(np.arange(count), late)
    before = ~(is_late[data.src] | is_late[data.dst])
    early, later = ({"src": data.src[rows], "dst": data.dst[rows]} for rows in (before, ~before))
    found = {}
    plain = dygcn.fit(early, progress=False)
    plain.update(later)
    found["walks"] = _summary(accuracies(_vectors(plain, count), data.labels, late))
    live = dygcn.fit(early, progress=False, **data.features(np.flatnonzero(~is_late)))
    live.update(later)
    found["walks+given, newcomers without"] = _summary(accuracies(_vectors(live, count), data.labels, late))
    data.give(live, np.sort(late))
    found["walks+given"] = _summary(accuracies(_vectors(live, count), data.labels, late))
    live.update(remove=later)
    found["walks+given, before any edge"] = _summary(accuracies(_vectors(live, count), data.labels, late))
    return found


def _summary(figures: list[float]) -> dict[str, Any]:
    return {"accuracy": round(float(np.mean(figures)), 4), "deviation": round(float(np.std(figures)), 4)}


def table(rows: dict[str, Any]) -> str:
    """Return accuracies as a table of the page on features."""
    lines = []
    for name in [name for name in SETS if name in rows]:
        nodes, late = rows[name]["nodes"], rows[name]["newcomers"]
        cells = [_cell(nodes.get(sort)) for sort in ("walks", "walks+given", "given, trained")]
        cells.insert(2, f"{nodes['walks+given']['share']:g}")
        cells += [f"{late[sort]['accuracy']:.3f}" for sort in ("walks", "walks+given")]
        lines.append([name, *cells])
    columns = "set", "walks", "walks and features", "share", "features alone, trained"
    return rows_table((*columns, "newcomers, walks", "and features"), lines)


def _cell(found: dict[str, Any] | None) -> str:
    return "-" if found is None else f"{found['accuracy']:.3f} ± {found['deviation']:.3f}"


def main(arguments: list[str]) -> None:
    """Measure, and write the result and the table of the page."""
    folder, trained = Path(os.environ["DYGCN_DATA"]), "--trained" in arguments
    names = [name for name in arguments if not name.startswith("-")] or list(SETS)
    rows = msgspec.json.decode(RESULT.read_bytes()) if RESULT.exists() else {}
    for name in names:
        data = read_set(name, folder)
        rows[name] = {"nodes": judge_fit(data, trained), "newcomers": judge_newcomers(data)}
        write_json(rows, RESULT)
    PAGE.write_text(with_blocks(PAGE, {"feature classes": table(rows)}), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
