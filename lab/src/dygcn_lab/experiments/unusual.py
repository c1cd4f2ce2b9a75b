"""Does surprise find events that should not have happened? Planted ones, among those that did.

``python -m dygcn_lab.experiments.unusual OUT.json SET...`` takes the folder of the data sets from
``DYGCN_DATA``. A model is fitted on the first 70 % of the events of a set; into the rest, or a part of it,
events are planted, one in twenty: an asker with a *random* partner, with a *popular* one (drawn as events
are), or with whom another asker, any one, had last, as a *stolen* account would be used. AUC: a planted event
against real ones, by the surprise, by its rank among the asker's own, and by how far the two vectors moved.
"""

from __future__ import annotations

import copy
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

import dygcn
from dygcn.engine.measures.scores import auc
from dygcn_lab.experiments.following import read

if TYPE_CHECKING:
    from dygcn.engine.records import Bool, Float64, Int64
    from dygcn_lab.evaluation.following import Stream

KINDS = ("random", "popular", "stolen")
ONE_OF = 20


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
    live.track_surprise()
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
    live.track_distances()
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


def run(stream: Stream, share: tuple[float, float], seed: int = 0) -> dict[str, Any]:
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
    return found


def _copy(live: dygcn.LiveEmbedding, stream: Stream, begin: int) -> dygcn.LiveEmbedding:
    """Return a copy that has seen everything before some event."""
    other = copy.deepcopy(live)
    if begin > stream.fitted:
        other.update(stream.part(stream.fitted, begin))
    return other


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.argument("sets", nargs=-1, required=True)
@click.option("--share", type=(float, float), default=(0.7, 1.0), help="Of the stream that is asked about.")
def main(out: Path, sets: tuple[str, ...], share: Any) -> None:
    """Write what was measured on each set to a file, and print it."""
    results = json.loads(out.read_text()) if out.exists() else {}
    for name in sets:
        results[name] = run(read(name, Path(os.environ["DYGCN_DATA"])), share)
        out.write_text(json.dumps(results, indent=1) + "\n")
        for kind, row in results[name].items():
            click.echo(f"{name}, {kind}: {row}")


if __name__ == "__main__":
    main()
