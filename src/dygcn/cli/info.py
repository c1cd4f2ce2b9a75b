"""`dygcn info`: settings, counts and digest of a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from dygcn.cli.as_of import as_of_option, load_as_of
from dygcn.cli.printing import folder_argument, json_option, progress_bar, show
from dygcn.live import EmbeddingView, LiveEmbedding

if TYPE_CHECKING:
    from dygcn.live import PastEmbedding


@click.command("info")
@folder_argument
@as_of_option
@json_option
def command(folder: str, as_of: str | None, as_json: bool) -> None:
    """Check the folder DIR and print its settings, counts and digest."""
    with progress_bar() as notify:
        notify(0, 1, "checking")
        live = load_as_of(folder, as_of)
        digest = live.digest()
    model = live.model
    show(
        {
            "rule": model.rule,
            "nodes": len(live),
            "edges": live.edge_count,
            "ids": model.ids,
            "directed": model.directed,
            "dim": model.dim,
            "width": model.width,
            "orders": model.orders,
            "features": model.features,
            **({} if model.table is None else _walks(live)),
            **model.spec.describe(),
            "memory": model.half_life,
            **({} if model.expire is None else {"expire": model.expire}),
            **({"whole_weights": True} if model.whole else {}),
            "clock": live._state.graph.clock,
            "version": live.version,
            **({} if isinstance(live, LiveEmbedding) else _moment(cast("PastEmbedding", live))),
            "digest": digest,
        },
        as_json,
    )


def _moment(past: PastEmbedding) -> dict[str, int | str]:
    logged = past.logged.isoformat().replace("+00:00", "Z")
    return {"sequence": past.sequence, "logged": logged, "keep_log": past.keep_log}


def _walks(live: EmbeddingView) -> dict[str, int]:
    table = live.model.table
    assert table is not None
    return {"rows": len(table), "window": table.window, "unreached": live.unreached}
