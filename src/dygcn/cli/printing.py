"""Output: a table and a progress bar for people, one JSON value on standard output with `--json`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click
import msgspec

from dygcn._progress import Notify, Plan, is_terminal, progress_of

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
_BETWEEN = 2  # spaces between columns


@contextmanager
def progress_bar(plan: Plan = (), quiet: bool = False) -> Iterator[Notify]:
    """Show progress: a bar on a terminal, else a line now and then, if the phases are known.

    `quiet` prints no lines: a machine may read standard error, too.
    """
    wanted = is_terminal() or (len(plan) > 0 and not quiet)
    with progress_of(wanted, plan, lambda line: click.echo(f"dygcn: {line}", err=True)) as notify:
        yield notify or (lambda done, total, what: None)


def show(value: dict[str, Any], as_json: bool) -> None:
    """Print named values."""
    if as_json:
        print_json(value)
        return
    width = max(map(len, value))
    for name, item in value.items():
        click.echo(f"{name.replace('_', ' '):{width}}  {plain(item)}")


def show_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], as_json: bool, value: Any) -> None:
    """Print rows, or `value` as JSON."""
    if as_json:
        print_json(value)
    else:
        _draw(columns, [[plain(item) for item in row] for row in rows])


def print_json(value: Any) -> None:
    """Print one JSON value."""
    click.echo(msgspec.json.encode(value))


def plain(item: Any, digits: int = 4) -> str:
    """Return a value as text for people, with `digits` digits and separated thousands."""
    if isinstance(item, bool) or item is None:
        return {True: "yes", False: "no", None: "none"}[item]
    if isinstance(item, float):
        return f"{item:,.0f}" if abs(item) >= 1000 else f"{item:.{digits}g}"
    return f"{item:,}" if isinstance(item, int) else str(item)


def _draw(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """Print rows under the names of their columns."""
    # rich takes longer to import than a small folder to read.
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

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
