"""`dygcn fit`: events in, a folder out."""

from __future__ import annotations

import time
from typing import Any

import click

from dygcn.cli.columns import column_options, kinds_option
from dygcn.cli.printing import json_option, progress_bar, show
from dygcn.cli.reading import events_file, format_option
from dygcn.engine.models import RULES, find_fitting
from dygcn.engine.models.folder import check_target
from dygcn.live import fit
from dygcn.live.fitting import phases_of
from dygcn.paper import BASES

_EXPIRE = "Let edges leave so long after their last contact: in units of t, or as in 90d, 12h, 30m."


@click.command("fit")
@click.argument("events", type=click.Path())
@click.option("--out", required=True, metavar="DIR", type=click.Path(), help="Folder to write.")
@column_options
@kinds_option
@format_option
@click.option("--dim", default=128, show_default=True, help="Length of the vectors.")
@click.option("--orders", default=2, show_default=True, help="How far a change is propagated.")
@click.option("--rule", default="exact", show_default=True, type=click.Choice(list(RULES)))
@click.option(
    "--base",
    type=click.Choice([name for name in BASES if name != "embedding"]),
    help="Source of the first vectors of the rules rolling and spectral.  [default: gcn]",
)
@click.option("--steady", is_flag=True, help="Turn on the options against drift of rolling and spectral.")
@click.option(
    "--features",
    default="walks",
    show_default=True,
    metavar="KIND|FILE",
    help="walks or hashed; or a table of ids and values.",
)
@click.option("--width", default=256, show_default=True, help="Columns of hashed features.")
@click.option("--memory", type=float, metavar="HALF-LIFE", help="Let removed edges decay, in units of t.")
@click.option("--expire", metavar="TIME", callback=lambda _, __, text: _duration(text), help=_EXPIRE)
@click.option("--directed", is_flag=True, help="The source of an edge aggregates its target.")
@click.option(
    "--whole-weights", is_flag=True, help="All weights are whole: room for hubs of 2^38 neighbours."
)
@click.option(
    "--relation-weights",
    metavar="equal|choose|NAME=W,...",
    callback=lambda _, __, text: _weights(text),
    help="Weights of relations.  [default: equal]",
)
@click.option("--steps", type=int, help="Number of equal training steps.")
@click.option("--seed", default=0, show_default=True)
@json_option
def command(
    events: str, out: str, form: str | None, features: str, steady: bool, as_json: bool, **options: Any
) -> None:
    """Fit an embedding on EVENTS: Parquet, CSV or NDJSON with src, dst and optionally t, op, weight.

    EVENTS may also be the name of a data set: hepth-collab comes with dygcn, as-733 with dygcn-lab; or - for
    standard input.
    """
    begun = time.perf_counter()
    check_target(out)  # before the work, not after it
    options["recipe"] = find_fitting(options["rule"]).steady_recipe() if steady else None
    if steady and options["recipe"] is None:
        raise click.UsageError("--steady needs --rule rolling or --rule spectral")
    chosen = options["relation_weights"] == "choose"
    phases = *phases_of(options["rule"], features, chosen), ("saving", 1)
    with progress_bar(phases, as_json) as notify, events_file(events, form) as path:
        live = fit(path, features=features, progress=notify, **options)
        notify(0, 1, "saving")
        live.save(out)
    show(
        {
            "folder": out,
            "nodes": len(live),
            "edges": live.edge_count,
            "dim": live.model.dim,
            "seconds": time.perf_counter() - begun,
        },
        as_json,
    )


def _duration(text: str | None) -> float | str | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def _weights(text: str | None) -> dict[str, float] | str | None:
    if text is None or "=" not in text:
        return text
    try:
        pairs = [one.rpartition("=") for one in text.split(",")]
        return {name.strip(): float(weight) for name, _, weight in pairs}
    except ValueError:
        raise click.BadParameter(f"{text!r}; allowed is equal, choose, or as in view=1,buy=4") from None
