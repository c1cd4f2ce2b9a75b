"""`dygcn refit`: new rows in a new folder, and whether they are better."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dygcn.cli.printing import folder_argument, json_option, progress_bar, show
from dygcn.engine.models.folder import check_target
from dygcn.live import load, open
from dygcn.live.durable.storage.layout import is_durable
from dygcn.live.refitting import PHASES

if TYPE_CHECKING:
    from dygcn._progress import Notify
    from dygcn.live import Refit


@click.command("refit")
@folder_argument
@click.option("--out", required=True, metavar="NEW", type=click.Path(), help="Folder to write.")
@json_option
def command(folder: str, out: str, as_json: bool) -> None:
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


def _refit(folder: str, out: str, notify: Notify) -> Refit:
    """Make new rows and save them; of a durable folder, to a durable one that goes on from it."""
    if not is_durable(folder):
        found = load(folder).refit(notify)
        notify(0, 1, "saving")
        found.embedding.save(out)
        return found
    live = open(folder)
    try:
        found = live.refit(notify)
        notify(0, 1, "saving")
        open(out, found.embedding, after=live).close()
        return found
    finally:
        live._let_go()  # without a snapshot, since nothing changed
