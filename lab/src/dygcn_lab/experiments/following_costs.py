"""What a history costs: bytes, microseconds an event with it and without, and a scored candidate.

``python -m dygcn_lab.experiments.following_costs OUT.json SET...`` takes the folder of the data sets from
``DYGCN_DATA``. Twins of one fit follow the same events by turns, in batches of 1 and 100: one with its
history, one without, one that measures surprise. Figures are medians; ratios compare medians of one run.
"""

from __future__ import annotations

import dataclasses
import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

import dygcn
from dygcn_lab.costs.timing import timed, undisturbed
from dygcn_lab.evaluation.following import Stream
from dygcn_lab.experiments.following import fit, read

BATCHES = {1: 300, 100: 60}  # events in one -> how many of them
CANDIDATES = (1, 100, 1000)
_WARM, _REPEATS = 10, 100


def run(stream: Stream) -> dict[str, Any]:
    """Return what was measured on one set."""
    live = fit(stream, 0)
    assert live.model.following is not None
    found: dict[str, Any] = {"products of vectors": live.model.following.products, **sizes(live)}
    for links in ("next", "listed"):
        found[f"us a candidate, {links}"] = scored(live, links)
    found["us an event"] = updated(stream, live)
    return found


def sizes(live: dygcn.LiveEmbedding) -> dict[str, Any]:
    """Return the bytes of the arrays of a history, for a node and for an ordered pair that had an event."""
    history = live._state.history
    assert history is not None
    image = history.image()
    nodes, pairs = len(history), history.pairs
    of_pairs = (image.pair_src, image.pair_dst, image.pair_t, image.pair_gone, image.pair_fast, image.pair_n)
    keys, slots, _ = history._table.arrays
    of_nodes = (image.times, image.marks, image.counts, image.answers, image.partners)
    return {
        "nodes": nodes,
        "pairs": pairs,
        "bytes a node": round(sum(array.nbytes for array in of_nodes) / nodes, 1),
        "bytes a pair": round(sum(array.nbytes for array in (*of_pairs, keys, slots)) / max(pairs, 1), 1),
    }


def scored(live: dygcn.LiveEmbedding, links: str) -> dict[str, float]:
    """Return microseconds a candidate, of one asker with some candidates."""
    ids, random, found = live.ids(), np.random.default_rng(0), {}
    for count in CANDIDATES:
        took = []
        with undisturbed():
            for number in range(-_WARM, _REPEATS):
                asker, others = random.choice(ids).item(), random.choice(ids, count)
                spent = timed(partial(live.score, asker, others, links=links))
                if number >= 0:
                    took.append(1e6 * spent / count)
        found[str(count)] = round(float(np.median(took)), 2)
    return found


def updated(stream: Stream, live: dygcn.LiveEmbedding) -> dict[str, Any]:
    """Return microseconds an event, by size of batches, of each twin."""
    bare = dygcn.start(dataclasses.replace(live.model, following=None))
    bare.update(stream.part(0, stream.fitted))
    whole, measured = (dygcn.start(live.model) for _ in range(2))
    for one in (whole, measured):
        one.update(stream.part(0, stream.fitted))
    measured.track(surprise=True)
    twins = {"without": bare, "history": whole, "surprise": measured}
    found, seen = {}, stream.fitted
    random = np.random.default_rng(0)
    for size, count in BATCHES.items():
        took: dict[str, list[float]] = {name: [] for name in twins}
        with undisturbed():
            for _ in range(count):
                part = stream.part(seen, seen + size)
                seen += size
                for name in random.permutation(list(twins)).tolist():
                    took[name].append(1e6 * timed(partial(twins[name].update, part)) / size)
        medians = {name: float(np.median(each)) for name, each in took.items()}
        times = {f"{name}, times": each / medians["without"] for name, each in medians.items()}
        found[f"batches of {size}"] = {name: round(each, 2) for name, each in (medians | times).items()}
    return found


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.argument("sets", nargs=-1, required=True)
def main(out: Path, sets: tuple[str, ...]) -> None:
    """Write what was measured on each set to a file, and print it."""
    results = {}
    for name in sets:
        results[name] = run(read(name, Path(os.environ["DYGCN_DATA"])))
        out.write_text(json.dumps(results, indent=1) + "\n")
        click.echo(f"{name}: {results[name]}")


if __name__ == "__main__":
    main()
