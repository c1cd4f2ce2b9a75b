"""Does surprise find events that should not have happened? Planted ones, among those that did.

``python -m dygcn_lab.experiments.unusual OUT.json SET...`` takes the folder of the data sets from
``DYGCN_DATA``. A model is fitted on the first 70 % of the events of a set; into the rest, or a part of it,
events are planted, one in twenty: an asker with a *random* partner, with a *popular* one (drawn as events
are), or with whom another asker, any one, had last, as a *stolen* account would be used. AUC: a planted event
against real ones, by the surprise, by its rank among the asker's own, and by how far the two vectors moved.

Of some events the sum over all candidates is computed as well: how far the drawn one is from it, and how
often answers were as likely as was said. Sets whose events have labels (an edit after which an account was
banned) say how well surprise finds these, beside how few events their asker had.
"""

from __future__ import annotations

import copy
import json
import os
import time
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow.parquet as pq

import dygcn
from dygcn.engine.measures import auc
from dygcn.engine.records import Bool, Float64, IdColumn, Int64
from dygcn_lab.evaluation.following import Stream
from dygcn_lab.experiments.following import read

KINDS = ("random", "popular", "stolen")
ONE_OF = 20
EDGES = np.exp(np.arange(-12.0, 0.1))  # of the bins of P
_SUMMED = 400  # events, at most, whose candidates are all summed


def planted(stream: Stream, begin: int, end: int, kind: str, seed: int) -> tuple[dict[str, Any], Bool]:
    """Return events with some that never happened, and which these are.

    A planted event stands behind a real one, and has its asker and its time.
    """
    random = np.random.default_rng([seed, KINDS.index(kind)])
    rows = np.sort(random.choice(np.arange(begin, end), (end - begin) // ONE_OF, replace=False))
    nodes = np.unique(stream.dst[:begin])
    if kind == "random":
        partner = random.choice(nodes, len(rows))
    elif kind == "popular":
        partner = stream.dst[random.integers(0, begin, len(rows))]
    else:
        last = dict(zip(stream.src[:begin].tolist(), stream.dst[:begin].tolist(), strict=True))
        partner = random.choice(np.array(list(last.values())), len(rows))
    usable = partner != stream.src[rows]
    rows, partner = rows[usable], partner[usable]
    place = rows - begin + 1
    table = {
        "src": np.insert(stream.src[begin:end], place, stream.src[rows]),
        "dst": np.insert(stream.dst[begin:end], place, partner),
        "t": np.insert(stream.t[begin:end], place, stream.t[rows]),
        "op": np.insert(stream.op[begin:end], place, 1),
    }
    return table, np.insert(np.zeros(end - begin, np.bool_), place, True)


def measure(live: dygcn.LiveEmbedding, table: dict[str, Any]) -> tuple[Float64, Float64, float]:
    """Return surprise and rank of every event, and microseconds an event."""
    live.track(surprise=True)
    value, rank, spent = [], [], 0.0
    for begin in range(0, len(table["t"]), 100):
        part = {name: column[begin : begin + 100] for name, column in table.items()}
        begun = time.perf_counter()
        found = live.update(part).surprise
        spent += time.perf_counter() - begun
        value.append(found.value)
        rank.append(found.rank)
    return np.concatenate(value), np.concatenate(rank), 1e6 * spent / len(table["t"])


def distances(live: dygcn.LiveEmbedding, table: dict[str, Any], rows: Int64) -> Float64:
    """Return how far the further of the two ends moved, of some events."""
    live.track(distances=True)
    found, seen = np.full(len(rows), np.nan), 0
    for at, row in enumerate(rows.tolist()):
        if row > seen:
            live.update({name: column[seen:row] for name, column in table.items()})
        change = live.update({name: column[row : row + 1] for name, column in table.items()})
        seen = row + 1
        ends = np.isin(change.ids, [table["src"][row], table["dst"][row]])
        moved = change.distance[ends]
        found[at] = np.nanmax(moved) if np.isfinite(moved).any() else np.inf
    return found


def run(
    stream: Stream, share: tuple[float, float], labels: Int64 | None = None, seed: int = 0
) -> dict[str, Any]:
    """Return what was measured on one set."""
    begin, end = int(share[0] * len(stream)), int(share[1] * len(stream))
    model = dygcn.fit(stream.part(0, stream.fitted), seed=seed, progress=False)
    found: dict[str, Any] = {}
    for kind in KINDS:
        table, fake = planted(stream, begin, end, kind, seed)
        value, rank, cost = measure(_copy(model, stream, begin), table)
        some = np.random.default_rng(seed).permutation(len(fake))[:2000]
        some = np.sort(some)
        far = distances(_copy(model, stream, begin), table, some)
        known = np.isfinite(value)
        ranked = np.isfinite(rank)
        found[kind] = {
            "planted": int(fake.sum()),
            "surprise": round(auc(value[known & fake], value[known & ~fake]), 4),
            "rank": round(auc(rank[ranked & fake], rank[ranked & ~fake]), 4),
            "distance": round(auc(far[fake[some]], far[~fake[some]]), 4),
            "us an event": round(cost, 1),
        }
    found["sums"] = sums(_copy(model, stream, begin), stream, begin, end)
    if labels is not None:
        found["labels"] = labelled(_copy(model, stream, begin), stream, begin, labels)
    return found


def sums(live: dygcn.LiveEmbedding, stream: Stream, begin: int, end: int) -> dict[str, Any]:
    """Compare drawn sums with whole ones, and P with how often it came true."""
    live.track(surprise=True)
    rows = np.unique(np.linspace(begin, end - 1, _SUMMED).astype(np.int64))
    rows, seen, far = rows[stream.op[rows] > 0], begin, []
    said, came = np.zeros(len(EDGES) + 1), np.zeros(len(EDGES) + 1)
    for row in rows.tolist():
        live.update(stream.part(seen, row))
        likely, answer = _whole(live, stream, row)
        value = float(live.update(stream.part(row, row + 1)).surprise.value[0])
        seen = row + 1
        far.append(value + float(np.log(likely[answer])))
        bins = np.digitize(likely, EDGES)
        said += np.bincount(bins, likely, len(said))
        came[bins[answer]] += 1
    size = np.abs(far)
    return {
        "events": len(far),
        "error, mean": round(float(np.mean(far)), 4),
        "error, median size": round(float(np.median(size)), 4),
        "error, 90 % of sizes below": round(float(np.quantile(size, 0.9)), 4),
        "P from": [0.0, *EDGES.round(7).tolist()],
        "expected answers": said.round(2).tolist(),
        "answers": came.astype(int).tolist(),
    }


def _whole(live: dygcn.LiveEmbedding, stream: Stream, row: int) -> tuple[Float64, int]:
    """Return P of everybody before an event, and which of them is the answer."""
    history, head = live._state.history, live.model.following
    assert history is not None
    assert head is not None
    asker, answer = (int(history.find(IdColumn(end[row : row + 1]))[0]) for end in (stream.src, stream.dst))
    everybody = np.arange(len(history), dtype=np.int32)
    if answer < 0:
        everybody = np.append(everybody, np.int32(-1))
    scores = head.parts(history.columns(asker, everybody, float(stream.t[row]))).sum(axis=1)
    likely = np.exp(scores - scores.max())
    return likely / likely.sum(), answer % len(everybody)


def labelled(live: dygcn.LiveEmbedding, stream: Stream, begin: int, labels: Int64) -> dict[str, Any]:
    """Return how well labelled events are found, by surprise, rank, and how few events the asker had."""
    value, rank, _ = measure(live, stream.part(begin, len(stream)))
    order = np.argsort(stream.src, kind="stable")
    firsts = np.searchsorted(stream.src[order], stream.src[order], "left")
    count = np.empty(len(stream), np.int64)
    count[order] = np.arange(len(stream)) - firsts
    bad = labels[begin:] > 0
    ways = {"surprise": value, "rank": rank, "few events of the asker": -count[begin:].astype(np.float64)}
    found: dict[str, Any] = {"labelled": int(bad.sum()), "of": len(bad)}
    for name, values in ways.items():
        known = np.isfinite(values)
        found[name] = round(auc(values[known & bad], values[known & ~bad]), 4)
    return found


def _copy(live: dygcn.LiveEmbedding, stream: Stream, begin: int) -> dygcn.LiveEmbedding:
    """Return a copy that has seen everything before some event."""
    other = copy.deepcopy(live)
    if begin > stream.fitted:
        other.update(stream.part(stream.fitted, begin))
    return other


def read_labels(name: str, folder: Path) -> Int64:
    """Return the labels of events, in the order of `read`."""
    table = pq.read_table(folder / name / "edges.parquet")
    src, dst, t, label = (table[column].to_numpy() for column in ("src", "dst", "t", "label"))
    rows = np.flatnonzero(src != dst)
    found: Int64 = label[rows[np.argsort(t[rows], kind="stable")]].astype(np.int64)
    return found


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.argument("sets", nargs=-1, required=True)
@click.option("--share", type=(float, float), default=(0.7, 1.0), help="Of the stream that is asked about.")
@click.option("--labels", is_flag=True, help="Look at the labels of events, too.")
def main(out: Path, sets: tuple[str, ...], share: Any, labels: bool) -> None:
    """Write what was measured on each set to a file, and print it."""
    results = json.loads(out.read_text()) if out.exists() else {}
    for name in sets:
        folder = Path(os.environ["DYGCN_DATA"])
        events = read_labels(name, folder) if labels else None
        results[name] = run(read(name, folder), share, events)
        out.write_text(json.dumps(results, indent=1) + "\n")
        for kind, row in results[name].items():
            click.echo(f"{name}, {kind}: {row}")


if __name__ == "__main__":
    main()
