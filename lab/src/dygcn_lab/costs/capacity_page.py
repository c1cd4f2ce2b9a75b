"""The tables of the page on scale: the model of `capacity` beside measured shards, and what follows from it.

`python -m dygcn_lab.costs.capacity_page measure` replays the data sets of the runs in results/shards on one
graph, predicts what their shards need, and writes results/sizing/capacity.json; `... page` writes the tables
into docs/scale.md. Both run in the root of the repository.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from scipy.optimize import nnls

from dygcn.engine.events import rows_of, sort_by_time
from dygcn.engine.graph import Graph, apply_batch
from dygcn.engine.records import GraphDelta
from dygcn.errors import OptionError
from dygcn_lab.costs.capacity import (
    SLOTS,
    Constants,
    Degrees,
    Demand,
    Machine,
    Needs,
    Told,
    Touched,
    additions,
    arcs_held,
    bytes_told,
    fewest,
    front_lacks,
    memory_of,
    mirrors,
    needs,
    told_of,
)
from dygcn_lab.costs.front import FRONT
from dygcn_lab.costs.graphs import graph_events
from dygcn_lab.costs.shards import WARM, batches_of
from dygcn_lab.report.blocks import with_blocks, write_json
from dygcn_lab.report.tables import rows_table

Runs = Sequence[dict[str, Any]]

SHARDS, SCALE = Path("results/shards"), Path("results/costs/scale.json")
DISK, CAPACITY = Path("results/sizing/disk.json"), Path("results/sizing/capacity.json")
PAGE = Path("docs/scale.md")
_MISSING = f"Not measured yet: `{SHARDS}` needs a case and `large.json`, then `measure` has to run."
_PLACE = 4  # bytes, of a node or mirror: where the counts of who mirrors it are
_TOLD = "changes", "first_rows", "messages", "bytes"
_CHECKED = "mirrors", "arcs", "changes", "first_rows", "messages", "rows", "bytes", "memory"
_SIZES = ("100 M nodes, 1 B edges", 1e8, 1e9), ("1 B nodes, 100 B edges", 1e9, 1e11)
_HUBS = 5_000, 1_000_000  # the greatest that a service may allow; without a bound it is a tenth of the nodes
_RATES = (1_000.0, 100_000.0, 1_000_000.0)


def find_runs(folder: Path) -> list[dict[str, Any]]:
    """Return the runs of data sets on several numbers of shards; other results in the folder are left out."""
    found = [msgspec.json.decode(file.read_bytes()) for file in sorted(folder.glob("*.json"))]
    return [run for run in found if {"dataset", "counted"} <= run.keys()]


def find_large(folder: Path) -> list[dict[str, Any]]:
    """Return the runs of `dygcn_lab.costs.shards_large`, the smallest graph first."""
    found = [msgspec.json.decode(file.read_bytes()) for file in sorted(folder.glob("large*.json"))]
    return sorted(found, key=lambda run: run["nodes"])


def measured(run: dict[str, Any], line: dict[str, Any]) -> dict[str, float]:
    """Return what was counted of a number of shards, by the names of predictions."""
    found = {name: float(line[f"{name}_an_event"]) for name in _TOLD}
    found |= {"mirrors": line["mirrors_a_node"] * run["nodes"], "rows": line["rows_a_shard"] * line["shards"]}
    return found


# ---- replaying ---------------------------------------------------------------------------------------------


def predict(run: dict[str, Any]) -> dict[str, Any]:
    """Replay the events of a run on one graph, and return what its shards should have been counted at."""
    counts = [int(line["shards"]) for line in run["rows"]]
    events = sort_by_time(graph_events(run["dataset"]))
    graph = Graph(events.src.kind, half_life=run.get("half_life"))
    first = len(events) - round(len(events) * run["counted"])
    for batch in batches_of(rows_of(events, np.arange(first)), WARM):
        graph.release(apply_batch(graph, batch).left)
    told = dict.fromkeys(counts, Told())
    for batch in batches_of(rows_of(events, np.arange(first, len(events))), run["batch"]):
        delta = apply_batch(graph, batch)
        touched = touched_by(delta, graph)
        graph.release(delta.left)
        told = {shards: sum_ + told_of(touched, shards) for shards, sum_ in told.items()}
    nodes = graph.nodes()
    degrees = Degrees.of(graph.pull.count[nodes].astype(np.int64))
    lines = []
    for shards, line in zip(counts, run["rows"], strict=True):
        each = asdict(told[shards].times(1 / (len(events) - first)))
        guess = {name: each[name] for name in ("changes", "first_rows", "messages")}
        guess |= {"mirrors": mirrors(degrees, shards), "arcs": arcs_held(degrees.arcs, shards)}
        lines.append(
            {
                "shards": shards,
                "own": len(nodes),
                **guess,
                "rows": line["rows_of_one_process"] + told[shards].mirror_rows,
            }
        )
    return {"dataset": run["dataset"], "rows": lines}


def predict_large(run: dict[str, Any]) -> dict[str, float]:
    """Return the counts of a graph of which nothing is known but its law: ends are chosen as rank^-0.6."""
    nodes, shards = int(run["nodes"]), int(run["shards"])
    chance = np.diff((np.arange(nodes + 1) / nodes) ** 0.4)
    pairs = run["edges"] + run["batches"] * run["batch"]
    degrees = Degrees.of(np.random.default_rng(0).poisson(2 * pairs * chance))
    arcs = arcs_held(degrees.arcs, shards)
    return {"own": float(degrees.nodes.sum()), "mirrors": mirrors(degrees, shards), "arcs": arcs}


def touched_by(delta: GraphDelta, graph: Graph) -> Touched:
    """Return the nodes whose arcs a batch changed."""
    nodes, at = np.unique(delta.sender, return_inverse=True)
    old, new = (delta.old != 0).astype(np.float64), (delta.new != 0).astype(np.float64)
    after = graph.pull.count[nodes].astype(np.float64)
    came, went = (np.bincount(at, one, len(nodes)) for one in (new * (1 - old), old * (1 - new)))
    return Touched(after - came + went, after, after + went, at.astype(np.int64), old, new)


# ---- what one of each costs --------------------------------------------------------------------------------


def read_constants(
    runs: Runs, large: Runs, scale: dict[str, Any], disk: dict[str, Any], front: dict[str, Any]
) -> Constants:
    """Take bytes in memory from the smallest large run; solve for those of changes, first rows and messages.

    Of models with hashed features: rows of others are wider.
    """
    lines = [measured(run, line) for run in runs if not run.get("fitted") for line in run["rows"]]
    told = [tuple(found[name] for name in _TOLD) for found in lines if found["bytes"] > 0]
    speed = min(row["events_per_second"] * row["additions_per_event"] for row in scale["rows"])
    on_disk = disk["log_bytes_per_event"], disk["bytes_per_node"], disk["bytes_per_edge"]
    beside = front["messages"]["cpu_us"] / 1e6, front["moved"]["bytes"], front["moved"]["ns"] / 1e9
    at_front = front["default_model"]["front_bytes_a_node"]
    return Constants(*_in_memory(large[0]), *_solve(told), speed, *on_disk, *beside, at_front)


def _in_memory(run: dict[str, Any]) -> tuple[float, float, float, float]:
    """Return the bytes of a node, a mirror and an arc, and of a count of who mirrors."""
    held, counts = run["parts"]["bytes"], run["counts"]
    both = counts["own"] + counts["mirrors"]
    mirror = sum(held[part] for part in ("lists", "ids", "marks", "order 1")) / both + _PLACE
    arcs = counts["arcs of own"] + counts["arcs of mirrors"]
    arc = (held["arcs"] + held["hubs"]) / arcs
    holder = (held["holders"] - _PLACE * both) / (counts["own"] * run["shards"])
    return mirror + held["order 2"] / counts["own"], mirror, arc, holder


def _solve(lines: list[tuple[float, ...]]) -> tuple[float, float, float]:
    """Return what one of each is worth, from three counts and a total; every line has the same weight."""
    table = np.array(lines)
    first, second, third = nnls(table[:, :3] / table[:, 3:], np.ones(len(table)))[0].tolist()
    return first, second, third


# ---- tables ------------------------------------------------------------------------------------------------


def constants_table(constants: Constants, front: dict[str, Any]) -> str:
    """Return the constants as a table."""
    default, tls = front["default_model"], front["messages"]
    told = default["told"]
    others = told["changes"] * constants.change + told["messages"] * constants.message
    first_row = (told["bytes"] - others) / told["first_rows"]
    said = {
        "a node, in memory of its owner": f"{constants.node:,.0f} bytes",
        "a mirror": f"{constants.mirror:,.0f} bytes",
        "an arc (an edge has two, at each of its owners)": f"{constants.arc:,.1f} bytes",
        "a count of who mirrors, for each node and each shard": f"{constants.holder:,.1f} bytes",
        "a change, told to one shard": f"{constants.change:,.0f} bytes",
        "a first row": f"{constants.first_row:,.0f} bytes",
        "a message, beside what it carries": f"{constants.message:,.0f} bytes",
        "additions a second, one thread": f"{constants.additions:,.0f}",
        "an event in the log": f"{constants.log_event:,.0f} bytes",
        "a node in a snapshot": f"{constants.snapshot_node:,.0f} bytes",
        "an edge in a snapshot": f"{constants.snapshot_edge:,.0f} bytes",
        "a message, CPU of both ends": f"{tls['cpu_us']:,.0f} us ({tls['ratio_of_tls']:.2f} of plain text)",
        "an id that moved, told to the front": f"{constants.moved:,.0f} bytes",
        "an id that moved, CPU of the front": f"{constants.moved_seconds * 1e9:,.0f} ns",
        "a node at the front: its vector, and once more in the index (default model)": (
            f"{constants.front_node:,.0f} bytes"
        ),
        "a first row of the default model": f"{first_row:,.0f} bytes (as-733)",
        "a row of the default model, in *every* shard": f"{default['table_bytes_a_row']:,.0f} bytes",
    }
    return rows_table(("what", "costs"), list(said.items()))


def checked_rows(
    runs: Runs, large: Runs, predicted: dict[str, Any], constants: Constants
) -> Iterator[tuple[str, int, dict[str, float]]]:
    """Yield the name of the run, the number of shards, and predicted over measured by name."""
    for run, guess in zip(runs, predicted["runs"], strict=True):
        for line, one in zip(run["rows"], guess["rows"], strict=True):
            told = Told(one["changes"], one["first_rows"], one["messages"])
            guessed = one if run.get("fitted") else one | {"bytes": bytes_told(constants, told)}
            yield _named(run), line["shards"], _ratios(guessed, measured(run, line))
    for run, one in zip(large, predicted["large"], strict=True):
        counts, shards = run["counts"], int(run["shards"])
        arcs = counts["arcs of own"] + counts["arcs of mirrors"]
        found = {"mirrors": counts["mirrors"], "arcs": arcs, "memory": sum(run["parts"]["bytes"].values())}
        memory = sum(memory_of(constants, one["own"], one["mirrors"], one["arcs"], shards))
        name = f"power law, {run['nodes']:,} nodes, {run['edges']:,} edges"
        yield name, shards, _ratios(one | {"memory": memory}, found)


def _ratios(guessed: dict[str, Any], found: dict[str, float]) -> dict[str, float]:
    both = (name for name in _CHECKED if name in guessed and found.get(name, 0) > 0)
    return {name: guessed[name] / found[name] for name in both}


def checked_table(runs: Runs, large: Runs, predicted: dict[str, Any], constants: Constants) -> str:
    """Return predicted over measured, and how many of these are within 20 %."""
    lines: list[tuple[str, ...]] = []
    near = total = 0
    for name, shards, ratios in checked_rows(runs, large, predicted, constants):
        near += sum(0.8 <= one <= 1.2 for one in ratios.values())
        total += len(ratios)
        lines.append(
            (name, str(shards), *(f"{ratios[one]:.2f}" if one in ratios else "" for one in _CHECKED))
        )
    names = "graph", "shards", *(one.replace("_", " ") for one in _CHECKED)
    return f"{rows_table(names, lines)}\n\n{near} of {total} are within 20 %."


def _named(run: dict[str, Any]) -> str:
    cut = "time steps" if run["batch"] is None else f"batches of {run['batch']:,}"
    kinds = {"walk rows": run.get("fitted"), "memory": run.get("half_life") is not None}
    return ", ".join([run["dataset"], cut, *(name for name, is_so in kinds.items() if is_so)])


def memory_table(constants: Constants, machine: Machine) -> str:
    """Return what graphs of some sizes need before any event comes."""
    lines: list[tuple[str, ...]] = []
    for what, greatest, degrees in _graphs():
        demand = Demand(degrees, 0.0)
        found, reason = fewest(demand, constants, machine)
        if found is None:
            lines.append((what, f"{greatest:,.0f}", *[""] * 10, reason))
            continue
        sizes = *found.memory, sum(found.memory), found.snapshot, found.front_memory
        shares = (f"{one / 1e12:.2f}" for one in sizes)
        lacking = front_lacks(found, demand, constants, machine) or "nothing"
        fixed = f"{found.shards:,}", f"{found.machines:,}", f"{found.mirrors / found.own:.1f}"
        lines.append((what, f"{greatest:,.0f}", *fixed, *shares, lacking))
    names = (
        *("graph", "greatest hub", "shards", "machines", "mirrors a node", "nodes, TB", "mirrors, TB"),
        *("arcs, TB", "counts of who mirrors, TB", "memory, TB", "snapshots, TB", "front, TB", "too little"),
    )
    assumed = (
        "The fewest shards (a power of two) that fit. A machine is assumed to have "
        f"{machine.memory / 1e9:,.0f} GB, filled to {machine.filled:.0%}, {machine.cores} cores and "
        f"{machine.network * 8 / 1e9:,.0f} Gb/s; degrees ~ d^-a, from 1 to the greatest hub."
    )
    return f"{rows_table(names, lines)}\n\n{assumed}"


def rates_table(constants: Constants, machine: Machine) -> str:
    """Return what graphs of some sizes need at some rates, or what they cannot have."""
    lines: list[tuple[str, ...]] = []
    for what, greatest, degrees in _graphs():
        for rate in _RATES:
            demand = Demand(degrees, rate)
            found, reason = fewest(demand, constants, machine)
            often, seldom = additions(degrees, demand.batch), additions(degrees, round(rate))
            log = rate * constants.log_event * 86_400 / 1e12
            shape = found or needs(demand, constants, machine, 1)  # the front is the same with any number
            lacking = "; ".join(filter(None, (reason, front_lacks(shape, demand, constants, machine))))
            followed = f"{1 / (shape.moved * constants.moved_seconds):,.0f}"
            numbers = (
                f"{one:,.0f}" for one in (greatest, rate, often, seldom, often * rate / constants.additions)
            )
            lines.append((what, *numbers, f"{log:.2f}", *_shown(found), followed, lacking or "nothing"))
    names = (
        *("graph", "greatest hub", "events a second", "additions an event, ten batches a second"),
        *("one batch a second", "threads that add", "log a day, TB", "shards", "machines", "memory, TB"),
        *("bytes an event between shards", "into a machine, MB/s", "out of the front, MB/s"),
        *("events a second that the front follows", "too little"),
    )
    assumed = (
        "Events add and remove edges at random, so hubs are met as often as they have neighbours. Additions "
        "are those of one process; mirrors add to them. The front is told of each id that moved, by one "
        "thread: at most all that was added to, once a batch. *Too little* says of what, up to which "
        f"number of shards ({SLOTS:,}, a shard a slot, is the most), and what the front lacks with any "
        "number; where shards are named, they are enough but for the front."
    )
    return f"{rows_table(names, lines)}\n\n{assumed}"


def _shown(found: Needs | None) -> tuple[str, ...]:
    if found is None:
        return ("",) * 6
    traffic = (f"{one:,.0f}" for one in (found.event_bytes, found.network / 1e6, found.front / 1e6))
    return f"{found.shards:,}", f"{found.machines:,}", f"{sum(found.memory) / 1e12:.2f}", *traffic


def _graphs() -> Iterator[tuple[str, float, Degrees]]:
    for what, nodes, edges in _SIZES:
        for greatest in (*_HUBS, nodes / 10):
            yield what, greatest, Degrees.power_law(nodes, 2 * edges, greatest)


def page(root: Path = Path()) -> str:
    """Return the page with fresh tables."""
    blocks, kills = _blocks(root), root / SHARDS / "kills.json"
    if kills.exists():
        blocks["kills"] = kills_table(msgspec.json.decode(kills.read_bytes()))
    return with_blocks(root / PAGE, {name: f"\n{block}\n" for name, block in blocks.items()})


def kills_table(run: dict[str, Any]) -> str:
    """Return what became of a cluster whose processes were killed under load."""
    named = {
        "shard": "a process of a shard is killed (SIGKILL)",
        "stop": "one is stopped (SIGSTOP), and goes on when it has a successor",
        "twin": "a second process is started for a shard",
        "front": "the front is killed, and started again",
        "node": "a machine is lost, with all of its shards, and another comes",
    }
    silent, late = run["seconds_until_a_shard_answers"], run["seconds_until_events_are_acknowledged"]
    lines = []
    for fault, what in named.items():
        times = (silent.get(fault), late.get(fault))
        shown = ("" if one is None else f"{one['p50']:.1f} ({one['greatest']:.1f})" for one in times)
        lines.append((what, str(run["faults"].get(fault, 0)), *shown))
    gaps = run["seconds_between_reads_of_other_shards"]
    names = "what", "times", "seconds until the shard answers", "until events are acknowledged"
    count, seconds, events = sum(run["faults"].values()), run["seconds"], run["events_acknowledged"]
    said = (
        f"{run['shards']} shards on a Ray cluster of several simulated machines, {run['edges']:,} edges, "
        f"{run['rate']:,.0f} events a second, {count} faults in {seconds:,.0f} s on two cores "
        f"(load {run['load']:.1f}); median (greatest). Of {events:,} acknowledged events {run['lost']} were "
        f"lost and {run['doubled']} applied twice; the digest of all shards was "
        f"{'that' if run['digest_equal'] else 'NOT that'} of one process with the same events. Reads of "
        f"other shards went on: at most {gaps['greatest']:.1f} s between two answers. Processes that had a "
        f"successor: {run['stale_messages_refused']} of their messages were refused, and "
        f"{run['stale_alive']} were left."
    )
    return f"{rows_table(names, lines)}\n\n{said}\n\n`python -m dygcn_lab.soak.shard_kills` does it again."


def _blocks(root: Path) -> dict[str, str]:
    runs, large = find_runs(root / SHARDS), find_large(root / SHARDS)
    if not (runs and large and (root / CAPACITY).exists()):
        return dict.fromkeys(("constants", "checked", "memory", "rates"), _MISSING)
    files = SCALE, DISK, CAPACITY, FRONT
    scale, disk, raw, front = (msgspec.json.decode((root / one).read_bytes()) for one in files)
    constants, machine = read_constants(runs, large, scale, disk, front), Machine()
    return {
        "constants": constants_table(constants, front),
        "checked": checked_table(runs, large, raw, constants),
        "memory": memory_table(constants, machine),
        "rates": rates_table(constants, machine),
    }


def main(what: str) -> None:
    """Predict what was measured, or write the page."""
    if what == "measure":
        found = {
            "kind": "capacity",
            "runs": [predict(run) for run in find_runs(SHARDS)],
            "large": [predict_large(run) for run in find_large(SHARDS)],
        }
        write_json(found, CAPACITY)
    elif what == "page":
        PAGE.write_text(page(), encoding="utf-8")
    else:
        raise OptionError(f"{what!r} is not known; allowed is measure or page")


if __name__ == "__main__":
    main(*sys.argv[1:])
