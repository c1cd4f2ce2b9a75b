"""Rerun the paper's comparison: ``python benchmarks/paper_rules.py DATA OUT.json [--only NAME ...]``.

For each data set and recipe (as published, with our options): GCN retrained at every step, rolling and
spectral one step from a fresh base, then a long run on their own output. Results go to OUT.json after every
run; ``--show`` prints the tables of files and draws their figure without running anything.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch
from link_prediction import read_steps

import dygcn
from dygcn.experiments.growing_sample import grow
from dygcn.experiments.influence import influenced_by_one_edge, influenced_nodes
from dygcn.experiments.link_prediction import Steps
from dygcn.experiments.long_run import exact_bases, exact_run, long_run, stretch
from dygcn.experiments.paper_rules import DIM, RULES, Frames, fit_rule, judge_paper_rules
from dygcn.training import BaseRecipe, RollingRecipe

PAPER = {
    "as": {"gcn": 0.8935, "rolling": 0.8621, "spectral": 0.8738, "times": 692},
    "hepth": {"gcn": 0.9324, "rolling": 0.8964, "spectral": 0.9039, "times": 759},
    "facebook": {"gcn": 0.8184, "rolling": 0.7544, "spectral": 0.7697, "times": 4110},
}
PAPER_F1 = {
    "as": {"gcn": 0.7731, "rolling": 0.7694, "spectral": 0.7710},
    "hepth": {"gcn": 0.8983, "rolling": 0.8679, "spectral": 0.8806},
    "facebook": {"gcn": 0.7493, "rolling": 0.7430, "spectral": 0.7482},
}
PAPER_ORDERS = {
    "as": (63.53, 39.85, 14.14, 4.22),
    "hepth": (6.40, 1186.58, 1955.85, 1658.61),
    "facebook": (1637.69, 546.46, 14.14, 0.46),
}
# The paper trains the GCN on every snapshot.
RECIPES = {"published": RollingRecipe(base=BaseRecipe(once=False)), "ours": RollingRecipe.steady()}


def facebook(data: Path) -> Steps:
    """Return the paper's Facebook set, sampled from Amherst."""
    table = pq.read_table(data / "fb100-amherst41" / "edges.parquet")
    return grow(*(table.column(name).to_numpy().astype(np.int64) for name in ("src", "dst")))


DATA = {
    "as": lambda data: read_steps(data / "as-733", ("window", 673, 732)),
    "hepth": lambda data: read_steps(data / "hepth-collab", ("window", 75, 134)),
    "facebook": facebook,
    # Windows that no setting was chosen on or looked at before the settings were fixed.
    "as-600": lambda data: read_steps(data / "as-733", ("window", 600, 659)),
    "caida": lambda data: read_steps(data / "as-caida", ("window", 62, 121)),
}


def run(name: str, steps: Steps, recipe_name: str, seed: int) -> dict:
    """Return every series of one data set, recipe and seed."""
    frames, recipe = Frames.of(steps), RECIPES[recipe_name]
    begun = time.perf_counter()
    trained, models, one = judge_paper_rules(frames, recipe, seed)
    long = {f"{key}, gcn": series for key, series in long_run(trained, models).items()}
    if recipe_name == "ours":
        exact = dygcn.fit(steps.part(0, frames.fitted).table(), dim=DIM, seed=seed)
        hashed = exact_bases(frames, exact, recipe, seed)
        fitted = {rule: fit_rule(rule, hashed, recipe) for rule in RULES}
        long |= {f"{key}, hashed": series for key, series in long_run(hashed, fitted).items()}
        long["exact"] = exact_run(exact, steps, frames, stretch(frames, 30)[1], seed)
    return {
        "data": name,
        "recipe": recipe_name,
        "seed": seed,
        "epochs": recipe.base.warm or recipe.base.epochs,
        "minutes": (time.perf_counter() - begun) / 60,
        "one_step": {key: dataclasses.asdict(series) for key, series in one.items()},
        "long_run": {key: dataclasses.asdict(series) for key, series in long.items()},
    }


def orders(name: str, steps: Steps) -> dict:
    """Return how many nodes a step influences, and how many a single edge does."""
    frames = Frames.of(steps)
    counts = influenced_nodes(frames)
    return {
        "mean": counts.mean(axis=0).tolist(),
        "median": np.median(counts, axis=0).tolist(),
        "one_edge": influenced_by_one_edge(frames).tolist(),
        "nodes": frames.nodes,
    }


def _over_seeds(runs: list[dict], part: str, key: str, measure: str) -> np.ndarray:
    """Return one measure, (seeds, steps)."""
    return np.array([run[part][key][measure] for run in runs])


def show_orders(found: dict) -> None:
    """Print the paper's table of influenced nodes, ours beside it."""
    print("| data | nodes influenced | 1st | 2nd | 3rd | 4th |\n|---|---|---|---|---|---|")
    for name, counts in found.items():
        lines = {"mean of the steps": counts["mean"], "median of the steps": counts["median"]}
        lines |= {"one edge alone": counts["one_edge"]}
        if name in PAPER_ORDERS:
            lines["paper"] = PAPER_ORDERS[name]
        for what, values in lines.items():
            print(f"| {name} | {what} | " + " | ".join(f"{value:.1f}" for value in values) + " |")


def show_one_step(runs: list[dict], name: str, recipe: str) -> None:
    """Print one data set's rows of the paper's table."""
    epochs = runs[0]["epochs"]
    for key in ("gcn", *RULES, "unchanged"):
        if key not in runs[0]["one_step"]:
            continue
        auc, f1 = (_over_seeds(runs, "one_step", key, measure).mean(axis=1) for measure in ("auc", "f1"))
        seconds = {k: np.median(_over_seeds(runs, "one_step", k, "seconds")) for k in ("gcn", key)}
        rows = {k: _over_seeds(runs, "one_step", k, "rows").mean() for k in ("gcn", key)}
        zero = _over_seeds(runs, "one_step", key, "zero").mean()
        faster = f"{seconds['gcn'] / seconds[key]:.0f}" if seconds[key] else ""
        paper, paper_f1 = PAPER.get(name, {}).get(key, ""), PAPER_F1.get(name, {}).get(key, "")
        print(
            f"| {name} | {recipe} | {key} | {auc.mean():.4f} ({np.ptp(auc):.4f}) | {paper} "
            f"| {f1.mean():.3f} | {paper_f1} | {1e3 * seconds[key]:.1f} "
            f"| {faster} | {rows[key]:.0f} "
            f"| {rows['gcn'] / epochs:.0f} x {epochs} | {100 * zero:.0f} % |"
        )


def show_long_run(runs: list[dict], name: str, recipe: str) -> None:
    """Print one data set's rows of the long run; its first step, which was fitted on, is left out."""
    for key in runs[0]["long_run"]:
        skipped = 0 if key == "exact" else 1
        auc, length, zero = (
            _over_seeds(runs, "long_run", key, measure)[:, skipped:] for measure in ("auc", "length", "zero")
        )
        start = length[:, :1]
        if ", " in key:  # every line starts from the base that *do nothing* keeps
            start = _over_seeds(runs, "long_run", f"do nothing, {key.split(', ')[1]}", "length")[:, :1]
        ratio = length / start
        print(
            f"| {name} | {recipe} | {key} | {auc.mean():.4f} "
            f"| {auc[:, -1].mean():.4f} ({auc[:, -1].min():.4f}) | {auc.min():.4f} "
            f"| {ratio.min():.2g} to {ratio.max():.2g} | {100 * zero.max():.0f} % |"
        )


def show(results: dict, figure: Path | None) -> None:
    """Print all tables, and draw the long run."""
    show_orders(results["orders"])
    groups: dict[tuple[str, str], list[dict]] = {}
    for each in results["runs"]:
        groups.setdefault((each["data"], each["recipe"]), []).append(each)
    print("\n| data | recipe | method | AUC (spread) | paper | F1 | paper | ms a step ", end="")
    print("| GCN's time / this | rows a step | GCN's rows | zero |\n" + "|---" * 12 + "|")
    for (name, recipe), runs in groups.items():
        show_one_step(runs, name, recipe)
    print("\n| data | recipe | method, base | mean AUC | last step (worst seed) | worst | length | zero |")
    print("|---|---|---|---|---|---|---|---|")
    for (name, recipe), runs in groups.items():
        show_long_run(runs, name, recipe)
    print("\nseeds:", {key: len(runs) for key, runs in groups.items()})
    print("minutes:", {key: round(sum(r["minutes"] for r in runs), 1) for key, runs in groups.items()})
    if figure is not None:
        draw(groups, figure)


LINES = (
    ("ours", "exact", "exact rule", "black", "-"),
    ("ours", "recompute, gcn", "GCN retrained", "tab:gray", "-"),
    ("ours", "do nothing, gcn", "do nothing (GCN base)", "tab:gray", ":"),
    ("ours", "rolling, gcn", "rolling, our options", "tab:blue", "-"),
    ("ours", "spectral, gcn", "spectral, our options", "tab:green", "-"),
    ("published", "rolling, gcn", "rolling, as published", "tab:blue", "--"),
    ("published", "spectral, gcn", "spectral, as published", "tab:green", "--"),
)
TITLES = {"as": "AS (as-733)", "hepth": "HEP-TH (hepth-collab)", "facebook": "Facebook (Amherst, sampled)"}


def draw(groups: dict, figure: Path) -> None:
    """Draw AUC over the steps of the long run, one panel for each data set."""
    import matplotlib.pyplot as plt  # noqa: PLC0415

    names = [name for name in TITLES if (name, "ours") in groups]
    picture, panels = plt.subplots(1, len(names), figsize=(4.6 * len(names), 4.2), sharey=True, squeeze=False)
    for panel, name in zip(panels[0], names, strict=True):
        for recipe, key, label, colour, style in LINES:
            if (name, recipe) in groups:
                auc = _over_seeds(groups[name, recipe], "long_run", key, "auc").mean(axis=0)
                first = 2 if key == "exact" else 1  # it was fitted up to step 1
                panel.plot(first + np.arange(len(auc)), auc, style, color=colour, label=label)
        panel.set(title=TITLES[name], xlabel="steps on its own output", ylim=(0.4, 1.01))
        panel.xaxis.get_major_locator().set_params(integer=True)
        panel.grid(alpha=0.3)
    panels[0][0].set_ylabel("AUC of the edges at t + 1")
    handles = panels[0][0].get_legend_handles_labels()
    picture.legend(*handles, loc="lower center", ncol=4, frameon=False)
    picture.tight_layout(rect=(0, 0.13, 1, 1))
    picture.savefig(figure, dpi=110)


def main() -> None:
    """Run what was asked for."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("data", type=Path, help="folder of data sets, or with --show the figure to draw")
    arguments.add_argument("out", type=Path, nargs="+", help="file of results; several with --show")
    arguments.add_argument(
        "--only", nargs="*", default=["as", "hepth", "facebook"], help=f"of {', '.join(DATA)}"
    )
    arguments.add_argument("--recipes", nargs="*", default=list(RECIPES))
    arguments.add_argument("--seeds", type=int, default=1)
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--show", action="store_true")
    chosen = arguments.parse_args()
    if chosen.show:
        found = [json.loads(file.read_text()) for file in chosen.out]
        orders_found = {name: counts for each in found for name, counts in each["orders"].items()}
        show({"orders": orders_found, "runs": [run for each in found for run in each["runs"]]}, chosen.data)
        return
    torch.set_num_threads(chosen.threads)
    results: dict = {"orders": {}, "runs": []}
    for name in chosen.only:
        steps = DATA[name](chosen.data)
        results["orders"][name] = orders(name, steps)
        for recipe in chosen.recipes:
            for seed in range(chosen.seeds):
                results["runs"].append(run(name, steps, recipe, seed))
                chosen.out[0].write_text(json.dumps(results))
                last = results["runs"][-1]
                means = {key: round(float(np.mean(s["auc"])), 4) for key, s in last["one_step"].items()}
                print(name, recipe, seed, means, f"{last['minutes']:.1f} min", flush=True)


if __name__ == "__main__":
    main()
