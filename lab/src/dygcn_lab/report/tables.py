"""Tables of a page: cells, Markdown, and how numbers are written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Value:
    """A number of ours, and the paper's where it has one."""

    text: str
    paper: str = ""
    best: bool = False
    spread: str = ""


@dataclass(frozen=True)
class Table:
    """Columns and rows; the first column names the row."""

    caption: str
    columns: list[str]
    rows: list[list[str | Value]]


def markdown_table(table: Table) -> str:
    """Return a table as Markdown; the best of a column is bold, the paper's number in brackets."""
    lines = [f"**{table.caption}**", ""] if table.caption else []
    lines += ["| " + " | ".join(table.columns) + " |", "|---" * len(table.columns) + "|"]
    lines += ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in table.rows]
    return "\n".join(lines)


def rows_table(columns: Sequence[str], rows: Iterable[Sequence[str | Value]]) -> str:
    """Return rows as Markdown, without a caption."""
    return markdown_table(Table("", list(columns), list(map(list, rows))))


def _cell(cell: str | Value) -> str:
    if isinstance(cell, str):
        return cell
    text = f"**{cell.text}**" if cell.best else cell.text
    spread = f" ± {cell.spread}" if cell.spread and float(cell.spread) > 0 else ""
    return text + spread + (f" ({cell.paper})" if cell.paper else "")
