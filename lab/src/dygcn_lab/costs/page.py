"""`docs/costs.md`, written from files of results and nothing else."""

from __future__ import annotations

import importlib.resources
import os
from typing import TYPE_CHECKING

from dygcn.cli.printing import plain
from dygcn_lab.costs.headline import costs_table
from dygcn_lab.costs.pictures import draw
from dygcn_lab.costs.results import KINDS
from dygcn_lab.costs.tables import tables_of
from dygcn_lab.costs.targets import asked_table, read_asked
from dygcn_lab.report.tables import markdown_table

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from dygcn_lab.costs.results import Result


GLANCE = """\
Hashed features of width 256, two orders; events add and remove edges all over the graph.
*Cheaper from a batch of*: a smaller batch is cheaper as an update, a larger one as a rerun. If all changed
vectors are read after every batch, reading is most of the cost, and one pass of a GCN (another embedding,
untrained, its features and matrix ready) is cheaper much sooner."""


def page_text(results: Mapping[str, Result], pictures: Mapping[str, str]) -> str:
    """Return the page as Markdown.

    Parameters
    ----------
    results
        Kind -> what was measured.
    pictures
        Kind -> path of its picture, as seen from the page.
    """
    head = _prose().partition("\n## ")[0]
    asked = markdown_table(asked_table(read_asked(), results))
    parts = [head.strip(), *_at_a_glance(results), "## What was asked, and what was found", asked]
    for kind, title, says in sections_of(_prose()):
        parts += [f"## {title}", says]
        if kind in results:
            parts += _measured(kind, title, results[kind], pictures)
        else:
            parts.append(f"Not measured yet. `dygcn bench {kind} --json` writes what stands here.")
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
