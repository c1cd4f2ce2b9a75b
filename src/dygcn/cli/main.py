"""The `dygcn` command: finds subcommands, and prints each error in one line with an exit code."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from importlib.metadata import EntryPoint
from typing import Any

import click
from click.shell_completion import CompletionItem

import dygcn
from dygcn._extras import plugins
from dygcn.errors import DygcnError, OptionError, UnknownNode

# A line is the first sentence of the command's own help; a test compares them.
COMMANDS = {
    "dead-letters": "List, replay or discard events that the service at URL could not apply.",
    "evaluate": "Fit on the first 70 % of EVENTS, ask about later ones, and print who foretells them best.",
    "explain": "Print what each neighbour of ID adds to its vector, order by order.",
    "fit": "Fit an embedding on EVENTS: Parquet, CSV or NDJSON with src, dst and optionally t, op, weight.",
    "forget": "Remove IDS from graph, model, log, snapshots and dead letters of DIR, and print a receipt.",
    "info": "Check the folder DIR and print its settings, counts and digest.",
    "nearest": "Print the k nodes nearest to each ID, by cosine.",
    "recommend": "Print the k nodes that ID is likeliest to link with, by the learned score.",
    "refit": "Make new rows for the walk model in DIR, save to NEW, and print whether they predict better.",
    "restore": "Copy a durable BACKUP to a new FOLDER, check it, and begin a new epoch there.",
    "run": "Run the sources, the embedding, the sinks and HTTP of CONFIG.toml until it is stopped.",
    "score": "Print how likely two nodes are linked next: log-odds, or the cosine if no score was learned.",
    "serve": "Serve the embedding in DIR over HTTP, durably, until it is stopped.",
    "token": "Make a token for NAME.",
    "update": "Apply EVENTS to the embedding in DIR and save it.",
    "vector": "Print the vectors of IDS, or write vectors to a file.",
    "what-if": "Print who would move, and how far, if edges were added or removed; DIR does not change.",
}
_MODULES = {
    "changes": ("forget", "restore", "update"),
    "dead_letters": ("dead-letters",),
    "fitting": ("evaluate", "fit", "refit"),
    "reads": ("explain", "info", "nearest", "recommend", "score", "vector", "what-if"),
    "serve": ("run", "serve", "token"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}
LAB = "dygcn-lab"
LAB_COMMANDS = {  # commands of the laboratory. `dygcn --help` lists them even if it is not installed
    "bench": "Measure what updates cost.",
    "judge": "Fit a method on the first half of DATASET's steps, follow the rest, and judge every step.",
    "reproduce": "Rerun tables and figures of the paper (NAME: table2, figure-nc, ..., or all).",
    "soak": "Put every promise to the test, one after the other.",
}
GROUP = "dygcn.commands"  # the group of entry points for commands of other distributions
EXIT_ERROR, EXIT_USAGE, EXIT_UNKNOWN, EXIT_INTERRUPTED, EXIT_NO_READER = 1, 2, 3, 130, 141


def joined() -> dict[str, EntryPoint]:
    """Return the entry points of commands of other distributions, by name, without importing any."""
    return {name: entry for name, entry in plugins(GROUP).items() if name not in COMMANDS}


class _Lazy(click.Group):
    """Loads a command when it is called, so that listing commands is quick and needs no extra."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*COMMANDS, *joined()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        command: click.Command
        if cmd_name in COMMANDS:
            module = importlib.import_module(f"dygcn.cli.{_MODULE_OF[cmd_name]}")
            command = getattr(module, cmd_name.replace("-", "_"))
            return command
        entry = joined().get(cmd_name)
        if entry is not None:
            command = entry.load()
            return command
        if cmd_name in LAB_COMMANDS:
            raise OptionError(f"`dygcn {cmd_name}` comes with the laboratory: pip install {LAB}")
        near = get_close_matches(cmd_name, [*COMMANDS, *LAB_COMMANDS, *joined()], n=1)
        hint = f"did you mean `dygcn {near[0]}`?" if near else "`dygcn --help` lists all commands"
        raise OptionError(f"there is no command {cmd_name!r}; {hint}")

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

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            _fail_usage(error, ctx)
            raise

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except UnknownNode as error:
            _fail(str(error), EXIT_UNKNOWN)
        except DygcnError as error:
            code = EXIT_USAGE if isinstance(error, OptionError) else EXIT_ERROR
            _fail(with_options(str(error), self._options(ctx)), code)
        except click.UsageError as error:
            _fail_usage(error, ctx)
        except KeyboardInterrupt:
            _fail("interrupted", EXIT_INTERRUPTED)
        except BrokenPipeError:
            _end_quietly()
        except OSError as error:
            _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error), EXIT_ERROR)

    def _options(self, ctx: click.Context) -> list[str]:
        name = ctx.invoked_subcommand
        if name not in COMMANDS:
            return []
        spelt = [text for one in self.get_command(ctx, name).params for text in one.opts]
        return [text[2:].replace("-", "_") for text in spelt if text.startswith("--")]


def with_options(message: str, names: Sequence[str]) -> str:
    """Return an error message with command-line options in place of Python keywords."""
    if not names:
        return message
    keyword = rf"""\b({"|".join(map(re.escape, names))})=("[^"]*"|'[^']*'|True\b|\("\w+", "\w+"\))?"""
    run = rf"{keyword}(, {keyword})*".replace("(", "(?:").replace("\\(?:", "\\(")
    return re.sub(run, lambda found: " ".join(map(_option, re.findall(keyword, found[0]))), message)


def _option(keyword: tuple[str, str]) -> str:
    name, value = keyword
    text = [] if value in ("", "True") else [shlex.quote(value[1:-1].replace('", "', ",").strip('"'))]
    return " ".join([f"--{name.replace('_', '-')}", *text])


def _fail_usage(error: click.UsageError, ctx: click.Context) -> None:
    """Print what is wrong with the arguments, in one line; without arguments, show the help."""
    if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
        raise error
    text = " ".join(error.format_message().split()).rstrip(".")
    called = " ".join(["dygcn", *(error.ctx or ctx).command_path.split()[1:]])
    _fail(f"{text[:1].lower()}{text[1:]}; see `{called} --help`", EXIT_USAGE)


def _end_quietly() -> None:
    """Exit silently when the reader of the output, such as `head`, has closed the pipe."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is not written yet
    sys.exit(EXIT_NO_READER)


def _fail(message: str, code: int) -> None:
    click.echo(f"error: {message}", err=True)
    sys.exit(code)


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(dygcn.__version__, prog_name="dygcn")
def main() -> None:
    """Live node embeddings for graphs that never stop changing.

    Exit codes: 0 done, 1 an error in data or folder, 2 wrong usage, 3 an id that is not in the graph,
    130 interrupted, 141 nobody reads the output any more.
    """
