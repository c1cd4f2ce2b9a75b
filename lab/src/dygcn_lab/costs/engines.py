"""Two builds of the package side by side: the same batches in fresh processes, one build after the other."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from dygcn.errors import DygcnError
from dygcn_lab.costs.timing import load_average

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dygcn_lab.costs.timing import Notify

_Key = tuple[str, int, int]
_B = TypeVar("_B")
_R = TypeVar("_R")
_RUN = "from dygcn.cli import main; main()"
_READ = """
import json, statistics, sys, time
import numpy as np
try:
    from dygcn_lab.costs import graphs, kinds, updates
except ImportError:  # a build from before the laboratory was a distribution of its own
    from dygcn.costs import graphs, kinds, updates
rows = []
for name in sys.argv[1:]:
    events = graphs.graph_events(name, 0)
    for features, live in (("hashed", updates.live_of(events)), ("walks", kinds.walks_of(events))):
        nodes, taken = np.random.default_rng(1).choice(live._state.graph.nodes(), 10_000), []
        for _ in range(15):
            begun = time.perf_counter()
            live._vectors_of(nodes)
            taken.append(1e6 * (time.perf_counter() - begun) / len(nodes))
        about = {"graph": name, "features": features, "width": live.model.width, "dim": live.model.dim}
        rows.append({**about, "vectors": len(nodes), "us": statistics.median(taken)})
print(json.dumps(rows))
"""
"""What both builds run: by names that both have."""


def measure_engines(
    other: str,
    names: Sequence[str],
    *,
    width: int = 256,
    sizes: Sequence[int] = (1, 1000, 10_000),
    repeats: int = 10,
    rounds: int = 3,
    levels: Sequence[str] = (),
    notify: Notify | None = None,
) -> dict[str, Any]:
    """Run `dygcn bench update` with this interpreter and with another one, alternating.

    Parameters
    ----------
    other
        Path of a Python interpreter that has another build of the package.
    rounds
        How often each is run; a ratio is the median of the ratios of single rounds.
    levels
        CPU levels (see `dygcn.engine._rows`) at which this build is run besides the best one.
    """
    builds = {"other": (other, ""), "this": (sys.executable, "")}
    builds |= {level: (sys.executable, level) for level in levels}
    found = _by_turns(
        builds,
        lambda build: _run(*build, names=names, width=width, sizes=sizes, repeats=repeats),
        rounds,
        notify,
    )
    rows = [_row(key, found, levels) for key in found["this"][0]]
    return {"kind": "engines", "rounds": rounds, "load_average": load_average(), "rows": rows}


def measure_reads(
    other: str, names: Sequence[str], *, rounds: int = 3, notify: Notify | None = None
) -> dict[str, Any]:
    """Read many vectors at once with this interpreter and with another one, alternating."""
    builds = {"other": other, "this": sys.executable}
    found = _by_turns(builds, lambda python: _read(python, names), rounds, notify)
    rows = []
    for key, about in found["this"][0].items():
        us = {name: [one[key]["us"] for one in results] for name, results in found.items()}
        ratios = [this / base for this, base in zip(us["this"], us["other"], strict=True)]
        medians = {f"{name}_us": statistics.median(values) for name, values in us.items()}
        row = {name: value for name, value in about.items() if name != "us"}
        rows.append({**row, **medians, "ratio": statistics.median(ratios)})
    return {"kind": "reads", "rounds": rounds, "load_average": load_average(), "rows": rows}


def _by_turns(
    builds: dict[str, _B], run: Callable[[_B], _R], rounds: int, notify: Notify | None
) -> dict[str, list[_R]]:
    """Run every build in every round; return what each gave, round by round."""
    found: dict[str, list[_R]] = {name: [] for name in builds}
    for done in range(rounds):
        for place, (name, build) in enumerate(builds.items()):
            if notify is not None:
                notify(done * len(builds) + place, rounds * len(builds), f"{name}, round {done + 1}")
            found[name].append(run(build))
    return found


def _read(python: str, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    rows = _output([python, "-c", _READ, *names])
    return {f"{row['graph']} {row['features']}": row for row in rows}


def _run(
    python: str, level: str, names: Sequence[str], width: int, sizes: Sequence[int], repeats: int
) -> dict[_Key, dict[str, Any]]:
    command = [python, "-c", _RUN, "bench", "update", *names, "--json", "--width", str(width)]
    command += [f"--batch={size}" for size in sizes] + [f"--repeats={repeats}"]
    result = _output(command, level)
    return {(row["graph"], row["width"], row["events"]): row for row in result["batches"]}


def _output(command: list[str], level: str = "") -> Any:
    """Return what a command printed as JSON; it runs on one thread."""
    settings = {"DYGCN_CPU": level, "DYGCN_THREADS": "1", "PYTHONPATH": ""}
    done = subprocess.run(command, capture_output=True, check=False, env={**os.environ, **settings})
    if done.returncode:
        raise DygcnError(f"{' '.join(command)} failed: {done.stderr.decode(errors='replace')[-500:]}")
    return msgspec.json.decode(done.stdout)


def _row(
    key: _Key, found: dict[str, list[dict[_Key, dict[str, Any]]]], levels: Sequence[str]
) -> dict[str, Any]:
    graph, width, events = key

    def median(build: str, field: str) -> float:
        return float(statistics.median(result[key][field] for result in found[build]))

    def ratio(build: str) -> float:
        pairs = zip(found[build], found["other"], strict=True)
        return float(statistics.median(one[key]["median_us"] / base[key]["median_us"] for one, base in pairs))

    return {
        "graph": graph,
        "width": width,
        "events": events,
        "other_us": median("other", "median_us"),
        "this_us": median("this", "median_us"),
        "ratio": ratio("this"),
        **{f"ratio_{level}": ratio(level) for level in levels},
        "times_bare": median("this", "times_bare"),
        "other_times_bare": median("other", "times_ahead"),  # its name for bare that asks ahead
    }
