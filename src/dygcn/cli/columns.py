"""Options that name the columns of a table of events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

_FIELDS = {
    "src": "Column of the first end.  [default: src]",
    "dst": "Column of the second end.  [default: dst]",
    "t": "Column of the time.  [default: t, if there]",
    "weight": "Column of the weight.  [default: weight, if there]",
    "op": "Column of the operation, +1 or -1.  [default: op, if there]",
    "relation": "Column of the relation.  [default: relation, if the model has some; fit: none]",
}


def column_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options --src, --dst, --t, --weight, --op, --relation and --shared-ids to a command."""
    for field, text in reversed(_FIELDS.items()):
        command = click.option(f"--{field}", metavar="COLUMN", help=text)(command)
    shared = "An id that is in both columns is one node."
    return click.option("--shared-ids", is_flag=True, help=shared)(command)


def kinds_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option --kinds to a command, which gets a list of names."""
    return click.option(
        "--kinds",
        metavar="NAME,NAME",
        callback=lambda _, __, text: text and text.split(","),
        help="What both columns hold, as in user,item: user 1 and item 1 are then two nodes.",
    )(command)
