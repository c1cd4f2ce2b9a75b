"""`docs/results.md` and the results of the README, written from finished cells and nothing else."""

from __future__ import annotations

import dataclasses
import importlib.resources
from typing import TYPE_CHECKING

from dygcn_lab.experiments.pages import markdown_section
from dygcn_lab.experiments.score_tables import (
    NOWHERE,
    added_table,
    added_words,
    headline_table,
    short_table,
    trivial_table,
    trivial_wins,
    trivial_words,
)
from dygcn_lab.experiments.score_verdicts import score_verdicts
from dygcn_lab.experiments.verdicts import hashed_verdicts, verdict_table
from dygcn_lab.experiments.walk_verdicts import fresh_words, walk_verdicts
from dygcn_lab.report.blocks import put_between
from dygcn_lab.report.tables import markdown_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dygcn_lab.experiments.cells import CellStore
    from dygcn_lab.experiments.sections import Section

MARKS = "<!-- results: written by dygcn reproduce -->", "<!-- end of results -->"
KINDS = ("as-caida", "hepth-collab", "sx-mathoverflow", "email-eu-core-temporal")
"""The data sets of the README, one of each kind: machines, co-authors, questions and answers, messages."""


def results_page(sections: Sequence[Section], store: CellStore, pictures: dict[str, str]) -> str:
    """Return the page as Markdown: first where it does not hold, then what was asked, then all tables.

    Parameters
    ----------
    pictures
        Experiment -> path of its picture, as seen from the page.
    """
    head = (importlib.resources.files("dygcn_lab.experiments") / "results_head.md").read_text(
        encoding="utf-8"
    )
    parts = ["# Results", added_words(store), trivial_words(store)]
    parts += ["## At a glance", fresh_words(store), markdown_table(headline_table(store))]
    parts += ["## How methods are judged", head.strip(), _claims(store)]
    for section in sections:
        parts.append(_section(section, store, pictures))
        if section.experiment.name == "links":
            parts.append(_trivial(store))
    return "\n\n".join(parts) + "\n"


def _claims(store: CellStore) -> str:
    tables = (
        verdict_table(walk_verdicts(store), "Freshness, and walk features by the cosine"),
        verdict_table(score_verdicts(store), "The score of a link"),
        verdict_table(hashed_verdicts(store), "Hashed features by the cosine, all edges"),
    )
    return "\n\n".join(["## What was asked, and what was found", *map(markdown_table, tables)])


def _section(section: Section, store: CellStore, pictures: dict[str, str]) -> str:
    name = section.experiment.name
    if name == "parts" and section.tables:
        section = dataclasses.replace(section, tables=[added_table(store), *section.tables])
    text = markdown_section(section)
    if name in pictures:
        title, rest = text.split("\n\n", 1)
        text = f"{title}\n\n![{section.experiment.title}]({pictures[name]})\n\n{rest}"
    return text


def _trivial(store: CellStore) -> str:
    table, title = trivial_table(store), "## Where trivial methods win"
    if not table.rows:
        return f"{title}\n\n{NOWHERE if trivial_wins(store)[1] else 'Not run'}."
    said = "The best of the rows that learn nothing, wherever its mean is above that of the score."
    return f"{title}\n\n{said}\n\n{markdown_table(table)}"


def with_headline(readme: str, store: CellStore) -> str:
    """Return a README whose table of results is that of the cells: four rows and four columns."""
    return put_between(readme, MARKS, markdown_table(short_table(store, KINDS)))
