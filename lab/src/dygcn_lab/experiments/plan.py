"""What is to be reproduced: a TOML file for each table and figure, with settings and the paper's numbers."""

from __future__ import annotations

import importlib.resources
import tomllib
from importlib.resources.abc import Traversable
from typing import Any

import msgspec

from dygcn.errors import OptionError
from dygcn_lab.experiments.cells import Cell

KINDS = ("table", "lines", "bars", "sweep", "orders", "hops", "kernels")


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One method of a table, or one line of a figure."""

    label: str
    group: str  # of methods, see `groups`
    record: str  # of the group
    by: str = "cosine"  # or "score": the method's own
    settings: dict[str, Any] = {}
    seeds: int = 1
    style: str = ""  # of a line, as matplotlib has them
    x: float | None = None  # in a sweep
    only: list[str] | None = None  # data sets; None: all
    without: list[str] = []  # data sets that it leaves out
    paper: dict[str, dict[str, float]] = {}  # data set -> measure -> the paper's number
    why: dict[str, str] = {}  # data set -> why ours differs


class Experiment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table or figure."""

    title: str
    kind: str
    says: str  # what the original says, or what is asked
    datasets: list[str]
    rows: list[Row] = []
    measures: list[str] = []  # of a table, bars or sweep
    series: dict[str, str] = {}  # data set -> the figure that lines show
    axis: str = ""
    reading: str = ""  # how to read what came out
    paper: dict[str, dict[str, float]] = {}
    name: str = ""
    place: int = 0  # on a page with several
    paired: bool = False  # bold is whatever is not surely worse than the best, not the best alone

    def rows_of(self, dataset: str) -> list[Row]:
        """Return the rows that a data set has."""
        return [
            row
            for row in self.rows
            if (row.only is None or dataset in row.only) and dataset not in row.without
        ]

    def cells(self, quick: bool = False) -> list[Cell]:
        """Return every cell that is needed, each once. Quick: the first two data sets, one seed."""
        found: dict[Any, Cell] = {}
        for dataset in self.datasets[: 1 if quick else None]:
            for row in self.rows_of(dataset):
                for seed in range(1 if quick else row.seeds):
                    cell = cell_of(row, dataset, seed, quick)
                    found[cell.file] = cell
        return list(found.values())


def cell_of(row: Row, dataset: str, seed: int, quick: bool = False) -> Cell:
    """Return the cell that holds a row's figures."""
    settings = {**row.settings, **({"quick": True} if quick else {})}
    return Cell(dataset, row.group, seed, settings)


def _folder() -> Traversable:
    return importlib.resources.files("dygcn_lab") / "reproduction"


def experiment_names() -> list[str]:
    """Return the names of all experiments, in the order of a page."""
    files = [file for file in _folder().iterdir() if file.name.endswith(".toml")]
    places = {
        file.name.removesuffix(".toml"): tomllib.loads(file.read_text(encoding="utf-8")).get("place", 0)
        for file in files
    }
    return sorted(places, key=lambda name: (places[name], name))


def read_experiment(name: str) -> Experiment:
    """Read one of the experiments."""
    if name not in experiment_names():
        raise OptionError(f"{name!r} is no experiment; there are: {', '.join(experiment_names())}")
    text = (_folder() / f"{name}.toml").read_text(encoding="utf-8")
    try:
        experiment = msgspec.toml.decode(text, type=Experiment)
    except msgspec.MsgspecError as error:
        raise OptionError(f"{name}.toml: {error}") from None
    if experiment.kind not in KINDS:
        raise OptionError(f"{name}.toml: kind is {experiment.kind!r}; allowed: {', '.join(KINDS)}")
    return msgspec.structs.replace(experiment, name=name)
