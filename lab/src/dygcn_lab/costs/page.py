"""`docs/costs.md`, written from files of results and nothing else."""

from __future__ import annotations

import importlib.resources
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from dygcn.cli.printing import plain
from dygcn_lab.costs.pictures import draw
from dygcn_lab.costs.results import KINDS, Result, command_of, rows_of
from dygcn_lab.costs.tables import DIGITS, batch_text, tables_of
from dygcn_lab.report.tables import Table, Value, markdown_table

GLANCE = """\
Hashed features of width 256, two orders; events add and remove edges all over the graph.
*Cheaper from a batch of*: a smaller batch is cheaper as an update, a larger one as a rerun. If all changed
vectors are read after every batch, reading is most of the cost, and one pass of a GCN (another embedding,
untrained, its features and matrix ready) is cheaper much sooner."""


_COLUMNS = [
    "graph",
    "single edge, us",
    "events a second, batches of 1,000",
    "vectors rewritten an event",
    "N for a rerun",
    "cheaper from a batch of: recompute",
    "Cleora rerun",
    "GCN forward",
    "with vectors read: recompute",
    "with vectors read: GCN forward",
]
_STATE, _VECTORS = "cheaper_from_batch", "cheaper_from_batch_with_vectors"
_RIVALS = [(name, _STATE) for name in ("recompute in place", "Cleora rerun", "GCN forward")]
_RIVALS += [(name, _VECTORS) for name in ("recompute in place", "GCN forward")]


def page_text(results: Mapping[str, Result], pictures: Mapping[str, str]) -> str:
    """Return the page as Markdown; `pictures` are paths as seen from the page, by kind."""
    head = _prose().partition("\n## ")[0]
    asked = markdown_table(asked_table(read_asked(), results))
    parts = [head.strip(), *_at_a_glance(results), "## What was asked, and what was found", asked]
    for kind, title, says in sections_of(_prose()):
        parts += [f"## {title}", says]
        if kind in results:
            parts += _measured(kind, title, results[kind], pictures)
        elif command := command_of(kind):
            parts.append(f"Not measured yet. `{command}` writes what stands here.")
    return "\n\n".join(parts) + "\n"


def sections_of(prose: str) -> list[tuple[str, str, str]]:
    r"""Return kind, title and sentences of each section; there has to be one of each kind.

    Examples
    --------
    >>> sections_of("# Costs\n\n## memory: What a graph takes\n\nBytes.")
    Traceback (most recent call last):
    ...
    ValueError: page.md has sections of memory; there has to be one of each of update, crossover, ...
    """
    found = []
    for section in prose.split("\n## ")[1:]:
        heading, _, says = section.strip().partition("\n")
        kind, _, title = heading.partition(": ")
        found.append((kind, title, says.strip()))
    kinds = [kind for kind, _, _ in found]
    if sorted(kinds) != sorted(KINDS):
        one_each = f"there has to be one of each of {', '.join(KINDS)}"
        raise ValueError(f"page.md has sections of {', '.join(kinds)}; {one_each}")
    return found


def _at_a_glance(results: Mapping[str, Result]) -> list[str]:
    if not {"update", "crossover"} <= set(results):
        return []
    return ["## At a glance", GLANCE, markdown_table(costs_table(results))]


def costs_table(results: Mapping[str, Result]) -> Table:
    """Return one row for each graph whose crossover was measured, at the width of the crossover."""
    updates, crossover = results["update"], results["crossover"]
    rows: list[list[str | Value]] = []
    for graph in crossover["graphs"]:
        of = {
            batch["events"]: batch
            for batch in updates["batches"]
            if (batch["graph"], batch["width"]) == (graph["graph"], crossover["width"])
        }
        rivals = {rival["name"]: rival for rival in graph["rivals"]}
        most = graph["batches"][-1]["events"]
        cells = [_cell(of, 1, "median_us"), _cell(of, 1000, "events_per_second")]
        cells += [_cell(of, 1000, "vectors_per_event"), plain(graph["nodes"])]
        cells += [batch_text(rivals[name][when], most) if name in rivals else "" for name, when in _RIVALS]
        rows.append([f"{graph['graph']} ({plain(graph['edges'])} edges)", *cells])
    return Table("", _COLUMNS, rows)


def _cell(batches: dict[int, dict[str, Any]], size: int, field: str) -> str:
    return plain(batches[size][field], DIGITS) if size in batches else ""


def _prose() -> str:
    return (importlib.resources.files("dygcn_lab.costs") / "page.md").read_text(encoding="utf-8")


def _measured(kind: str, title: str, result: Result, pictures: Mapping[str, str]) -> list[str]:
    parts = [f"![{title}]({pictures[kind]})"] if kind in pictures else []
    parts += [markdown_table(table) for table in tables_of(result)]
    parts += [f"{note[0].upper()}{note[1:]}." for note in result.get("notes", ())]
    if "load_average" in result:
        parts.append(f"*Load average at the end: {plain(result['load_average'])}.*")
    return parts


def write_page(results: Mapping[str, Result], markdown: Path, out: Path) -> dict[str, Path]:
    """Write the page, and its pictures into the folder `out`; return kind -> picture."""
    out.mkdir(parents=True, exist_ok=True)
    markdown.parent.mkdir(parents=True, exist_ok=True)
    files = {kind: out / f"{kind}.png" for kind in results}
    for kind, file in files.items():
        draw(results[kind], file)
    markdown.write_text(page_text(results, seen_from(markdown, files)), encoding="utf-8")
    return files


def seen_from(markdown: Path, files: Mapping[str, Path]) -> dict[str, str]:
    """Return the paths of pictures as a page links them."""
    start = os.path.abspath(markdown.parent)
    return {
        kind: os.path.relpath(file.absolute(), start).replace(os.sep, "/") for kind, file in files.items()
    }


class Target(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One thing that was target; `targets.toml` says what the fields mean."""

    says: str
    kind: str
    field: str
    where: dict[str, Any] = {}
    most: float | None = None
    least: float | None = None
    across: bool = False

    @property
    def sentence(self) -> str:
        """What was target, with its number."""
        limit = self.least if self.most is None else self.most
        return self.says.format(limit=plain(limit, DIGITS))

    def reached(self, value: float) -> bool:
        """Say whether a number is within what was target."""
        return (self.most is None or value <= self.most) and (self.least is None or value >= self.least)

    def values(self, result: Result) -> dict[str, float]:
        """Return what was found, by the name of the row."""
        rows = [row for row in rows_of(result) if self.field.split(" / ")[0] in row]
        rows = [row for row in rows if all(_is(row, *wanted) for wanted in self.where.items())]
        found = {_label(row, self.where): _number(row, self.field) for row in rows}
        if self.across and found:
            low, high = min(found, key=lambda name: found[name]), max(found, key=lambda name: found[name])
            return {f"{high} over {low}": found[high] / found[low]}
        return found


def read_asked() -> list[Target]:
    """Return everything that was target."""
    text = (importlib.resources.files("dygcn_lab.costs") / "targets.toml").read_text(encoding="utf-8")
    return msgspec.toml.decode(text, type=dict[str, list[Target]])["target"]


def asked_table(target: Sequence[Target], results: Mapping[str, Result]) -> Table:
    """Return what was target, what was found, and whether it holds."""
    rows: list[list[str | Value]] = []
    for each in target:
        found = each.values(results[each.kind]) if each.kind in results else {}
        said = "; ".join(f"{name}: {_said(value)}" for name, value in found.items())
        holds = "yes" if all(map(each.reached, found.values())) else "no"
        rows.append([each.sentence, said, holds] if found else [each.sentence, "not measured", ""])
    return Table("", ["target", "found", "holds"], rows)


def _is(row: dict[str, Any], name: str, wanted: Any) -> bool:
    return row.get(name) in (wanted if isinstance(wanted, list) else [wanted])


def _number(row: dict[str, Any], field: str) -> float:
    """Return a field, or one divided by another; what never happens is infinite."""
    over, _, under = field.partition(" / ")
    value: float = math.inf if row[over] is None else row[over]
    return value / row[under] if under else value


def _said(value: float) -> str:
    return "never" if math.isinf(value) else plain(value, DIGITS)


def _label(row: dict[str, Any], where: dict[str, Any]) -> str:
    """Name a row by what sets it apart, as far as `where` does not say it."""
    words = [str(row[name]) for name in ("graph", "name") if name in row and _open(name, where)]
    words += [
        f"batch of {plain(row[name])}" for name in ("events", "batch") if name in row and _open(name, where)
    ]
    if "tolerance" in row:
        words.append(f"tolerance {plain(row['tolerance'])}")
    return ", ".join(words) or "found"


def _open(name: str, where: dict[str, Any]) -> bool:
    return name not in where or isinstance(where[name], list)
