"""For people a table and a progress bar, for machines (`--json`) one JSON value on standard output."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from dygcn.report.tables import plain

Notify = Callable[[int, int, str], None]
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
_BETWEEN = 2  # spaces
negative_ids = {"ignore_unknown_options": True}  # -5 is an id, not an option
folder_argument = click.argument("folder", metavar="DIR", type=click.Path())


@contextmanager
def progress_bar() -> Iterator[Notify]:
    """Show progress on standard error; hand over a function to call as (done, total, what)."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("starting", total=None)

        def notify(done: int, total: int, what: str) -> None:
            bar.update(task, completed=done, total=total, description=what)

        yield notify


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
        return
    cells = [[plain(item) for item in row] for row in rows]
    console = Console()
    widths = _widths([list(column) for column in zip(columns, *cells, strict=True)], console.width)
    table = Table(box=None, pad_edge=False)
    for index, (column, width) in enumerate(zip(columns, widths, strict=True)):
        table.add_column(column, justify="left" if index == 0 else "right", width=width)
    for row in cells:
        table.add_row(*map(Text, row))
    console.width = max(console.width, sum(widths) + _BETWEEN * len(widths))
    console.print(table)


def _widths(columns: Sequence[Sequence[str]], room: int) -> list[int]:
    """Return how wide each column is to be: lines may wrap where there is no room, words are never cut."""
    widths = [max(len(word) for line in column for word in line.split() or [""]) for column in columns]
    spare = room - sum(widths) - _BETWEEN * len(widths)
    for index, column in enumerate(columns):
        more = min(max(map(len, column)) - widths[index], max(spare, 0))
        widths[index] += more
        spare -= more
    return widths


def print_json(value: Any) -> None:
    """Print one JSON value."""
    click.echo(msgspec.json.encode(value))


def node_id(text: str, kind: str) -> int | str:
    """Read an id from the command line as the type that the graph has."""
    if kind == "string":
        return text
    if not re.fullmatch("-?[0-9]{1,19}", text):
        raise click.BadParameter(f"this graph has int64 ids, and {text!r} is none")
    return int(text)
