"""Run the checks of `dygcn_lab.soak.promises` one after the other, and write one file of results for each."""

from __future__ import annotations

import importlib
import os
import pkgutil
import time
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from dygcn.errors import OptionError
from dygcn_lab.soak import promises
from dygcn_lab.soak.check import Check, Finding
from dygcn_lab.soak.page import NO_BUG

RESULTS = Path("results") / "promises"
_COLUMNS = ("check", "promise", "size", "bad", "holds", "bug noticed", "seconds", "seed")


def find_checks() -> tuple[dict[str, Check], dict[str, str]]:
    """Return every check by its name, and why modules of checks could not be imported."""
    found: dict[str, Check] = {}
    missing: dict[str, str] = {}
    for module in sorted(one.name for one in pkgutil.iter_modules(promises.__path__)):
        try:
            check = getattr(importlib.import_module(f"{promises.__name__}.{module}"), "CHECK", None)
        except ImportError as error:
            missing[module] = str(error)
            continue
        if isinstance(check, Check):
            found[check.name] = check
    return found, missing


def choose(only: Sequence[str]) -> list[Check]:
    """Return the checks of these names, all if there are none.

    Raises `OptionError` if there is no check of a name, or if its module cannot be imported.
    """
    checks, missing = find_checks()
    for name in only or missing:
        if name in missing:
            raise OptionError(f"the check {name} cannot be run: {missing[name]}")
        if name not in checks:
            raise OptionError(f"there is no check {name!r}; there are: {', '.join(checks)}")
    return [checks[name] for name in only or checks]


def run_check(check: Check, size: int, seed: int) -> Finding:
    """Run a check; an error of its own is a finding, too."""
    begun = time.perf_counter()
    try:
        return check.run(size, seed)
    except Exception:  # the other checks are to be run all the same
        said = traceback.format_exc(limit=-3).strip().replace(str(Path.cwd()), ".")
        seconds = round(time.perf_counter() - begun, 1)
        return Finding(
            check.name, "it ended with an error", 0, 1, False, "", False, seconds, seed, notes=said
        )


def write_finding(finding: Finding, file: Path) -> None:
    """Write what was found, so that nobody ever reads half of it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    beside.write_bytes(msgspec.json.format(msgspec.json.encode(finding), indent=1) + b"\n")
    beside.replace(file)


def soak(checks: Sequence[Check], quick: bool, seed: int, out: Path, console: Console) -> dict[str, Finding]:
    """Run checks, write their files, show where it stands; return what was found, by name."""
    found: dict[str, Finding] = {}
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        for i, check in enumerate(checks):
            size = check.quick if quick else check.full
            says = f"{i + 1} of {len(checks)}: {check.name}, size {size:,}, seed {seed}"
            task = bar.add_task(says, total=None)
            if not console.is_terminal:
                console.print(says)
            finding = found[check.name] = run_check(check, size, seed)
            write_finding(finding, out / f"{check.name}.json")
            bar.remove_task(task)
            console.print(f"{check.name}: {_verdict(finding)} after {finding.seconds:,.0f} s")
    return found


def is_good(finding: Finding) -> bool:
    """Say whether the promise holds and the seeded bug was noticed."""
    return finding.holds and finding.mutant_caught


def _verdict(finding: Finding) -> str:
    if not finding.holds:
        return f"does not hold ({finding.bad} bad)"
    return "holds" if finding.mutant_caught else "the seeded bug was not noticed"


def table_of(found: dict[str, Finding]) -> Table:
    """Return what was found as a table."""
    table = Table(*_COLUMNS)
    for name, one in found.items():
        cells = (
            f"{one.size:,}",
            str(one.bad),
            _yes(one.holds),
            _yes(one.mutant_caught) if one.mutant else NO_BUG,
            f"{one.seconds:,.0f}",
        )
        table.add_row(name, one.promise, *cells, str(one.seed), style=None if is_good(one) else "bold red")
    return table


def _yes(what: bool) -> str:
    return "yes" if what else "NO"


def notes_of(found: dict[str, Finding]) -> Iterable[str]:
    """Return what checks say of promises that do not hold."""
    return (f"{name}: {one.notes}" for name, one in found.items() if one.notes and not is_good(one))
