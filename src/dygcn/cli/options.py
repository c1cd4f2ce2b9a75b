"""Arguments and options that commands share, and the folders, ids and event files that they name."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from difflib import get_close_matches
from functools import reduce
from pathlib import Path
from typing import Any

import click

import dygcn
from dygcn.errors import EventError, FolderInUse
from dygcn.live.durable.storage.layout import is_durable

FORMATS = ("csv", "tsv", "ndjson", "parquet")
_LOOKED_AT = 1 << 16  # bytes
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def together(*options: Decorator) -> Decorator:
    """Return a decorator that adds several options to a command, in this order."""
    return lambda command: reduce(lambda made, add: add(made), reversed(options), command)


folder_argument = click.argument("folder", metavar="DIR", type=click.Path())
kind_option = click.option(
    "--kind", help="Only nodes of this kind, where nodes have kinds; * for every kind."
)
now_option = click.option("--now", type=float, help="The time, for a model with memory.")
as_of_option = click.option(
    "--as-of",
    metavar="WHEN",
    help="Of a durable folder, as it was then: a sequence, a time such as 2026-11-10T12:00Z, or now. "
    "It may be being served.",
)
_COLUMNS = {
    "src": "Column of the first end.  [default: src]",
    "dst": "Column of the second end.  [default: dst]",
    "t": "Column of the time.  [default: t, if there]",
    "weight": "Column of the weight.  [default: weight, if there]",
    "op": "Column of the operation, +1 or -1.  [default: op, if there]",
    "relation": "Column of the relation.  [default: relation, if the model has some; fit: none]",
}
column_options = together(
    click.option("--shared-ids", is_flag=True, help="An id that is in both columns is one node."),
    *(click.option(f"--{field}", metavar="COLUMN", help=text) for field, text in _COLUMNS.items()),
)
events_options = together(
    click.argument("events", type=click.Path()),
    column_options,
    click.option(
        "--format",
        "form",
        type=click.Choice(FORMATS),
        help="Format of EVENTS.  [default: by the suffix; of standard input, by its first bytes]",
    ),
)
kinds_option = click.option(
    "--kinds",
    metavar="NAME,NAME",
    callback=lambda _, __, text: text and text.split(","),
    help="What both columns hold, as in user,item: user 1 and item 1 are then two nodes.",
)
log_options = together(
    click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        help="Of lines on standard error.  [default: text]",
    ),
    click.option(
        "--log-level",
        type=click.Choice(["debug", "info", "warning", "error"]),
        help="The least that is written.  [default: info]",
    ),
)


class IdsCommand(click.Command):
    """A command whose ids may begin with one dash, such as -5; two dashes begin an option."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **{"context_settings": {"ignore_unknown_options": True}, **settings})

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse unknown options, which the parser would take for ids."""
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


def node_id(text: str, kind: str) -> int | str:
    """Return an id of the command line in the type of the graph's ids; raise if it cannot be one."""
    if kind != "int64":
        return text
    if not re.fullmatch("-?[0-9]{1,19}", text):
        raise click.BadParameter(f"{text!r} is not an int64, and the ids of this graph are")
    return int(text)


def load_as_of(folder: str, as_of: str | None) -> dygcn.EmbeddingView:
    """Load a folder, or its past. A durable folder is not locked, so a service may have it open."""
    if as_of is None and not is_durable(folder):
        return dygcn.load(folder)
    return dygcn.open(folder, as_of="now" if as_of is None else as_of)


def open_unserved(folder: str, instead: str) -> dygcn.DurableEmbedding:
    """Open a durable folder; if another process has it open, the error says which request to send instead."""
    try:
        return dygcn.open(folder)
    except FolderInUse:
        raise FolderInUse(
            f"{folder} is open in another process, perhaps one that is serving it; {instead}, or stop it "
            "first"
        ) from None


@contextmanager
def events_file(events: str, form: str | None) -> Iterator[str]:
    """Yield a path whose suffix names the format: the path itself, or a copy's while the block runs.

    A copy, because every check of a file of events looks at it twice: at its shape first, then at its rows.
    """
    if events != "-" and form is None:
        yield events
        return
    with tempfile.TemporaryDirectory(prefix="dygcn-") as folder:
        with nullcontext(sys.stdin.buffer) if events == "-" else open(events, "rb") as source:
            begin = source.read(_LOOKED_AT)
            name = "stdin" if events == "-" else Path(events).stem
            path = Path(folder) / f"{name}.{form or format_of(begin)}"
            with path.open("wb") as copy:
                copy.write(begin)
                shutil.copyfileobj(source, copy)
        try:
            yield os.fspath(path)
        except EventError as error:  # the copy is none of the user's files
            named = "standard input" if events == "-" else repr(events)
            raise EventError(error.reason.replace(repr(str(path)), named), error.row) from None


def format_of(begin: bytes) -> str:
    """Return the format of a file by its first bytes."""
    if begin.startswith(b"PAR1"):
        return "parquet"
    if begin.lstrip().startswith(b"{"):
        return "ndjson"
    header = begin.partition(b"\n")[0]
    return "tsv" if header.count(b"\t") > header.count(b",") else "csv"
