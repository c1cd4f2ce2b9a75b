"""`dygcn soak`: every promise put to the test."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec
from rich.console import Console

from dygcn.cli.printing import json_option, print_json
from dygcn_lab.soak.page import write_page
from dygcn_lab.soak.run import RESULTS, choose, is_good, notes_of, soak, table_of


@click.command("soak")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--quick", is_flag=True, help="The small sizes that CI runs.")
@click.option("--seed", default=0, show_default=True, help="Of everything that is random.")
@click.option("--out", type=click.Path(path_type=Path), default=RESULTS, show_default=True, metavar="DIR")
@click.option(
    "--page",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Run nothing; write the page from the results.",
)
@json_option
def command(
    names: tuple[str, ...], quick: bool, seed: int, out: Path, page: Path | None, as_json: bool
) -> None:
    """Put every promise to the test, one after the other.

    NAMES are the checks to run; all of them if there is none. Exit code 1 says that a promise does not
    hold, or that a check missed the bug that was put in to see that it can fail.
    """
    if page is not None:
        write_page(out, page)
        return
    found = soak(choose(names), quick, seed, out, Console(stderr=True))
    if as_json:
        print_json(msgspec.to_builtins(found))
    else:
        console = Console()
        console.print(table_of(found))
        for note in notes_of(found):
            console.print(note, markup=False)
    sys.exit(0 if all(map(is_good, found.values())) else 1)
