"""`dygcn judge`: one method on one data set, judged."""

from __future__ import annotations

from typing import Any

import click
import numpy as np

from dygcn.cli.printing import json_option, print_json, progress_bar, show_table
from dygcn_lab.experiments.cells import Cell
from dygcn_lab.experiments.findings import series_of
from dygcn_lab.experiments.groups import METHODS, run_cell


@click.command("judge", epilog="Data sets that do not ship are looked for in the folder DYGCN_DATA.")
@click.argument("dataset")
@click.option(
    "--rule", default="exact", show_default=True, type=click.Choice(sorted(METHODS)), help="Or baseline."
)
@click.option("--seed", default=0, type=click.IntRange(0), show_default=True)
@click.option("--dim", type=click.IntRange(1), help="Length of the vectors.  [default: 100]")
@click.option("--orders", type=click.IntRange(1), help="K.  [default: 2]")
@click.option("--quick", is_flag=True, help="The first eight steps, little training.")
@json_option
def command(
    dataset: str, rule: str, seed: int, dim: int | None, orders: int | None, quick: bool, as_json: bool
) -> None:
    """Fit a method on the first half of DATASET's steps, follow the rest, and judge every step."""
    settings: dict[str, Any] = {"dim": dim, "orders": orders, "quick": quick or None}
    group, name = METHODS[rule]
    cell = Cell(dataset, group, seed, {key: value for key, value in settings.items() if value is not None})
    with progress_bar() as notify:
        record = run_cell(cell, notify)[name]
    means = {figure: float(np.nanmean(series_of(record, figure))) for figure in record.figures}
    value = {
        "dataset": dataset,
        "rule": rule,
        "seed": seed,
        "fit_seconds": record.fit_seconds,
        "means": means,
    }
    if as_json:
        print_json({**value, "figures": record.figures})
        return
    rows = [[figure, mean, len(record.figures[figure])] for figure, mean in means.items()]
    show_table(["figure", "mean", "steps"], rows, False, value)
