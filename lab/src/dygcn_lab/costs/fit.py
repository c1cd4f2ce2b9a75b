"""What a fit costs: seconds of processor time, of the whole and of each stage; beside another checkout.

``python -m dygcn_lab.costs.fit OUT.json SET... [--other CHECKOUT] [--turns N]`` fits each data set with
default settings, in processes of their own, the checkouts by turns, and writes medians. The other checkout
needs its kernels compiled. A set of users and items is fitted without the filter, too, as ``SET without
filter``.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import pyarrow.parquet as pq

import dygcn
from dygcn_lab.costs.timing import load_average
from dygcn_lab.costs.versions import in_process

if TYPE_CHECKING:
    from collections.abc import Callable

TURNS = 3
WITHOUT = " without filter"
_OF_USERS_AND_ITEMS = "online-retail", "lightgcn-gowalla", "lightgcn-lastfm", "movielens-small"
_STAGES = {
    "rows": ("fitting_walks", "with_rows"),
    "lists of what comes next": ("next_head", "draw_lists"),
    "reading vectors of lists": ("next_head", "products_of"),
    "score of what comes next": ("next_head", "fit_next"),
    "pairs of links": ("link_head", "sample_links"),
    "score of links": ("fitting_walks", "fit_heads"),
    "filter": ("fitting_walks", "fit_filter"),
}
"""Modules of `dygcn.engine.training` and the functions that take a stage; the first rows are a stage, and the
second ones. The rest is to read events, and to play them."""


def measure(name: str) -> dict[str, float]:
    """Return seconds of a fit, by stage; whatever another checkout does not have is in the rest."""
    dygcn.fit({"src": [1, 2, 3], "dst": [2, 3, 1], "t": [1, 2, 3]}, dim=8, progress=False)  # imports
    found: dict[str, float] = {}
    for stage, (module, function) in _STAGES.items():
        place = importlib.import_module(f"dygcn.engine.training.{module}")
        if hasattr(place, function):
            setattr(place, function, _timed(getattr(place, function), stage, found))
    file = Path(os.environ["DYGCN_DATA"]) / name.removesuffix(WITHOUT) / "edges.parquet"
    table = pq.read_table(file)
    columns = {one: table[one].to_numpy() for one in ("src", "dst", "t") if one in table.column_names}
    options: dict[str, Any] = {"recommend": False} if name.endswith(WITHOUT) else {}
    if name.removesuffix(WITHOUT) in _OF_USERS_AND_ITEMS:
        options["kinds"] = ("user", "item")
    begun = time.process_time()
    dygcn.fit(columns, progress=False, **options)
    found["all"] = time.process_time() - begun
    return found


def _timed(call: Callable[..., Any], stage: str, found: dict[str, float]) -> Callable[..., Any]:
    @wraps(call)
    def timed(*arguments: Any, **named: Any) -> Any:
        begun, what = time.process_time(), stage
        answer = call(*arguments, **named)
        if stage == "rows":
            what = "second rows" if "first rows" in found else "first rows"
        found[what] = found.get(what, 0.0) + time.process_time() - begun
        return answer

    return timed


def compare(name: str, other: Path | None, turns: int) -> dict[str, Any]:
    """Return medians of the stages, of this checkout and of another one, and the median ratio of all."""
    sources = {"this": str(Path(dygcn.__file__).parents[1])}
    if other is not None:
        sources["other"] = str(other / "src")
    runs: dict[str, list[dict[str, float]]] = {which: [] for which in sources}
    for _ in range(turns):
        for which, source in sources.items():
            runs[which].append(in_process(Path(__file__), source, "--one", name))
    found: dict[str, Any] = {
        which: {stage: round(float(np.median([one[stage] for one in some])), 2) for stage in some[0]}
        for which, some in runs.items()
    }
    if other is not None:
        ratios = [this["all"] / old["all"] for this, old in zip(*runs.values(), strict=True)]
        found["ratio"] = round(float(np.median(ratios)), 3)
    return found


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.argument("names", nargs=-1, required=True)
@click.option("--other", type=click.Path(path_type=Path), help="Another checkout, compiled.")
@click.option("--turns", default=TURNS, show_default=True, help="Fits of each checkout.")
def command(out: Path, names: tuple[str, ...], other: Path | None, turns: int) -> None:
    """Measure what fits of data sets cost, and write it to OUT."""
    both = [each for name in names for each in _with_and_without(name)]
    found = {name: compare(name, other, turns) for name in both}
    out.write_text(json.dumps({"load average": load_average(), "sets": found}, indent=1) + "\n")
    click.echo(json.dumps(found, indent=1))


def _with_and_without(name: str) -> list[str]:
    return [name, name + WITHOUT] if name in _OF_USERS_AND_ITEMS else [name]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        click.echo(json.dumps(measure(sys.argv[2])))
    else:
        command()
