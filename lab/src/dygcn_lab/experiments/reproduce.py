"""Rerun the paper: run the cells that are missing, then write CSV, PNG and one HTML page."""

from __future__ import annotations

import importlib
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dygcn._extras import extra
from dygcn._progress import Notify
from dygcn.errors import DatasetError
from dygcn_lab.experiments.cells import Cell, CellStore
from dygcn_lab.experiments.groups import run_cell
from dygcn_lab.experiments.pictures import draw
from dygcn_lab.experiments.plan import Experiment, read_experiment
from dygcn_lab.experiments.results_page import results_page, write_csv, write_html
from dygcn_lab.experiments.score_verdicts import score_verdicts
from dygcn_lab.experiments.sections import Section, make_section
from dygcn_lab.experiments.verdicts import hashed_verdicts, verdict_table
from dygcn_lab.experiments.walk_verdicts import walk_verdicts


@dataclass
class Reproduced:
    """What a run left behind."""

    sections: list[Section]
    page: Path
    store: CellStore
    missing: dict[str, str] = field(default_factory=dict)  # data set -> why it was left out
    unfinished: int = 0  # cells that the time did not suffice for


def reproduce(
    names: Sequence[str],
    out: Path,
    *,
    cells: Path | None = None,
    quick: bool = False,
    datasets: Sequence[str] = (),
    groups: Sequence[str] = (),
    minutes: float | None = None,
    notify: Notify | None = None,
) -> Reproduced:
    """Run experiments and write their files.

    `names`: of experiments; see `dygcn_lab.experiments.plan.experiment_names`; `out`: folder for CSV, PNG and
    HTML; `cells`: folder of finished cells; by default one inside `out`. What lies there is not run again;
    `datasets`, `groups`: only these, if given: a long run in pieces; `minutes`: no cell is begun after so
    many.
    """
    with extra("evidence", of="dygcn-lab"):  # before hours of work, not after them
        importlib.import_module("jinja2")
        importlib.import_module("matplotlib")
    store = CellStore(out / "cells" if cells is None else cells)
    experiments = [read_experiment(name) for name in names]
    wanted = {cell.file: cell for experiment in experiments for cell in experiment.cells(quick)}
    chosen = [
        cell
        for cell in wanted.values()
        if (not datasets or cell.dataset in datasets) and (not groups or cell.group in groups)
    ]
    missing, unfinished = _run(chosen, store, minutes, notify)
    out.mkdir(parents=True, exist_ok=True)
    sections = [write(experiment, store, out, quick) for experiment in experiments]
    pictures = {name: out / f"{name}.png" for name in names if (out / f"{name}.png").exists()}
    page = out / (f"{names[0]}.html" if len(names) == 1 else "index.html")
    title = experiments[0].title if len(names) == 1 else "DyGCN, rerun"
    claims = (
        verdict_table([*walk_verdicts(store), *score_verdicts(store), *hashed_verdicts(store)])
        if len(names) > 1 and not quick
        else None
    )
    write_html(sections, pictures, page, title, claims)
    return Reproduced(sections, page, store, missing, unfinished)


def write_markdown(done: Reproduced, file: Path) -> None:
    """Write the page of results, with copies of the pictures in ``images/results`` beside it."""
    folder = file.parent / "images" / "results"
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {}
    for section in done.sections:
        name = f"{section.experiment.name}.png"
        if (done.page.parent / name).exists():
            shutil.copyfile(done.page.parent / name, folder / name)
            pictures[section.experiment.name] = f"images/results/{name}"
    file.write_text(results_page(done.sections, done.store, pictures), encoding="utf-8")


def write(experiment: Experiment, store: CellStore, out: Path, quick: bool = False) -> Section:
    """Write CSV and PNG of one experiment from finished cells."""
    section = make_section(experiment, store, quick)
    write_csv(section, out / f"{experiment.name}.csv")
    draw(experiment, store, out / f"{experiment.name}.png", quick)
    return section


def _run(
    chosen: Sequence[Cell], store: CellStore, minutes: float | None, notify: Notify | None
) -> tuple[dict[str, str], int]:
    """Run what is not there yet; a data set that cannot be had is left out, the rest goes on."""
    begun, missing, unfinished = time.perf_counter(), {}, 0
    for done, cell in enumerate(chosen):
        if cell.dataset in missing or store.read(cell) is not None:
            continue
        if minutes is not None and time.perf_counter() - begun >= 60 * minutes:
            unfinished += 1
            continue

        def tell(at: int, total: int, what: str, done: int = done, cell: Cell = cell) -> None:
            if notify is not None:
                part = at / total if total else 0.0
                notify(int(1000 * (done + part)), 1000 * len(chosen), f"{cell.dataset}, {cell.group}: {what}")

        tell(0, 1, "loading")
        try:
            store.run(cell, run_cell, tell)
        except DatasetError as error:
            missing[cell.dataset] = str(error)
    return missing, unfinished
