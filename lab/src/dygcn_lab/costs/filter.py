"""What a filter costs: us and rows an event, us a recommendation, bytes, seconds of fit.

``python -m dygcn_lab.costs.filter OUT.json SET...`` fits on the first 80 % of the events of a set of users
and items, by time where there are times, and follows the others: one by one, in batches of a hundred, and
with a question after every event. A model with a filter and one without take turns. Times are those of the
processor.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow.parquet as pq

import dygcn
from dygcn.engine.filter.head import ROWS
from dygcn.engine.records import Float64, Int64
from dygcn.live.embedding import LiveEmbedding
from dygcn_lab.costs.timing import load_average

FITTED, EVENTS, TURNS = 0.8, 3_000, 5


def measure(name: str, folder: Path) -> dict[str, Any]:
    """Return the costs on one set."""
    table = pq.read_table(folder / name / "edges.parquet")
    if "split" in table.column_names:
        table = table.filter(np.asarray(table["split"]) == 0)
    columns = {one: table[one].to_numpy() for one in ("src", "dst", "t") if one in table.column_names}
    order = (
        np.argsort(columns["t"], kind="stable")
        if "t" in columns
        else np.random.default_rng(0).permutation(len(table))
    )
    columns = {one: values[order] for one, values in columns.items()}
    cut = int(FITTED * len(order))
    lives: dict[bool, LiveEmbedding] = {}
    found: dict[str, Any] = {"fitted": cut}
    for on in (False, True):
        begun = time.process_time()
        fitted = {one: values[:cut] for one, values in columns.items()}
        lives[on] = dygcn.fit(fitted, kinds=("user", "item"), recommend=on, progress=False)
        found[f"cpu s of fit, filter {on}"] = round(time.process_time() - begun, 1)
    later = np.array_split(np.arange(cut, len(order)), 2 * TURNS)
    for what, size in (("event by event", 1), ("batches of 100", 100)):
        found[f"us an event, {what}"] = _by_turns(
            lives, columns, later[:TURNS] if size == 1 else later[TURNS:], size
        )
    return found | _reads(lives[True], columns, cut) | _sizes(lives[True])


def _by_turns(
    lives: dict[bool, LiveEmbedding], columns: dict[str, Any], parts: list[Int64], size: int
) -> dict[str, float]:
    spent: dict[bool, list[float]] = {False: [], True: []}
    for part in parts:
        rows = [part[at : at + size] for at in range(0, min(len(part), EVENTS * size // 10), size)]
        batches = [{one: values[some] for one, values in columns.items()} for some in rows]
        for on, live in lives.items():
            begun = time.process_time()
            for batch in batches:
                live.update(batch)
            spent[on].append(1e6 * (time.process_time() - begun) / (len(rows) * size))
    without, with_one = (float(np.median(spent[on])) for on in (False, True))
    return {"without": round(without, 1), "with": round(with_one, 1), "ratio": round(with_one / without, 3)}


def _reads(live: LiveEmbedding, columns: dict[str, Any], cut: int) -> dict[str, Any]:
    """Ask for those who have just had an event, and for others beside no event at all."""
    filter_ = live._state.filter
    assert filter_ is not None
    random = np.random.default_rng(1)
    quiet, after, rows = [], [], []
    for at in random.choice(len(columns["src"]), 400, replace=False).tolist():
        user = "user", int(columns["src"][at])
        if user not in live:
            continue
        live.recommend(user)
        quiet.append(_spent(partial(live.recommend, user)))
        before = int(filter_._sizes[ROWS])
        live.update({one: values[at : at + 1] for one, values in columns.items() if one != "t"})
        after.append(_spent(partial(live.recommend, user)))
        rows.append(int(filter_._sizes[ROWS]) - before)
    return {
        "us a recommendation": _quantiles(quiet),
        "us a recommendation after an event": _quantiles(after),
        "rows an event": _quantiles(rows),
    }


def _spent(call: Callable[[], object]) -> float:
    begun = time.process_time()
    call()
    return 1e6 * (time.process_time() - begun)


def _quantiles(values: list[float] | list[int]) -> dict[str, float]:
    numbers: Float64 = np.array(values, np.float64)
    found = {"median": np.median(numbers), "p99": np.quantile(numbers, 0.99), "most": numbers.max()}
    return {name: round(float(value), 1) for name, value in found.items()}


def _sizes(live: LiveEmbedding) -> dict[str, Any]:
    filter_ = live._state.filter
    assert filter_ is not None
    asking, answering = filter_._high
    width = filter_.width
    return {
        "asking": asking,
        "answering": answering,
        "bytes of one who asks": width * (4 + 2) + 9,
        "bytes of an answer": width * (8 + 4 + 1) + 33,
        "bytes of rows in the model": live.model.filter.rows.nbytes if live.model.filter else 0,
        "bytes of walk rows in the model": live.model.table.rows.nbytes if live.model.table else 0,
    }


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.argument("names", nargs=-1, required=True)
def command(out: Path, names: tuple[str, ...]) -> None:
    """Measure what a filter costs on sets of users and items, and write it to OUT."""
    folder = Path(os.environ["DYGCN_DATA"])
    found = {name: measure(name, folder) for name in names}
    out.write_text(json.dumps({"load average": load_average(), "sets": found}, indent=1) + "\n")
    click.echo(json.dumps(found, indent=1))


if __name__ == "__main__":
    command()
