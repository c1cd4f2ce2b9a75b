"""The tables of the page on scale: the model of `capacity` beside measured shards, and what follows from it.

`python -m dygcn_lab.costs.capacity_page measure` replays the data sets of results/costs/shards.json on one
graph, predicts what their shards need, and writes results/sizing/capacity.json; `... page` writes the tables
into docs/scale.md. Both run in the root of the repository.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from scipy.optimize import nnls

from dygcn.datasets import events_by_name
from dygcn.engine.events import read_events, rows_of, sort_by_time
from dygcn.engine.graph import Graph
from dygcn.errors import OptionError
from dygcn_lab.costs.capacity import (
    SLOTS,
    Constants,
    Degrees,
    Demand,
    Machine,
    Told,
    Touched,
    additions,
    arcs_held,
    fewest,
    mirrors,
    told_of,
)
from dygcn_lab.report.blocks import put_between

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dygcn.engine.records import EventBatch, GraphDelta

SHARDS, SCALE = Path("results/costs/shards.json"), Path("results/costs/scale.json")
DISK, CAPACITY = Path("results/sizing/disk.json"), Path("results/sizing/capacity.json")
PAGE = Path("docs/scale.md")
BLOCKS = "constants", "checked", "memory", "rates"
_MISSING = f"Not measured yet: `{SHARDS}` is missing, or `measure` was not run after it."
_WARM = 10_000  # events of a batch that is not counted
_CHECKED = "mirrors", "arcs", "changes", "first_rows", "messages", "rows", "bytes", "memory"
_SIZES = ("100 M nodes, 1 B edges", 1e8, 1e9), ("1 B nodes, 100 B edges", 1e9, 1e11)
_HUBS = (
    5_000,
    1_000_000,
)  # the greatest that a service may allow; one that nobody bounds is a tenth of the nodes
_RATES = (100_000.0, 1_000_000.0)


def find_runs(raw: object) -> Iterator[dict[str, Any]]:
    """Yield every run of a data set on several numbers of shards, wherever it stands in the results.

    Examples
    --------
    >>> raw = {"runs": [{"dataset": "a", "shards": [{"shards": 2}]}, {"b": 1}]}
    >>> [run["dataset"] for run in find_runs(raw)]
    ['a']
    """
    if isinstance(raw, dict):
        lines = raw.get("shards")
        if "dataset" in raw and isinstance(lines, list) and all(isinstance(one, dict) for one in lines):
            yield raw
            return
        raw = list(raw.values())
    for one in raw if isinstance(raw, list) else ():
        yield from find_runs(one)


def bytes_of(line: dict[str, Any]) -> float:
    """Return the bytes of all parts of all shards.

    Examples
    --------
    >>> bytes_of({"bytes of sums": 2, "bytes of arcs": 3, "own": 1}), bytes_of({"bytes": {"ids": 7}})
    (5.0, 7.0)
    """
    parts = line.get("bytes")
    if not isinstance(parts, dict):
        parts = {name: value for name, value in line.items() if name.startswith("bytes of ")}
    return float(sum(parts.values()))


# ---- replaying ---------------------------------------------------------------------------------------------


def predict(run: dict[str, Any]) -> dict[str, Any]:
    """Replay the events of a run on one graph, and return what its shards should have been counted at."""
    counts = [int(line["shards"]) for line in run["shards"]]
    events = sort_by_time(read_events(events_by_name(run["dataset"])))
    graph = Graph(events.src.kind, half_life=run.get("half_life"))
    warm = int(len(events) * (1 - run.get("share", 0.3)))
    for batch in _cut(rows_of(events, np.arange(warm)), _WARM):
        graph.release(graph.apply(batch).left)
    told = dict.fromkeys(counts, Told())
    for batch in _cut(rows_of(events, np.arange(warm, len(events))), run["batch"]):
        delta = graph.apply(batch)
        touched = touched_by(delta, graph)
        graph.release(delta.left)
        told = {shards: sum_ + told_of(touched, shards) for shards, sum_ in told.items()}
    nodes = graph.nodes()
    degrees = Degrees.of(graph.pull.count[nodes].astype(np.int64))
    one = float(run["rows of one process"])
    share = 1 / (len(events) - warm)
    return {
        "dataset": run["dataset"],
        "batch": run["batch"],
        "shards": [
            {
                "shards": shards,
                "own": len(nodes),
                "mirrors": mirrors(degrees, shards),
                "arcs": arcs_held(degrees.arcs, shards),
                "rows": one + told[shards].mirror_rows,
                **{
                    name: value
                    for name, value in asdict(told[shards].times(share)).items()
                    if name != "mirror_rows"
                },
            }
            for shards in counts
        ],
    }


def touched_by(delta: GraphDelta, graph: Graph) -> Touched:
    """Return the nodes whose arcs a batch changed."""
    nodes, at = np.unique(delta.sender, return_inverse=True)
    old, new = (delta.old != 0).astype(np.float64), (delta.new != 0).astype(np.float64)
    after = graph.pull.count[nodes].astype(np.float64)
    came, went = (np.bincount(at, one, len(nodes)) for one in (new * (1 - old), old * (1 - new)))
    return Touched(after - came + went, after, after + went, at.astype(np.int64), old, new)


def _cut(events: EventBatch, size: int) -> Iterator[EventBatch]:
    for start in range(0, len(events), size):
        yield rows_of(events, np.arange(start, min(start + size, len(events))))


# ---- what one of each costs --------------------------------------------------------------------------------


def read_constants(runs: list[dict[str, Any]], scale: dict[str, Any], disk: dict[str, Any]) -> Constants:
    """Solve for the bytes of a node, mirror and arc, and of a change, first row and message."""
    lines = [line for run in runs for line in run["shards"]]
    memory = _solve([[line["own"], line["mirrors"], line["arcs"]] for line in lines], [*map(bytes_of, lines)])
    talking = [line for line in lines if line["bytes an event"] > 0]
    told = ("changes an event", "first_rows an event", "messages an event")
    wire = _solve(
        [[line[name] for name in told] for line in talking], [line["bytes an event"] for line in talking]
    )
    speed = min(row["events_per_second"] * row["additions_per_event"] for row in scale["rows"])
    on_disk = disk["log_bytes_per_event"], disk["bytes_per_node"], disk["bytes_per_edge"]
    return Constants(*memory, *wire, speed, *on_disk)


def _solve(counts: list[list[float]], total: list[float]) -> tuple[float, float, float]:
    """Return what one of each is worth, none below zero; every line has the same weight."""
    scale = np.array(total)
    first, second, third = nnls(np.array(counts) / scale[:, None], np.ones(len(scale)))[0].tolist()
    return first, second, third


# ---- tables ------------------------------------------------------------------------------------------------


def constants_table(constants: Constants) -> str:
    """Return the constants as a table."""
    said = {
        "a node, in memory of its owner": f"{constants.node:,.0f} bytes",
        "a mirror": f"{constants.mirror:,.0f} bytes",
        "an arc (an edge has two, at each of its owners)": f"{constants.arc:,.1f} bytes",
        "a change, told to one shard": f"{constants.change:,.0f} bytes",
        "a first row": f"{constants.first_row:,.0f} bytes",
        "a message, beside what it carries": f"{constants.message:,.0f} bytes",
        "additions a second, one thread": f"{constants.additions:,.0f}",
        "an event in the log": f"{constants.log_event:,.0f} bytes",
        "a node in a snapshot": f"{constants.snapshot_node:,.0f} bytes",
        "an edge in a snapshot": f"{constants.snapshot_edge:,.0f} bytes",
    }
    return _table(("what", "costs"), list(said.items()))


def checked_rows(
    runs: list[dict[str, Any]], predicted: list[dict[str, Any]], constants: Constants
) -> Iterator[tuple[str, int, int, dict[str, float]]]:
    """Yield data set, batch, number of shards, and predicted over measured by name."""
    for run, guess in zip(runs, predicted, strict=True):
        for line, one in zip(run["shards"], guess["shards"], strict=True):
            guessed = {
                name: one[name] for name in ("mirrors", "arcs", "changes", "first_rows", "messages", "rows")
            }
            guessed["bytes"] = (
                one["changes"] * constants.change
                + one["first_rows"] * constants.first_row
                + one["messages"] * constants.message
            )
            guessed["memory"] = (
                one["own"] * constants.node + one["mirrors"] * constants.mirror + one["arcs"] * constants.arc
            )
            found = {
                "mirrors": line["mirrors"],
                "arcs": line["arcs"],
                "rows": sum(line["rows by shard"]),
                "memory": bytes_of(line),
                **{name: line[f"{name} an event"] for name in ("changes", "first_rows", "messages", "bytes")},
            }
            ratios = {name: guessed[name] / found[name] for name in _CHECKED if found[name] > 0}
            yield run["dataset"], run["batch"], line["shards"], ratios


def checked_table(runs: list[dict[str, Any]], predicted: list[dict[str, Any]], constants: Constants) -> str:
    """Return predicted over measured, and how many of these are within 20 %."""
    lines, near, total = [], 0, 0
    for name, batch, shards, ratios in checked_rows(runs, predicted, constants):
        near += sum(0.8 <= one <= 1.2 for one in ratios.values())
        total += len(ratios)
        shown = (f"{ratios[one]:.2f}" if one in ratios else "" for one in _CHECKED)
        lines.append((name, f"{batch:,}", str(shards), *shown))
    names = "graph", "batch", "shards", *(one.replace("_", " ") for one in _CHECKED)
    return f"{_table(names, lines)}\n\n{near} of {total} are within 20 %."


def memory_table(constants: Constants, machine: Machine) -> str:
    """Return what graphs of some sizes need before any event comes."""
    lines = []
    for what, greatest, degrees in _graphs():
        found, _ = fewest(Demand(degrees, 0.0), constants, machine)
        shares = (f"{one / 1e12:.2f}" for one in (*found.memory, sum(found.memory), found.snapshot))
        fixed = f"{found.shards:,}", f"{found.machines:,}", f"{found.mirrors / found.own:.1f}"
        lines.append((what, f"{greatest:,.0f}", *fixed, *shares))
    names = (
        *("graph", "greatest hub", "shards", "machines", "mirrors a node", "nodes, TB", "mirrors, TB"),
        *("arcs, TB", "memory, TB", "snapshots, TB"),
    )
    assumed = (
        f"The fewest shards (a power of two) that fit. A machine is assumed to have "
        f"{machine.memory / 1e9:,.0f} GB, filled to {machine.filled:.0%}, {machine.cores} cores and "
        f"{machine.network * 8 / 1e9:,.0f} Gb/s; degrees ~ d^-a, from 1 to the greatest hub."
    )
    return f"{_table(names, lines)}\n\n{assumed}"


def rates_table(constants: Constants, machine: Machine) -> str:
    """Return what graphs of some sizes need at some rates, or what they cannot have."""
    lines: list[tuple[str, ...]] = []
    for what, greatest, degrees in _graphs():
        for rate in _RATES:
            demand = Demand(degrees, rate)
            found, reason = fewest(demand, constants, machine)
            seldom = additions(degrees, round(rate)) + found.told.mirror_rows
            lines.append(
                (
                    what,
                    f"{greatest:,.0f}",
                    f"{rate:,.0f}",
                    f"{found.additions:,.0f}",
                    f"{seldom:,.0f}",
                    f"{found.additions * rate / constants.additions:,.0f}",
                    f"{found.shards:,}",
                    f"{found.machines:,}",
                    f"{found.event_bytes:,.0f}",
                    f"{found.network / 1e6:,.0f}",
                    f"{found.front / 1e6:,.0f}",
                    f"{found.log * 86_400 / 1e12:.2f}",
                    reason or "nothing",
                )
            )
    names = (
        *("graph", "greatest hub", "events a second", "additions an event, ten batches a second"),
        *("one batch a second", "threads that add", "shards", "machines", "bytes an event between shards"),
        *("into a machine, MB/s", "out of the front, MB/s", "log a day, TB", "what is not enough"),
    )
    assumed = (
        "Events add and remove edges at random, so hubs are met as often as they have neighbours. Where "
        f"something is not enough, the line is that of all {SLOTS:,} slots, a shard each."
    )
    return f"{_table(names, lines)}\n\n{assumed}"


def _graphs() -> Iterator[tuple[str, float, Degrees]]:
    for what, nodes, edges in _SIZES:
        for greatest in (*_HUBS, nodes / 10):
            yield what, greatest, Degrees.power_law(nodes, 2 * edges, greatest)


def _table(names: tuple[str, ...], lines: list[tuple[str, ...]]) -> str:
    rows = (names, ("---",) * len(names), *lines)
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def page(root: Path = Path()) -> str:
    """Return the page with fresh tables."""
    text = (root / PAGE).read_text(encoding="utf-8")
    for name, block in zip(BLOCKS, _blocks(root), strict=True):
        text = put_between(text, (f"<!-- {name}: begin -->", f"<!-- {name}: end -->"), f"\n{block}\n")
    return text


def _blocks(root: Path) -> tuple[str, ...]:
    if not ((root / SHARDS).exists() and (root / CAPACITY).exists()):
        return (_MISSING,) * len(BLOCKS)
    raw, scale, disk, predicted = (
        msgspec.json.decode((root / one).read_bytes()) for one in (SHARDS, SCALE, DISK, CAPACITY)
    )
    runs = list(find_runs(raw))
    constants = read_constants(runs, scale, disk)
    checked = checked_table(runs, predicted["runs"], constants)
    machine = Machine()
    tables = memory_table(constants, machine), rates_table(constants, machine)
    return constants_table(constants), checked, *tables


def main(what: str) -> None:
    """Predict what was measured, or write the page."""
    if what == "measure":
        found = [predict(run) for run in find_runs(msgspec.json.decode(SHARDS.read_bytes()))]
        CAPACITY.parent.mkdir(parents=True, exist_ok=True)
        CAPACITY.write_bytes(
            msgspec.json.format(msgspec.json.encode({"kind": "capacity", "runs": found})) + b"\n"
        )
    elif what == "page":
        PAGE.write_text(page(), encoding="utf-8")
    else:
        raise OptionError(f"{what!r} is not known; allowed is measure or page")


if __name__ == "__main__":
    main(*sys.argv[1:])
