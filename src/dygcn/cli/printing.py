"""Output: a table and a progress bar for people, one JSON value on standard output with `--json`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click
import msgspec

from dygcn._progress import Notify, Plan, is_terminal, progress_of

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")


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
        return
    cells = [list(columns), *([plain(item) for item in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for first, *others in cells:
        right = (f"{text:>{width}}" for text, width in zip(others, widths[1:], strict=True))
        click.echo("  ".join([f"{first:<{widths[0]}}", *right]).rstrip())


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
