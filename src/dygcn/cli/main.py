"""The `dygcn` command: finds subcommands, and prints each error in one line with an exit code."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click
from click.shell_completion import CompletionItem

import dygcn
from dygcn.cli.listing import COMMANDS, LAB, LAB_COMMANDS, joined
from dygcn.errors import DygcnError, OptionError, UnknownNode

EXIT_ERROR, EXIT_USAGE, EXIT_UNKNOWN = 1, 2, 3


class _Lazy(click.Group):
    """Loads a command when it is called, so that listing commands is quick and needs no extra."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*COMMANDS, *joined()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command: click.Command
        if cmd_name in COMMANDS:
            command = importlib.import_module(f"dygcn.cli.{cmd_name}").command
            return command
        entry = joined().get(cmd_name)
        if entry is not None:
            command = entry.load()
            return command
        if cmd_name in LAB_COMMANDS:
            raise OptionError(f"`dygcn {cmd_name}` comes with the laboratory: pip install {LAB}")
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        entries = joined()
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))
        missing = "" if LAB_COMMANDS.keys() <= entries.keys() else f" (pip install {LAB})"
        with formatter.section(f"Commands of the laboratory{missing}"):
            formatter.write_dl(list(LAB_COMMANDS.items()))
        if others := [name for name in entries if name not in LAB_COMMANDS]:
            with formatter.section("Commands of other distributions"):
                formatter.write_dl([(name, entries[name].value) for name in others])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        lines = COMMANDS | {name: LAB_COMMANDS.get(name, "") for name in joined()}
        found = [
            CompletionItem(name, help=line)
            for name, line in sorted(lines.items())
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

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
