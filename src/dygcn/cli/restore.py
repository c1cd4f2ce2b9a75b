"""`dygcn restore`: a durable folder from its backup."""

from __future__ import annotations

import click

from dygcn.cli.printing import json_option, progress_bar, show
from dygcn.live import restore


@click.command("restore")
@click.argument("backup", type=click.Path())
@click.argument("folder", type=click.Path())
@click.option(
    "--forgets",
    type=click.Path(),
    help="The folder that was backed up, or a newer copy of its erasures.json: forget what it has forgotten.",
)
@json_option
def command(backup: str, folder: str, forgets: str | None, as_json: bool) -> None:
    """Copy a durable BACKUP to a new FOLDER, check it, and begin a new epoch there.

    Readers and sinks that were ahead of the backup start again, and drop rows that the copy never had.
    """
    with progress_bar() as notify:
        notify(0, 1, "restoring")
        position = restore(backup, folder, forgets=forgets)
    where = {"epoch": position.epoch, "generation": position.generation, "sequence": position.sequence}
    show({"folder": folder, **where}, as_json)
