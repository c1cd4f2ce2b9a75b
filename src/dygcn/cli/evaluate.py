"""`dygcn evaluate`: how well an embedding foretells the later events of a file, beside simple methods."""

from __future__ import annotations

from typing import Any

import click

from dygcn.cli.columns import column_options, kinds_option
from dygcn.cli.printing import json_option, print_json, progress_bar
from dygcn.cli.reading import events_file, format_option
from dygcn.live import evaluate
from dygcn.live.evaluating import plan_of


@click.command("evaluate")
@click.argument("events", type=click.Path())
@column_options
@kinds_option
@format_option
@click.option("--dim", default=128, show_default=True, help="Length of the vectors.")
@click.option(
    "--questions",
    default=500,
    show_default=True,
    type=click.IntRange(1),
    help="How many later events are asked about, at most.",
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0))
@click.option(
    "--plot",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Draw the result: PNG, SVG or PDF, by the suffix.",
)
@json_option
def command(events: str, form: str | None, plot: str | None, as_json: bool, **options: Any) -> None:
    """Fit on the first 70 % of EVENTS, ask about later ones, and print who foretells them best.

    EVENTS is a file as `dygcn fit` takes it, the name of a data set, or - for standard input. Nothing is
    saved.
    """
    with progress_bar(plan_of(), as_json) as notify, events_file(events, form) as path:
        found = evaluate(path, progress=notify, **options)
    if as_json:
        print_json(found.to_dict())
    else:
        click.echo(f"{found!r}\nIt took {found.seconds:.1f} seconds.")
    if plot is not None:  # last: what was found is not lost for a picture that cannot be written
        _draw(found, plot)


def _draw(found: Any, path: str) -> None:
    figure = found.plot().figure
    try:
        figure.savefig(path, dpi=150)
    except ValueError as error:  # a suffix that matplotlib does not write
        raise click.BadParameter(f"{path}: {error}", param_hint="--plot") from None
