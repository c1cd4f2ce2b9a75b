"""`dygcn forget`: ids out of a durable folder, and out of every file of it."""

from __future__ import annotations

import dataclasses

import click

from dygcn.cli.printing import (
    IdsCommand,
    folder_argument,
    json_option,
    negative_ids,
    node_id,
    progress_bar,
    show,
)
from dygcn.live import open as open_folder


@click.command("forget", cls=IdsCommand, context_settings=negative_ids)
@folder_argument
@click.argument("ids", nargs=-1, required=True)
@click.option("-t", "t", type=float, help="Events of these ids up to this time are old from now on.")
@json_option
def command(folder: str, ids: tuple[str, ...], t: float | None, as_json: bool) -> None:
    """Remove IDS from graph, model, log, snapshots and dead letters of DIR, and print a receipt.

    Old events of these ids are dropped from then on. While DIR is served, ask the service instead
    (DELETE /v1/nodes/ID).
    """
    with progress_bar((("loading", 1), ("forgetting", 3)), as_json) as notify:
        notify(0, 1, "loading")
        with open_folder(folder) as live:
            notify(0, 1, "forgetting")
            receipt = live.forget([node_id(one, live.model.ids) for one in ids], t=t)
    show(dataclasses.asdict(receipt), as_json)
