"""`dygcn nearest`: the nearest neighbours of a node."""

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
from dygcn.engine.records import DEFAULT_K


@click.command("nearest", cls=IdsCommand, context_settings=negative_ids)
@folder_argument
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("-k", default=DEFAULT_K, show_default=True, help="How many.")
@kind_option
@as_of_option
@json_option
def command(
    folder: str, ids: tuple[str, ...], k: int, kind: str | None, as_of: str | None, as_json: bool
) -> None:
    """Print the k nodes nearest to each ID, by cosine."""
    with progress_bar() as notify:
        notify(0, 1, "loading")
        live = load_as_of(folder, as_of)
        asked = [node_id(text, live.model.ids) for text in ids]
        found = [
            [(as_text(name), score) for name, score in near] for near in live.nearest(asked, k, kind=kind)
        ]
    values = [[{"id": name, "score": score} for name, score in near] for near in found]
    if len(asked) == 1:
        rows = [(str(name), f"{score:.4f}") for name, score in found[0]]
        show_table(("id", "score"), rows, as_json, values[0])
        return
    of_each = zip(asked, found, strict=True)
    cells = [(str(one), str(name), f"{score:.4f}") for one, near in of_each for name, score in near]
    value = [{"of": one, "nearest": near} for one, near in zip(asked, values, strict=True)]
    show_table(("of", "id", "score"), cells, as_json, value)
