"""Two builds of the package side by side: the same batches in fresh processes, one build after the other."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from dygcn.costs.timing import load_average
from dygcn.errors import DygcnError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dygcn.costs.timing import Notify

_Key = tuple[str, int, int]
_RUN = "from dygcn.cli import main; main()"


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
        CPU levels (see `dygcn._rows`) at which this build is run besides the best one.
    """
    builds = {"other": (other, ""), "this": (sys.executable, "")}
    builds |= {level: (sys.executable, level) for level in levels}
    found: dict[str, list[dict[_Key, dict[str, Any]]]] = {name: [] for name in builds}
    for done in range(rounds):
        for place, (name, (python, level)) in enumerate(builds.items()):
            if notify is not None:
                notify(done * len(builds) + place, rounds * len(builds), f"{name}, round {done + 1}")
            found[name].append(_run(python, level, names, width, sizes, repeats))
    rows = [_row(key, found, levels) for key in found["this"][0]]
    return {"kind": "engines", "rounds": rounds, "load_average": load_average(), "rows": rows}


def _run(
    python: str, level: str, names: Sequence[str], width: int, sizes: Sequence[int], repeats: int
) -> dict[_Key, dict[str, Any]]:
    command = [python, "-c", _RUN, "bench", "update", *names, "--json", "--width", str(width)]
    command += [f"--batch={size}" for size in sizes] + [f"--repeats={repeats}"]
    done = subprocess.run(
        command, capture_output=True, check=False, env={**os.environ, "DYGCN_CPU": level, "PYTHONPATH": ""}
    )
    if done.returncode:
        raise DygcnError(f"{' '.join(command)} failed: {done.stderr.decode(errors='replace')[-500:]}")
    result = msgspec.json.decode(done.stdout, type=dict[str, Any])
    return {(row["graph"], row["width"], row["events"]): row for row in result["batches"]}


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
