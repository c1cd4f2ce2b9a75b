"""For people a table and a progress bar, for machines (`--json`) one JSON value on standard output."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import click
import msgspec

from dygcn._late import late
from dygcn._progress import Notify, Plan, is_terminal, progress_of
from dygcn.cli.numbers import plain

if TYPE_CHECKING:
    from dygcn.cli import drawing
else:  # rich takes longer to import than a small folder to read
    drawing = late("dygcn.cli.drawing")

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
kind_option = click.option(
    "--kind", help="Only nodes of this kind, where nodes have kinds; * for every kind."
)
negative_ids = {"ignore_unknown_options": True}  # -5 is an id, not an option


class IdsCommand(click.Command):
    """A command whose ids may begin with a dash, as -5 does; what begins with two is an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse options that there are not, where the parser would take them for ids."""
        options = {text: one for one in self.get_params(ctx) for text in (*one.opts, *one.secondary_opts)}
        words = iter(args[: args.index("--")] if "--" in args else args)
        for word in words:
            name, joined, _ = word.partition("=")
            option = options.get(name)
            if option is None and name.startswith("--"):
                raise click.NoSuchOption(name, possibilities=get_close_matches(name, options), ctx=ctx)
            if isinstance(option, click.Option) and not option.is_flag and not joined:
                next(words, None)  # its value
        return super().parse_args(ctx, args)


folder_argument = click.argument("folder", metavar="DIR", type=click.Path())


@contextmanager
def progress_bar(plan: Plan = (), quiet: bool = False) -> Iterator[Notify]:
    """Show progress: a bar on a terminal; elsewhere a line now and then, if the phases are known.

    Parameters
    ----------
    plan
        The phases, see `progress_of`.
    quiet
        Print no lines: whoever reads standard error may be a machine, too.
    """
    asked = is_terminal() or (len(plan) > 0 and not quiet)
    with progress_of(asked, plan, lambda line: click.echo(f"dygcn: {line}", err=True)) as notify:
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
        drawing.print_table(columns, [[plain(item) for item in row] for row in rows])


def print_json(value: Any) -> None:
    """Print one JSON value."""
    click.echo(msgspec.json.encode(value))


def node_id(text: str, kind: str) -> int | str:
    """Return an id of the command line in the graph's type; raise if it is not of that type."""
    if kind != "int64":
        return text
    if not re.fullmatch("-?[0-9]{1,19}", text):
        raise click.BadParameter(f"{text!r} is not an int64, and the ids of this graph are")
    return int(text)
