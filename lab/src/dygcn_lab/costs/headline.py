"""The few numbers with which the page of costs begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dygcn.cli.printing import plain
from dygcn_lab.costs.tables import DIGITS, batch_text
from dygcn_lab.report.tables import Table, Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dygcn_lab.costs.results import Result

_COLUMNS = [
    "graph",
    "single edge, us",
    "events a second, batches of 1,000",
    "vectors rewritten an event",
    "N for a rerun",
    "cheaper from a batch of: recompute",
    "Cleora rerun",
    "GCN forward",
    "with vectors read: recompute",
    "with vectors read: GCN forward",
]
_STATE, _VECTORS = "cheaper_from_batch", "cheaper_from_batch_with_vectors"
_RIVALS = [(name, _STATE) for name in ("recompute in place", "Cleora rerun", "GCN forward")]
_RIVALS += [(name, _VECTORS) for name in ("recompute in place", "GCN forward")]


def costs_table(results: Mapping[str, Result]) -> Table:
    """Return one row for each graph whose crossover was measured, at the width of the crossover."""
    updates, crossover = results["update"], results["crossover"]
    rows: list[list[str | Value]] = []
    for graph in crossover["graphs"]:
        of = {
            batch["events"]: batch
            for batch in updates["batches"]
            if (batch["graph"], batch["width"]) == (graph["graph"], crossover["width"])
        }
        rivals = {rival["name"]: rival for rival in graph["rivals"]}
        most = graph["batches"][-1]["events"]
        cells = [_cell(of, 1, "median_us"), _cell(of, 1000, "events_per_second")]
        cells += [_cell(of, 1000, "vectors_per_event"), plain(graph["nodes"])]
        cells += [batch_text(rivals[name][when], most) if name in rivals else "" for name, when in _RIVALS]
        rows.append([f"{graph['graph']} ({plain(graph['edges'])} edges)", *cells])
    return Table("", _COLUMNS, rows)


def _cell(batches: dict[int, dict[str, Any]], size: int, field: str) -> str:
    return plain(batches[size][field], DIGITS) if size in batches else ""
