"""`docs/results.md` and the table of the README, written from finished cells and nothing else."""

from __future__ import annotations

import importlib.resources
from typing import TYPE_CHECKING

from dygcn.experiments.pages import markdown_section
from dygcn.experiments.verdicts import hashed_verdicts, headline_table, verdict_table
from dygcn.experiments.walk_verdicts import walk_verdicts
from dygcn.report.blocks import put_between
from dygcn.report.tables import markdown_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dygcn.experiments.cells import CellStore
    from dygcn.experiments.sections import Section

MARKS = "<!-- results: written by dygcn reproduce -->", "<!-- end of results -->"


def results_page(sections: Sequence[Section], store: CellStore, pictures: dict[str, str]) -> str:
    """Return the page as Markdown.

    Parameters
    ----------
    pictures
        Experiment -> path of its picture, as seen from the page.
    """
    head = (importlib.resources.files("dygcn.experiments") / "results_head.md").read_text(encoding="utf-8")
    parts = [
        head.strip(),
        "## What was asked of walk features",
        markdown_table(verdict_table(walk_verdicts(store))),
        "## What was claimed of hashed features, and what was found",
        markdown_table(verdict_table(hashed_verdicts(store))),
    ]
    for section in sections:
        text = markdown_section(section)
        name = section.experiment.name
        if name in pictures:
            title, rest = text.split("\n\n", 1)
            text = f"{title}\n\n![{section.experiment.title}]({pictures[name]})\n\n{rest}"
        parts.append(text)
    return "\n\n".join(parts) + "\n"


def with_headline(readme: str, store: CellStore) -> str:
    """Return a README whose results table is that of the cells."""
    return put_between(readme, MARKS, markdown_table(headline_table(store)))
