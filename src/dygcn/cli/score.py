"""`dygcn score`: how likely two nodes are linked next."""

from __future__ import annotations

import click

from dygcn.cli.printing import folder_argument, json_option, negative_ids, node_id, progress_bar, show
from dygcn.engine.models import KINDS
from dygcn.live import load


@click.command("score", context_settings=negative_ids)
@folder_argument
@click.argument("a", metavar="ID")
@click.argument("b", metavar="ID")
@click.option(
    "--links",
    default="new",
    show_default=True,
    type=click.Choice(KINDS),
    help="Links not there yet; all links; or ranks of the next events.",
)
@json_option
def command(folder: str, a: str, b: str, links: str, as_json: bool) -> None:
    """Print how likely two nodes are linked next: log-odds, or the cosine if no score was learned."""
    with progress_bar() as notify:
        notify(0, 1, "loading")
        live = load(folder)
        first, second = (node_id(text, live.model.kind) for text in (a, b))
        score = live.score(first, second, links)
    show(
        {"a": first if as_json else str(first), "b": second if as_json else str(second), "score": score},
        as_json,
    )
