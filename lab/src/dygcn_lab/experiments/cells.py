"""Cells: a data set, a group of methods, a seed. Each is kept on disk, so that a run can stop and go on."""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

import dygcn
from dygcn._progress import Notify
from dygcn.errors import DygcnError, OptionError
from dygcn_lab.evaluation import Figures

PACKAGES = (
    "dygcn",
    "numpy",
    "numba",
    "scipy",
    "scikit-learn",
    "gensim",
    "pycleora",
    "torch",
    "torch_geometric",
)
DIGITS = 5


class Record(msgspec.Struct, frozen=True):
    """What one method did on one data set with one seed."""

    figures: dict[str, list[float | None]]  # over the tested steps, by name; null where a step has none
    fit_seconds: float = 0.0
    notes: dict[str, Any] = msgspec.field(default_factory=dict)


class CellResult(msgspec.Struct, frozen=True):
    """A finished cell, as it lies on disk."""

    dataset: str
    group: str
    seed: int
    settings: dict[str, Any]
    records: dict[str, Record]
    date: str
    minutes: float
    versions: dict[str, str]
    load_average: float = 0.0
    code: str = ""  # of the sources that ran it


@dataclass(frozen=True)
class Cell:
    """What is to be run.

    Examples
    --------
    >>> Cell("as-733", "ours", 0).file.as_posix()
    'as-733/ours.0.json'
    >>> Cell("as-733", "paper-steady", 1, {"orders": 3}).file.as_posix()
    'as-733/paper-steady,orders=3.1.json'
    """

    dataset: str
    group: str
    seed: int
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        """Where it is kept, below the folder of cells."""
        settings = "".join(f",{name}={value}" for name, value in sorted(self.settings.items()))
        if len(settings) > 80:
            settings = "," + hashlib.sha256(settings.encode()).hexdigest()[:16]
        return Path(self.dataset, f"{self.group}{settings}.{self.seed}.json")


def rounded(figures: Figures) -> dict[str, list[float | None]]:
    """Return figures as they are kept: five digits, null for a step that had nothing to judge.

    Examples
    --------
    >>> rounded({"auc": [0.1234567, float("nan")]})
    {'auc': [0.12346, None]}
    """
    return {
        name: [None if value != value else float(f"{value:.{DIGITS}g}") for value in series]
        for name, series in figures.items()
    }


class CellStore:
    """Cells in a folder."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def read(self, cell: Cell) -> CellResult | None:
        """Return a finished cell, or None."""
        file = self.folder / cell.file
        if not file.exists():
            return None
        try:
            return msgspec.json.decode(file.read_bytes(), type=CellResult)
        except msgspec.MsgspecError as error:
            raise DygcnError(f"{file} is no cell: {error}. Delete it, and it is run again") from None

    def run(
        self, cell: Cell, work: Callable[[Cell, Notify], dict[str, Record]], notify: Notify
    ) -> CellResult:
        """Return the cell, run now unless it lies on disk already."""
        done = self.read(cell)
        if done is not None:
            return done
        begun = time.perf_counter()
        records = work(cell, notify)
        if not records:
            raise OptionError(f"{cell.group} has no records")
        result = CellResult(
            cell.dataset,
            cell.group,
            cell.seed,
            cell.settings,
            records,
            datetime.date.today().isoformat(),
            round((time.perf_counter() - begun) / 60, 3),
            versions(),
            round(os.getloadavg()[0], 1),
            code_hash(),
        )
        file = self.folder / cell.file
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part")
        part.write_bytes(msgspec.json.encode(result) + b"\n")
        part.replace(file)  # a run that is killed leaves no half of a cell
        return result


def code_hash() -> str:
    """Return a short hash of all sources of both packages, so that cells of different code can be told apart.

    Examples
    --------
    >>> len(code_hash())
    12
    """
    whole = hashlib.sha256()
    for root in (Path(dygcn.__file__).parent, Path(__file__).parents[1]):
        for file in sorted(root.rglob("*.py")):
            whole.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    return whole.hexdigest()[:12]


def versions() -> dict[str, str]:
    """Return the versions of Python and of what the figures depend on, as far as it is installed."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
