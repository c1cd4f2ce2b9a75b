"""Tables for the commands, drawn by rich."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Sequence

_BETWEEN = 2  # spaces


def print_table(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """Print rows under the names of their columns."""
    console = Console()
    widths = _widths([list(column) for column in zip(columns, *cells, strict=True)], console.width)
    table = Table(box=None, pad_edge=False)
    for index, (column, width) in enumerate(zip(columns, widths, strict=True)):
        table.add_column(column, justify="left" if index == 0 else "right", width=width)
    for row in cells:
        table.add_row(*map(Text, row))
    console.width = max(console.width, sum(widths) + _BETWEEN * len(widths))
    console.print(table)


def _widths(columns: Sequence[Sequence[str]], total: int) -> list[int]:
    """Return the width of each column: lines may wrap to fit the total, words are never cut."""
    widths = [max(len(word) for line in column for word in line.split() or [""]) for column in columns]
    spare = total - sum(widths) - _BETWEEN * len(widths)
    for index, column in enumerate(columns):
        more = min(max(map(len, column)) - widths[index], max(spare, 0))
        widths[index] += more
        spare -= more
    return widths
