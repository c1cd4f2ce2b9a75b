"""The options of `serve` and `run` that say how log lines look, and which are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])


def log_options(command: _Command) -> _Command:
    """Add --log-format and --log-level to a command."""
    form = click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        help="Of lines on standard error.  [default: text]",
    )
    level = click.option(
        "--log-level",
        type=click.Choice(["debug", "info", "warning", "error"]),
        help="The least that is written.  [default: info]",
    )
    return form(level(command))
