"""The `dygcn` command and how its errors look: one line, an exit code, what to do."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click

import dygcn
from dygcn.errors import DygcnError, OptionError, UnknownNode

EXIT_ERROR, EXIT_USAGE, EXIT_UNKNOWN = 1, 2, 3
COMMANDS = (
    "bench",
    "evaluate",
    "fit",
    "info",
    "nearest",
    "reproduce",
    "restore",
    "run",
    "score",
    "serve",
    "token",
    "update",
    "vector",
)


class _Lazy(click.Group):
    """Loads a command when it is called, so that `dygcn --help` answers at once."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"dygcn.cli.{cmd_name}").command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except UnknownNode as error:
            _fail(str(error), EXIT_UNKNOWN)
        except OptionError as error:
            _fail(str(error), EXIT_USAGE)
        except DygcnError as error:
            _fail(str(error), EXIT_ERROR)
        except OSError as error:
            _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error), EXIT_ERROR)


def _fail(message: str, code: int) -> None:
    click.echo(f"error: {message}", err=True)
    sys.exit(code)


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(dygcn.__version__, prog_name="dygcn")
def main() -> None:
    """Live node embeddings for graphs that never stop changing.

    Exit codes: 0 done, 1 an error in data or folder, 2 wrong usage, 3 an id that is not in the graph.
    """
