"""`dygcn nearest`: the nearest neighbours of a node."""

from __future__ import annotations

import click

from dygcn.cli.printing import folder_argument, json_option, negative_ids, node_id, progress_bar, show_table
from dygcn.live import load


@click.command("nearest", context_settings=negative_ids)
@folder_argument
@click.argument("node", metavar="ID")
@click.option("-k", default=5, show_default=True, help="How many.")
@json_option
def command(folder: str, node: str, k: int, as_json: bool) -> None:
    """Print the k nodes nearest to ID, by cosine."""
    with progress_bar() as notify:
        notify(0, 1, "loading")
        live = load(folder)
        found = live.nearest(node_id(node, live.model.kind), k)
    value = [{"id": name, "score": score} for name, score in found]
    show_table(("id", "score"), [(str(name), f"{score:.4f}") for name, score in found], as_json, value)
