"""`dygcn score`: how near two nodes are."""

from __future__ import annotations

import click

from dygcn.cli.printing import folder_argument, json_option, negative_ids, node_id, progress_bar, show
from dygcn.live import load


@click.command("score", context_settings=negative_ids)
@folder_argument
@click.argument("a", metavar="ID")
@click.argument("b", metavar="ID")
@json_option
def command(folder: str, a: str, b: str, as_json: bool) -> None:
    """Print the cosine of two nodes' vectors."""
    with progress_bar() as notify:
        notify(0, 1, "loading")
        live = load(folder)
        first, second = (node_id(text, live.model.kind) for text in (a, b))
        score = live.score(first, second)
    show(
        {"a": first if as_json else str(first), "b": second if as_json else str(second), "score": score},
        as_json,
    )
