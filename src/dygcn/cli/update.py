"""`dygcn update`: apply events to a saved embedding."""

from __future__ import annotations

import time

import click
import numpy as np

from dygcn.cli.printing import folder_argument, json_option, progress_bar, show
from dygcn.engine.events import read_events
from dygcn.engine.events.windows import rows_of
from dygcn.live import load

_BATCH = 10_000


@click.command("update")
@folder_argument
@click.argument("events", type=click.Path())
@click.option("--now", type=float, help="The time, for a model with memory.")
@json_option
def command(folder: str, events: str, now: float | None, as_json: bool) -> None:
    """Apply EVENTS to the embedding in DIR and save it. If a row is bad, nothing is saved."""
    begun = time.perf_counter()
    with progress_bar() as notify:
        notify(0, 1, "loading")
        live = load(folder)
        batch = read_events(events, live.model.kind)
        moved: set[int | str] = set()
        unchanged = missing = loops = 0
        for start in range(0, max(len(batch), 1), _BATCH):
            stop = min(start + _BATCH, len(batch))
            change = live.update(rows_of(batch, np.arange(start, stop)), now=now)
            moved.update(change.ids.tolist())
            unchanged, missing, loops = (
                unchanged + change.unchanged,
                missing + change.missing,
                loops + change.loops,
            )
            notify(stop, len(batch), "applying events")
        notify(0, 1, "saving")
        live.save(folder)
    show(
        {
            "events": len(batch),
            "moved": len(moved),
            "unchanged": unchanged,
            "missing": missing,
            "loops": loops,
            "nodes": len(live),
            "edges": live.edge_count,
            "version": live.version,
            "seconds": time.perf_counter() - begun,
        },
        as_json,
    )
