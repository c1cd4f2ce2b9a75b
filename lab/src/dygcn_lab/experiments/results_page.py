"""`docs/results.md` and the results of the README, written from finished cells and nothing else."""

from __future__ import annotations

import base64
import csv
import dataclasses
import importlib.resources
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dygcn._extras import extra
from dygcn_lab.evaluation.seen import SHARES
from dygcn_lab.experiments.cells import Cell, CellStore
from dygcn_lab.experiments.findings import MEASURES, find, series_of
from dygcn_lab.experiments.plan import Experiment, read_experiment
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
from dygcn_lab.experiments.sections import Section, title_of
from dygcn_lab.experiments.verdicts import hashed_verdicts, verdict_table
from dygcn_lab.experiments.walk_verdicts import fresh_words, walk_verdicts
from dygcn_lab.report.blocks import put_between
from dygcn_lab.report.tables import Table, Value, markdown_table

HISTORY_MARKS = "<!-- history: written by dygcn reproduce -->", "<!-- end of history -->"
MARKS = "<!-- results: written by dygcn reproduce -->", "<!-- end of results -->"
KINDS = ("as-caida", "hepth-collab", "sx-mathoverflow", "email-eu-core-temporal")
"""The data sets of the README, one of each kind: machines, co-authors, questions and answers, messages."""


def results_page(sections: Sequence[Section], store: CellStore, pictures: dict[str, str]) -> str:
    """Return the page as Markdown: first where it does not hold, then what was asked, then all tables.

    `pictures`: experiment -> path of its picture, as seen from the page.
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


CLASSES = (
    *("accuracy.held-out", "accuracy.majority"),
    *("accuracy.held-out.newcomers", "accuracy.majority.newcomers"),
)


def with_history(text: str, store: CellStore) -> str:
    """Return a page whose tables are those of the cells."""
    experiment = read_experiment("harder")
    tables = (_shares(experiment, store), _classes(experiment, store))
    return put_between(text, HISTORY_MARKS, "\n\n".join(markdown_table(table) for table in tables))


def _shares(experiment: Experiment, store: CellStore) -> Table:
    rows: list[list[str | Value]] = []
    for dataset in experiment.datasets:
        result = store.read(Cell(dataset, "shares", 0))
        if result is not None:
            record = result.records["shares"]
            means = [
                np.nanmean(series_of(record, name)) if name in record.figures else None for name in SHARES
            ]
            rows.append([title_of(dataset), *("" if mean is None else f"{mean:.3f}" for mean in means)])
    return Table("What was there before", ["data", *SHARES.values()], rows)


def _classes(experiment: Experiment, store: CellStore) -> Table:
    found: dict[str, dict[str, float]] = {}
    for each in find(experiment, store):
        if each.measure in CLASSES and each.row.label in ("hashed", "do nothing"):
            name = f"{title_of(each.dataset)}, {each.row.label}"
            found.setdefault(name, {})[each.measure] = each.mean
    rows: list[list[str | Value]] = [
        [name, *(f"{means[each]:.3f}" if each in means else "" for each in CLASSES)]
        for name, means in found.items()
    ]
    return Table("Classes", ["data", *(MEASURES[measure] for measure in CLASSES)], rows)


INTRO = "Every claim beside the baselines that a sceptic would ask for, and beside the paper's own number."


def write_csv(section: Section, file: Path) -> None:
    """Write the numbers of a section."""
    with file.open("w", newline="", encoding="utf-8") as out:
        csv.writer(out, lineterminator="\n").writerows(section.lines)


def write_html(
    sections: Sequence[Section],
    pictures: dict[str, Path],
    file: Path,
    title: str,
    claims: Table | None = None,
) -> None:
    """Write one page with everything in it, pictures too, and claims at its head if there are any."""
    with extra("evidence", of="dygcn-lab"):
        import jinja2  # noqa: PLC0415
    text = (importlib.resources.files("dygcn_lab.experiments") / "page.html").read_text(encoding="utf-8")
    template = jinja2.Environment(autoescape=True, trim_blocks=False).from_string(text)
    inside = {name: base64.b64encode(picture.read_bytes()).decode() for name, picture in pictures.items()}
    page = template.render(title=title, intro=INTRO, sections=list(sections), pictures=inside, claims=claims)
    file.write_text(page, encoding="utf-8")


def markdown_section(section: Section, level: str = "##") -> str:
    """Return a section as Markdown."""
    parts = [f"{level} {section.experiment.title}", section.experiment.says.strip()]
    if section.left_out:
        parts.append(f"Not run: {', '.join(section.left_out)}.")
    parts += [markdown_table(table) for table in section.tables]
    if section.experiment.reading:
        parts.append(section.experiment.reading.strip())
    if section.reasons:
        parts.append("Where the AUC is further than 0.03 from the paper's:")
        parts.append("\n".join(f"- {reason}" for reason in section.reasons))
    return "\n\n".join([*parts, f"*{section.footer}*"])
