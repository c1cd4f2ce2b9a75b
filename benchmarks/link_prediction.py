"""Print the table of the *Good* targets: ``python benchmarks/link_prediction.py DATA [NAME ...]``.

DATA is a folder of data sets (each with edges.parquet: src, dst, t and optionally op).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from dygcn.experiments.link_prediction import Steps, equal_steps, judge_links, window_steps

SEEDS = (0, 1, 2)
# name, folder, how it is cut, options of fit, least AUC asked for
ROWS = {
    "as-733": ("as-733", ("window", 673, 732), {}, 0.955),
    "as-733, memory 4": ("as-733", ("window", 673, 732), {"memory": 4.0}, 0.965),
    "as-733, memory 16": ("as-733", ("window", 673, 732), {"memory": 16.0}, 0.965),
    "hepth-collab": ("hepth-collab", ("window", 75, 134), {}, 0.994),
    "as-caida, memory 16": ("as-caida", ("window", 62, 121), {"memory": 16.0}, 0.987),
    "college-msg": ("college-msg", ("equal", 40), {}, 0.955),
    "fb100-amherst41": ("fb100-amherst41", ("equal", 36), {}, 0.94),
}


def read_steps(folder: Path, cut: tuple) -> Steps:
    """Read a data set and cut it into steps."""
    table = pq.read_table(folder / "edges.parquet")
    src, dst, t = (table.column(name).to_numpy().astype(np.int64) for name in ("src", "dst", "t"))
    if cut[0] == "equal":
        return equal_steps(src, dst, t, cut[1])
    op = table.column("op").to_numpy().astype(np.int64) if "op" in table.column_names else np.ones_like(src)
    return window_steps(src, dst, t, op, cut[1], cut[2])


def main() -> None:
    """Run every row on every seed."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("data", type=Path)
    arguments.add_argument("names", nargs="*", help=f"any of: {', '.join(ROWS)}")
    arguments.add_argument("--json", action="store_true", help="print each run as JSON, too")
    chosen = arguments.parse_args()
    print(f"{'data':20} {'asked':>6} {'exact':>7} {'spread':>7} {'fixed':>7} {'stale':>7} {'fit s':>6}")
    for name, (folder, cut, options, asked) in ROWS.items():
        if chosen.names and name not in chosen.names:
            continue
        steps = read_steps(chosen.data / folder, cut)
        runs = [judge_links(steps, seed, dim=100, **options) for seed in SEEDS]
        mean = {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}
        spread = np.ptp([run["learned"] for run in runs])
        print(
            f"{name:20} {asked:6.3f} {mean['learned']:7.4f} {spread:7.4f} "
            f"{mean['fixed']:7.4f} {mean['stale']:7.4f} {mean['fit_seconds']:6.1f}",
            flush=True,
        )
        if chosen.json:
            print(json.dumps({"name": name, "runs": runs}))


if __name__ == "__main__":
    main()
