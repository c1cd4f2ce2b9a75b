"""Commands that fit: `fit`, `refit` and `evaluate`."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import click

from dygcn._progress import Notify
from dygcn.cli.options import events_file, events_options, folder_argument, kinds_option
from dygcn.cli.printing import json_option, print_json, progress_bar, show
from dygcn.engine.models.choices import find_fitting
from dygcn.engine.models.folder import check_target
from dygcn.engine.models.model import rule_names
from dygcn.live.durable.opening import open as open_folder
from dygcn.live.durable.storage.layout import is_durable
from dygcn.live.embedding import load
from dygcn.live.evaluating import evaluate as evaluate_events
from dygcn.live.evaluating import plan_of
from dygcn.live.fitting import fit as fit_events
from dygcn.live.fitting import phases_of
from dygcn.live.refitting import PHASES, Refit
from dygcn.paper import BASES

_EXPIRE = "Let edges leave so long after their last contact: in units of t, or as in 90d, 12h, 30m."


@click.command("fit")
@click.option("--out", required=True, metavar="DIR", type=click.Path(), help="Folder to write.")
@events_options
@kinds_option
@click.option("--dim", default=128, show_default=True, help="Length of the vectors.")
@click.option("--orders", default=2, show_default=True, help="How far a change is propagated.")
@click.option("--rule", default="exact", show_default=True, type=click.Choice(rule_names()))
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
def fit(
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
        live = fit_events(path, features=features, progress=notify, **options)
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


@click.command("refit")
@folder_argument
@click.option("--out", required=True, metavar="NEW", type=click.Path(), help="Folder to write.")
@json_option
def refit(folder: str, out: str, as_json: bool) -> None:
    """Make new rows for the walk model in DIR, save to NEW, and print whether they predict better.

    DIR does not change. The new vectors are rotated onto the old ones. From a durable DIR, NEW goes on where
    the streams of DIR are, and what DIR has forgotten stays forgotten.
    """
    begun = time.perf_counter()
    if Path(out).resolve().is_relative_to(Path(folder).resolve()):
        raise click.UsageError(
            "--out is DIR itself, or inside it, and refit does not change DIR; choose another folder"
        )
    if is_durable(folder) and os.path.exists(out):  # before the work, not after it
        raise click.UsageError(f"{out} exists, and a durable folder begins in a new one; choose another name")
    check_target(out)
    with progress_bar((("loading", 1), *PHASES, ("saving", 1)), as_json) as notify:
        notify(0, 1, "loading")
        found = _refit(folder, out, notify)
    compared = {name: getattr(found, name) for name in ("auc_before", "auc_after", "auc_error")}
    show(
        {
            "folder": out,
            "gains": found.gains,
            **{name: None if value != value else value for name, value in compared.items()},
            "held_out": found.held_out,
            "cosine": found.cosine,
            "cosine_p10": found.cosine_p10,
            "nodes": len(found.embedding),
            "unreached": found.embedding.unreached,
            "seconds": time.perf_counter() - begun,
        },
        as_json,
    )


def _refit(folder: str, out: str, notify: Notify) -> Refit[Any]:
    """Make new rows and save the result; for a durable folder, to a durable one that continues from it."""
    if not is_durable(folder):
        found = load(folder).refit(notify)
        notify(0, 1, "saving")
        found.embedding.save(out)
        return found
    live = open_folder(folder)
    try:
        found = live.refit(notify)
        notify(0, 1, "saving")
        open_folder(out, found.embedding, after=live).close()
        return found
    finally:
        live._let_go()  # without a snapshot, since nothing changed


@click.command("evaluate")
@events_options
@kinds_option
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
def evaluate(events: str, form: str | None, plot: str | None, as_json: bool, **options: Any) -> None:
    """Fit on the first 70 % of EVENTS, ask about later ones, and print who foretells them best.

    EVENTS is a file as `dygcn fit` takes it, the name of a data set, or - for standard input. Nothing is
    saved.
    """
    with progress_bar(plan_of(), as_json) as notify, events_file(events, form) as path:
        found = evaluate_events(path, progress=notify, **options)
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
