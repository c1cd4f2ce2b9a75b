"""`dygcn score`: how likely two nodes are linked next."""

from __future__ import annotations

import click

from dygcn.cli.as_of import as_of_option, load_as_of
from dygcn.cli.printing import (
    IdsCommand,
    folder_argument,
    json_option,
    negative_ids,
    node_id,
    progress_bar,
    show,
)
from dygcn.engine.models import KINDS


@click.command("score", cls=IdsCommand, context_settings=negative_ids)
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
@as_of_option
@json_option
def command(folder: str, a: str, b: str, links: str, as_of: str | None, as_json: bool) -> None:
    """Print how likely two nodes are linked next: log-odds, or the cosine if no score was learned."""
    with progress_bar() as notify:
        notify(0, 1, "loading")
        live = load_as_of(folder, as_of)
        first, second = (node_id(text, live.model.ids) for text in (a, b))
        score = live.score(first, second, links)
    named = {"a": first, "b": second} if as_json else {"a": str(first), "b": str(second)}
    show({**named, "score": score, "score_kind": live.model.score_kind(links)}, as_json)
