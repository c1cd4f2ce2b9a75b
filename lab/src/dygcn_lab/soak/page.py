"""`docs/promises.md`, written from what the checks found and nothing else."""

from __future__ import annotations

import importlib.resources
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from dygcn.cli.printing import plain
from dygcn.errors import DygcnError
from dygcn_lab.report.tables import Table, markdown_table
from dygcn_lab.soak.check import Finding

NO_BUG = "-"  # where a check was not run against one


@dataclass(frozen=True, slots=True)
class Promise:
    """What is promised, in a few words and in full, and how it is put to the test."""

    name: str
    meaning: str
    proof: str


def read_prose() -> tuple[str, list[Promise], str]:
    """Return what people wrote: the head of the page, the promises, and what stands behind the results."""
    text = (importlib.resources.files("dygcn_lab.soak.promises") / "page.md").read_text(encoding="utf-8")
    head, listed, *tail = text.split("\n## ")
    found = []
    for part in listed.split("\n### ")[1:]:
        name, meaning, proof = (" ".join(paragraph.split()) for paragraph in part.strip().split("\n\n"))
        found.append(Promise(name, meaning, proof))
    return head.strip(), found, "\n\n".join(f"## {section.strip()}" for section in tail)


def read_findings(folder: Path) -> dict[str, Finding]:
    """Return what was found, by the name of the check, from the files of a folder."""
    found: dict[str, Finding] = {}
    for file in sorted(folder.glob("*.json")):
        try:
            found[file.stem] = msgspec.json.decode(file.read_bytes(), type=Finding)
        except msgspec.MsgspecError as error:
            raise DygcnError(f"{file} is not what a check found: {error}") from None
    return found


def page_text(found: Mapping[str, Finding]) -> str:
    """Return the page as Markdown.

    `found`: name of a check -> what it found.
    """
    head, promises, tail = read_prose()
    parts = [head, "## The promises", markdown_table(_promises_table(promises))]
    parts += ["## What was found", _verdict(promises, found)]
    if found:
        parts.append(markdown_table(_findings_table(promises, found)))
    untested = [f"- {one.name}" for one in promises if not _checks_of(one, found)]
    if untested:
        parts += ["Not put to the test yet:", "\n".join(untested)]
    parts += [_details(name, one) for name, one in _ordered(promises, found)]
    return "\n\n".join([*parts, tail]) + "\n"


def write_page(results: Path, page: Path) -> None:
    """Write the page from the files of a folder."""
    text = page_text(read_findings(results))
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text, encoding="utf-8")


def _promises_table(promises: list[Promise]) -> Table:
    rows: list[Any] = [[f"**{one.name}**", one.meaning, one.proof] for one in promises]
    return Table("", ["promise", "what it means", "how it is put to the test"], rows)


def _checks_of(promise: Promise, found: Mapping[str, Finding]) -> list[str]:
    return [name for name, one in found.items() if one.promise.lower() == promise.name.lower()]


def _ordered(promises: list[Promise], found: Mapping[str, Finding]) -> list[tuple[str, Finding]]:
    """Return what was found in the order of the promises, then whatever belongs to none."""
    names = [name for promise in promises for name in _checks_of(promise, found)]
    return [(name, found[name]) for name in [*names, *(name for name in found if name not in names)]]


def _verdict(promises: list[Promise], found: Mapping[str, Finding]) -> str:
    if not found:
        return "Nothing yet: no check has left a result."
    broken = [f"`{name}`" for name, one in _ordered(promises, found) if not one.holds]
    blind = [f"`{name}`" for name, one in _ordered(promises, found) if one.mutant and not one.mutant_caught]
    says = f"{len(found) - len(broken)} of {len(found)} checks found nothing wrong"
    says += f"; these did: {', '.join(broken)}." if broken else "."
    if blind:
        return f"{says} The bug that was put in went unnoticed in {', '.join(blind)}."
    return f"{says} Every bug that was put in was noticed."


def _findings_table(promises: list[Promise], found: Mapping[str, Finding]) -> Table:
    columns = ["check", "what was done", "times", "bad", "bug that was put in", "noticed", "seconds", "seed"]
    rows: list[Any] = []
    for name, one in _ordered(promises, found):
        noticed = plain(one.mutant_caught) if one.mutant else NO_BUG
        counts = [plain(one.size), plain(one.bad), _in_line(one.mutant) or NO_BUG, noticed]
        rows.append([f"`{name}`", _in_line(one.what), *counts, f"{one.seconds:,.0f}", str(one.seed)])
    return Table("", columns, rows)


def _details(name: str, finding: Finding) -> str:
    lines = [f"`{name}`, on \u201c{finding.promise}\u201d:", ""]
    lines += [f"- {key}: {_figure(value)}" for key, value in finding.figures.items()]
    if finding.notes:
        lines.append(f"- {_in_line(finding.notes)}")
    return "\n".join(lines)


def _figure(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_figure(one)}" for key, one in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(_figure, value)) or "none"
    return _in_line(plain(value))


def _in_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
