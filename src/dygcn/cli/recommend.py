"""`dygcn recommend`: the likeliest links of a node."""

from __future__ import annotations

import click

from dygcn.cli.as_of import as_of_option, load_as_of
from dygcn.cli.printing import (
    IdsCommand,
    folder_argument,
    json_option,
    kind_option,
    negative_ids,
    node_id,
    progress_bar,
    show_table,
)
from dygcn.engine.events.kinds import as_text
from dygcn.engine.models import KINDS
from dygcn.engine.records import DEFAULT_K
from dygcn.live.recommending import links_for


@click.command("recommend", cls=IdsCommand, context_settings=negative_ids)
@folder_argument
@click.argument("node", metavar="ID")
@click.option("-k", default=DEFAULT_K, show_default=True, help="How many.")
@click.option("--linked", is_flag=True, help="Recommend nodes that ID is linked with, too.")
@click.option("--links", default=None, type=click.Choice(KINDS), help="The score, as in `dygcn score`.")
@kind_option
@as_of_option
@json_option
def command(
    folder: str,
    node: str,
    k: int,
    linked: bool,
    links: str | None,
    kind: str | None,
    as_of: str | None,
    as_json: bool,
) -> None:
    """Print the k nodes that ID is likeliest to link with, by the learned score."""
    with progress_bar() as notify:
        notify(0, 1, "loading")
        live = load_as_of(folder, as_of)
        me = node_id(node, live.model.ids)
        found = live.recommend(me, k, exclude_linked=not linked, links=links, kind=kind)
        found = [(as_text(name), score) for name, score in found]
    score_kind = live.model.score_kind(links_for(live._state, me, links, not linked, kind))
    value = {"score_kind": score_kind, "nodes": [{"id": name, "score": score} for name, score in found]}
    if not found and not as_json:
        click.echo("no node is left to recommend")
        return
    rows = [(str(name), f"{score:.4f}") for name, score in found]
    show_table(("id", f"score ({score_kind})"), rows, as_json, value)
