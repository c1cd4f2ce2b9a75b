"""A reproduction as files: CSV, PNG, one HTML page, and Markdown for the docs."""

from __future__ import annotations

import base64
import csv
import importlib.resources
from typing import TYPE_CHECKING

from dygcn._extras import extra
from dygcn_lab.report.tables import markdown_table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dygcn_lab.experiments.sections import Section
    from dygcn_lab.report.tables import Table

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
