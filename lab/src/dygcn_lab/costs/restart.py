"""What a crash costs: rows that readers get again, and how soon a service answers who is near."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import dygcn
from dygcn.errors import OptionError
from dygcn.serving.service.service import Service
from dygcn.serving.service.settings import ServiceSettings

if TYPE_CHECKING:
    import os

    from dygcn.live.durable.embedding import DurableEmbedding

_LIMIT = 100_000  # rows of a page


def measure_restart(
    folder: str | os.PathLike[str], *, batches: int = 200, events: int = 100, behind: int = 2, seed: int = 0
) -> dict[str, Any]:
    """Change a copy of a folder, let go of it as a crash does, and open it again.

    Parameters
    ----------
    folder
        That `LiveEmbedding.save` wrote, with ids that are numbers.
    batches, events
        How many batches are logged behind the last snapshot, and how many new edges each has.
    behind
        How many of them a reader of changes had not seen at the crash.
    seed
        Of the edges.

    Returns
    -------
    dict
        Seconds and bytes of a snapshot, seconds to open, rows that the reader gets (and whether it began
        anew), rows that moved behind its cursor, seconds to the first answers about neighbours, to stop.
    """
    if not 0 <= behind <= batches:
        raise OptionError(f"behind is {behind}; allowed is 0 to {batches}, the number of batches")
    with tempfile.TemporaryDirectory() as workdir:
        copy = Path(workdir) / "copy"
        shutil.copytree(folder, copy)
        live = dygcn.open(copy, snapshot_every=1 << 40)
        random, ids = np.random.default_rng(seed), np.array(sorted(live))
        result: dict[str, Any] = {"nodes": len(ids), "batches": batches, "events": events, "behind": behind}
        live.update(add=_edges(random, ids, events))
        live.snapshot()
        newest = max((copy / "snapshots").iterdir())
        result["snapshot_seconds"] = live._snapshots.seconds
        result["graph_bytes"] = (newest / "graph.safetensors").stat().st_size
        cursor, moved = live.feed.cursor, set()
        for batch in range(batches):
            change = live.update(add=_edges(random, ids, events))
            if batch < batches - behind:
                cursor = live.feed.cursor
            else:
                moved.update(change.ids.tolist())
        result["moved"] = len(moved)
        live._let_go()
        result |= _reopened(copy, cursor, int(ids[0]))
    return result


def _edges(random: np.random.Generator, ids: Any, count: int) -> list[tuple[int, int]]:
    pairs = ids[random.integers(len(ids), size=(count, 2))]
    return [(int(a), int(b)) for a, b in pairs if a != b]


def _reopened(folder: Path, cursor: str, asked: int) -> dict[str, Any]:
    begun = time.perf_counter()
    service = Service(ServiceSettings(folder=str(folder)))
    result: dict[str, Any] = {"open_seconds": time.perf_counter() - begun}
    result["rows"], result["reset"] = _count_rows(service.live, cursor)
    service.live._cached().forget()  # what the reader was shown was read for it
    service.start()
    for name in ("first_nearest_seconds", "second_nearest_seconds"):
        begun = time.perf_counter()
        service.search.nearest_to(asked, 10)
        result[name] = time.perf_counter() - begun
    begun = time.perf_counter()
    service.stop()
    return result | {"stop_seconds": time.perf_counter() - begun}


def _count_rows(live: DurableEmbedding, cursor: str) -> tuple[int, bool]:
    rows, reset, more = 0, False, True
    while more:
        page = live.feed.since(cursor, _LIMIT)
        rows, reset, cursor, more = rows + len(page.rows), reset or page.reset, page.next, page.more
    return rows, reset
