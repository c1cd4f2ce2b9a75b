"""`dygcn info`: settings, counts and digest of a folder."""

from __future__ import annotations

import click

from dygcn.cli.printing import folder_argument, json_option, progress_bar, show
from dygcn.live import LiveEmbedding, load


@click.command("info")
@folder_argument
@json_option
def command(folder: str, as_json: bool) -> None:
    """Check the folder DIR and print its settings, counts and digest."""
    with progress_bar() as notify:
        notify(0, 1, "checking")
        live = load(folder)
        digest = live.digest()
    model = live.model
    show(
        {
            "rule": model.rule,
            "nodes": len(live),
            "edges": live.edge_count,
            "ids": model.kind,
            "directed": model.directed,
            "dim": model.dim,
            "width": model.width,
            "orders": model.orders,
            "features": model.features,
            **({} if model.table is None else _walks(live)),
            **model.spec.describe(),
            "memory": model.half_life,
            "clock": live.clock,
            "version": live.version,
            "digest": digest,
        },
        as_json,
    )


def _walks(live: LiveEmbedding) -> dict[str, int]:
    table = live.model.table
    assert table is not None
    return {"rows": len(table), "window": table.window, "unreached": live.unreached}
