"""`docs/results.md` and the table of the README, written from finished cells and nothing else."""

from __future__ import annotations

import importlib.resources
import re
from typing import TYPE_CHECKING

from dygcn.errors import DygcnError
from dygcn.experiments.pages import markdown_section, markdown_table
from dygcn.experiments.verdicts import headline_table, verdict_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dygcn.experiments.cells import CellStore
    from dygcn.experiments.sections import Section

BEGIN, END = "<!-- results: written by dygcn reproduce -->", "<!-- end of results -->"


def results_page(sections: Sequence[Section], store: CellStore, pictures: dict[str, str]) -> str:
    """Return the page as Markdown.

    Parameters
    ----------
    pictures
        Experiment -> path of its picture, as seen from the page.
    """
    head = (importlib.resources.files("dygcn.experiments") / "results_head.md").read_text(encoding="utf-8")
    parts = [head.strip(), "## What was claimed, and what was found", markdown_table(verdict_table(store))]
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
    if BEGIN not in readme or END not in readme:
        raise DygcnError(f"the README has no place for the table; put {BEGIN} and {END} around one")
    table = markdown_table(headline_table(store))
    return re.sub(
        f"{re.escape(BEGIN)}.*?{re.escape(END)}", f"{BEGIN}\n{table}\n{END}", readme, flags=re.DOTALL
    )
