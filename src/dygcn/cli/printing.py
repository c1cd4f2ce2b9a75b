"""For people a table and a progress bar, for machines (`--json`) one JSON value on standard output."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
import msgspec

from dygcn._late import late
from dygcn.cli.numbers import plain

if TYPE_CHECKING:
    from dygcn.cli import drawing
else:  # rich takes longer to import than a small folder to read
    drawing = late("dygcn.cli.drawing")

Notify = Callable[[int, int, str], None]
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
negative_ids = {"ignore_unknown_options": True}  # -5 is an id, not an option
folder_argument = click.argument("folder", metavar="DIR", type=click.Path())


@contextmanager
def progress_bar() -> Iterator[Notify]:
    """Show progress if standard error is a terminal; yield a function to call as (done, total, what)."""
    if sys.stderr.isatty():
        with drawing.bar() as notify:
            yield notify
    else:
        yield lambda done, total, what: None


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
        drawing.print_table(columns, [[plain(item) for item in row] for row in rows])


def print_json(value: Any) -> None:
    """Print one JSON value."""
    click.echo(msgspec.json.encode(value))


def node_id(text: str, kind: str) -> int | str:
    """Return an id of the command line in the graph's type; raise if it is not of that type."""
    if kind == "string":
        return text
    if not re.fullmatch("-?[0-9]{1,19}", text):
        raise click.BadParameter(f"{text!r} is not an int64, and the ids of this graph are")
    return int(text)
