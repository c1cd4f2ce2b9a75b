"""`dygcn explain`: which neighbours make up a vector, or which events would move it."""

from __future__ import annotations

from typing import Any

import click
import numpy as np

from dygcn.cli.as_of import as_of_option, load_as_of
from dygcn.cli.columns import column_options
from dygcn.cli.printing import (
    IdsCommand,
    folder_argument,
    json_option,
    negative_ids,
    node_id,
    progress_bar,
    show_table,
)
from dygcn.engine.events import read_events
from dygcn.engine.events.kinds import as_text
from dygcn.engine.models import Movement
from dygcn.engine.records import DEFAULT_K
from dygcn.live import Explanation


@click.command("explain", cls=IdsCommand, context_settings=negative_ids)
@folder_argument
@click.argument("node", metavar="ID")
@click.option("-k", default=DEFAULT_K, show_default=True, help="How many neighbours, or events.")
@click.option("--events", metavar="FILE", help="Print which of these events would move it instead.")
@column_options
@click.option("--now", type=float, help="The time of the events, for a model with memory.")
@as_of_option
@json_option
def command(
    folder: str,
    node: str,
    k: int,
    events: str | None,
    now: float | None,
    as_of: str | None,
    as_json: bool,
    **names: Any,
) -> None:
    """Print what each neighbour of ID adds to its vector, order by order."""
    with progress_bar() as notify:
        notify(0, 1, "loading")
        live = load_as_of(folder, as_of)
        one = node_id(node, live.model.ids)
        if events is not None:
            batch = read_events(events, live.model.ids, **names)
            _show_movement(live.explain_change(one, batch, now=now), k, as_json)
            return
        found = live.explain(one)
    _show_neighbours(found, k, as_json)


def _show_movement(found: Movement, k: int, as_json: bool) -> None:
    """Print the events that would move a vector most."""
    far, shares = np.linalg.norm(found.by_event, axis=1), found.projections
    most = [row for row in np.argsort(-far, kind="stable")[:k].tolist() if far[row] > 0]
    events = [{"event": row, "distance": float(far[row]), "share": float(shares[row])} for row in most]
    whole = np.linalg.norm(found.after.astype(np.float64) - found.before)
    value = {"distance": float(whole), "events": events}
    rows = [(str(row), f"{far[row]:.4f}", f"{shares[row]:.4f}") for row in most]
    show_table(("event", "distance", "share"), rows, as_json, value)


def _show_neighbours(found: Explanation, k: int, as_json: bool) -> None:
    orders = [f"order {order}" for order in range(1, found.by_order.shape[1] + 1)]
    names = list(map(as_text, found.neighbors[:k].tolist()))
    ranked = list(zip(names, found.by_neighbor.tolist(), found.by_order.tolist(), strict=False))
    value = {
        "own": found.own,
        "rounding": found.rounding,
        "neighbors": [{"id": name, "share": share, "by_order": each} for name, share, each in ranked],
    }
    rows = [(str(name), f"{share:.4f}", *(f"{one:.4f}" for one in each)) for name, share, each in ranked]
    itself = [("(itself)", f"{found.own:.4f}", *("" for _ in orders))]
    show_table(("neighbour", "share", *orders), [*itself, *rows], as_json, value)
