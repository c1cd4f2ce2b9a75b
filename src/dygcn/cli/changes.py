"""Commands that change a folder: `update`, `forget` and `restore`."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
import numpy as np

from dygcn._progress import Notify
from dygcn.cli import options
from dygcn.cli.printing import json_option, progress_bar, show
from dygcn.engine.events import read_events
from dygcn.engine.events.batches import rows_of
from dygcn.engine.records import EventBatch
from dygcn.live.durable.embedding import DurableEmbedding
from dygcn.live.durable.opening import open as open_folder
from dygcn.live.durable.opening import restore as restore_folder
from dygcn.live.durable.storage.layout import is_durable
from dygcn.live.embedding import LiveEmbedding, load

_BATCH = 10_000


@click.command("update")
@options.folder_argument
@options.events_options
@options.now_option
@json_option
def update(
    folder: str, events: str, form: str | None, now: float | None, as_json: bool, **names: Any
) -> None:
    """Apply EVENTS to the embedding in DIR and save it. If a row is bad, nothing is saved.

    EVENTS is a file as `fit` takes it, or - for standard input. A durable DIR stays so: the events are
    logged. While it is served, send them to the service instead (POST /v1/events).
    """
    begun = time.perf_counter()
    with progress_bar((("loading", 1), ("applying events", 4), ("saving", 1)), as_json) as notify:
        notify(0, 1, "loading")
        with _changed(folder, notify) as live:
            with options.events_file(events, form) as path:
                related = bool(live.model.relations)
                batch = read_events(path, live.model.ids, related=related, **names)
            effects = _apply(live, batch, now, notify)
            counts = {"nodes": len(live), "edges": live.edge_count, "version": live.version}
    seconds = time.perf_counter() - begun
    show({"events": len(batch), **effects, **counts, "seconds": seconds}, as_json)


@contextmanager
def _changed(folder: str, notify: Notify) -> Iterator[LiveEmbedding | DurableEmbedding]:
    """Yield the embedding of a folder; save its changes unless the block raises."""
    if not is_durable(folder):
        live = load(folder)
        yield live
        notify(0, 1, "saving")
        live.save(folder)
        return
    with options.open_unserved(folder, "send the events to that service (POST /v1/events)") as durable:
        yield durable
        notify(0, 1, "saving")


def _apply(
    live: LiveEmbedding | DurableEmbedding, batch: EventBatch, now: float | None, notify: Notify
) -> dict[str, int]:
    """Apply events; return the number of moved nodes, and of events without effect by reason."""
    moved: set[int | str] = set()
    names = "unchanged", "missing", "loops", *(() if live.model.expire is None else ("expired",))
    without = dict.fromkeys(names, 0)
    # What is durable cannot be taken back, so a bad event must refuse all of them: one batch.
    size = max(len(batch), 1) if isinstance(live, DurableEmbedding) else _BATCH
    for start in range(0, max(len(batch), 1), size):
        stop = min(start + size, len(batch))
        then = now if batch.t is None or stop == len(batch) else None  # it comes after all events
        change = live.update(rows_of(batch, np.arange(start, stop)), now=then)
        moved.update(change.ids.tolist())
        without = {name: count + getattr(change, name) for name, count in without.items()}
        notify(stop, len(batch), "applying events")
    return {"moved": len(moved), **without}


@click.command("forget", cls=options.IdsCommand)
@options.folder_argument
@click.argument("ids", nargs=-1, required=True)
@click.option("-t", "t", type=float, help="Events of these ids up to this time are old from now on.")
@json_option
def forget(folder: str, ids: tuple[str, ...], t: float | None, as_json: bool) -> None:
    """Remove IDS from graph, model, log, snapshots and dead letters of DIR, and print a receipt.

    Old events of these ids are dropped from then on. While DIR is served, ask the service instead
    (DELETE /v1/nodes/ID).
    """
    with progress_bar((("loading", 1), ("forgetting", 3)), as_json) as notify:
        notify(0, 1, "loading")
        with open_folder(folder) as live:
            notify(0, 1, "forgetting")
            receipt = live.forget([options.node_id(one, live.model.ids) for one in ids], t=t)
    show(dataclasses.asdict(receipt), as_json)


@click.command("restore")
@click.argument("backup", type=click.Path())
@click.argument("folder", type=click.Path())
@click.option(
    "--forgets",
    type=click.Path(),
    help="The folder that was backed up, or a newer copy of its erasures.json: forget what it has forgotten.",
)
@json_option
def restore(backup: str, folder: str, forgets: str | None, as_json: bool) -> None:
    """Copy a durable BACKUP to a new FOLDER, check it, and begin a new epoch there.

    Readers and sinks that were ahead of the backup start again, and drop rows that the copy never had.
    """
    with progress_bar() as notify:
        notify(0, 1, "restoring")
        position = restore_folder(backup, folder, forgets=forgets)
    where = {"epoch": position.epoch, "generation": position.generation, "sequence": position.sequence}
    show({"folder": folder, **where}, as_json)
