"""The pictures of the page of costs, one PNG for each kind of result. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dygcn.cli.printing import plain
from dygcn_lab.costs.crossover import CLEORA, CLEORA_READY, GCN, RECOMPUTE
from dygcn_lab.costs.results import Result
from dygcn_lab.costs.tables import batch_text, size_text
from dygcn_lab.report.panels import OTHERS, OURS, panels, save, white_edge

SHADES = ("#9ec9e8", "#4f9bd0", "#1f5f99", "#0d3357", "#061a2c")  # light to dark, by size of batch
_FAR = 8  # times; bars that differ by more are drawn on a log scale
_LEGEND_COLUMNS = 4
RIVAL_COLOURS = {
    RECOMPUTE: "tab:red",
    CLEORA: "tab:green",
    CLEORA_READY: "tab:olive",
    GCN: "tab:purple",
}


def draw(result: Result, file: Path) -> None:
    """Draw a result."""
    painters: dict[str, Callable[[Result], Any]] = {
        "update": _update,
        "crossover": _crossover,
        "scale": _scale,
        "memory": _memory,
        "tolerance": _tolerance,
        "threads": _threads,
        "base": _base,
        "kinds": _kinds,
        "score": _score,
        "recommend": _recommend,
        "engines": _engines,
        "reads": _reads,
        "service": _service,
        "start": _start,
    }
    save(painters[result["kind"]](result), file)


def _update(result: Result) -> Any:
    """Times bare as bars."""
    picture, axes = panels(1, 1, 7.5, 3.6)
    axis = axes[0][0]
    rows = [row for row in result["batches"] if row["width"] == result["batches"][0]["width"]]
    _grouped_bars(axis, rows, "events", "times_bare")
    axis.axhline(1, color="black", lw=0.8, ls=":")
    times = [row["times_bare"] for row in rows]
    if max(times) > _FAR * min(times):
        axis.set_yscale("log")
        axis.set_ylim(bottom=0.5)
        axis.yaxis.set_major_formatter("{x:g}")
    axis.set_ylabel("times the bare additions")
    _legend_below(picture, axis)
    return picture


def _grouped_bars(axis: Any, rows: Sequence[dict[str, Any]], by: str, field: str) -> None:
    """Draw one group of bars a graph, one shade a size of batch."""
    graphs = list(dict.fromkeys(row["graph"] for row in rows))
    sizes = sorted({row[by] for row in rows})
    width = 0.8 / len(sizes)
    places = [
        graphs.index(row["graph"]) + width * (sizes.index(row[by]) - (len(sizes) - 1) / 2) for row in rows
    ]
    for number, size in enumerate(sizes):
        here = [(x, row[field]) for x, row in zip(places, rows, strict=True) if row[by] == size]
        label = "single edge" if size == 1 else f"batch of {plain(size)}"
        shade = number % len(SHADES)
        bars = axis.bar(*zip(*here, strict=True), 0.94 * width, color=SHADES[shade], label=label)
        texts = [f"{value:.3g}" for _, value in here]
        ink = "white" if shade else "black"
        axis.bar_label(bars, texts, fontsize=8, padding=-12, color=ink)
    axis.set_xticks(range(len(graphs)), [graph.replace(":", ":\n") for graph in graphs])
    axis.margins(y=0.15)
    axis.grid(axis="y", alpha=0.3)
    axis.set_axisbelow(True)


def _legend_below(picture: Any, axis: Any, first: str = "") -> None:
    """Put what the axis shows below the whole picture: bars before marks, and before all what is `first`."""
    shown = list(zip(*axis.get_legend_handles_labels(), strict=True))
    shown.sort(key=lambda pair: (not pair[1].startswith(first), not hasattr(pair[0], "patches")))
    handles, labels = zip(*shown, strict=True)
    columns = min(_LEGEND_COLUMNS, len(labels))
    picture.legend(handles, labels, loc="outside lower center", ncol=columns, frameon=False, fontsize=9)


def _crossover(result: Result) -> Any:
    """One panel for each graph: time against the size of the batch, and a level line for each rival."""
    graphs = result["graphs"]
    picture, axes = panels(1, max(1, len(graphs)), 5.0, 4.6)
    for axis, graph in zip(axes[0], graphs, strict=False):
        _crossover_panel(axis, graph)
    axes[0][0].set_ylabel("milliseconds")
    fullest = max(axes[0], key=lambda axis: len(axis.get_legend_handles_labels()[1]))
    if graphs:
        _legend_below(picture, fullest, "our")
    return picture


def _crossover_panel(axis: Any, graph: dict[str, Any]) -> None:
    sizes = [batch["events"] for batch in graph["batches"]]
    both = (
        ("update_us", "state_us", "cheaper_from_batch", "-", "our update"),
        (
            "update_and_vectors_us",
            "vectors_us",
            "cheaper_from_batch_with_vectors",
            "--",
            "our update, with vectors",
        ),
    )
    for field, rival_field, crossed, line, label in both:
        ours = [batch[field] / 1000 for batch in graph["batches"]]
        axis.plot(sizes, ours, line, marker="o", ms=3, color=OURS, lw=2 if line == "-" else 1.3, label=label)
        named: list[float] = []
        for rival in graph["rivals"]:
            level, colour = rival[rival_field] / 1000, RIVAL_COLOURS.get(rival["name"], OTHERS)
            if line == "-" or rival["state_us"] != rival["vectors_us"]:
                name = rival["name"] if line == "-" else f"{rival['name']}, with vectors"
                axis.axhline(level, color=colour, ls=line, lw=1.2, label=name)
            if rival[crossed] is not None:
                axis.plot(rival[crossed], level, "o", color=colour, mec="black", ms=5, zorder=4)
                below = line == "-" or any(level < other < 1.5 * level for other in named)
                _name(axis, (rival[crossed], level), colour, left=line != "-", below=below)
                named.append(level)
    axis.set(xscale="log", yscale="log", title=graph["graph"], xlabel="changes in a batch")
    axis.margins(x=0.09)
    axis.grid(alpha=0.3)


def _name(axis: Any, at: tuple[float, float], colour: str, left: bool, below: bool) -> None:
    """Write the size of the batch beside a crossing."""
    text = axis.annotate(
        batch_text(at[0], 0),
        at,
        (-5 if left else 5, -10 if below else 4),
        textcoords="offset points",
        ha="right" if left else "left",
        fontsize=8,
        color=colour,
    )
    text.set_path_effects(white_edge())


def _scale(result: Result) -> Any:
    rows = result["rows"]
    nodes = [row["nodes"] for row in rows]
    picture, axes = panels(1, 2, 4.6, 3.6)
    for axis, fields in zip(
        axes[0],
        (
            {
                "rows_of_a_single_edge": ("rows of a single edge", "black", "-"),
                "rows_per_event": ("rows, in a batch", OURS, "-"),
                "additions_per_event": ("additions", "tab:gray", "--"),
                "vectors_per_event": ("vectors that move", "tab:orange", ":"),
            },
            {
                "median_us": ("our update", OURS, "-"),
                "bare_us": ("bare additions", "tab:gray", "--"),
            },
        ),
        strict=True,
    ):
        for field, (label, colour, line) in fields.items():
            axis.plot(nodes, [row[field] for row in rows], line, marker="o", ms=4, color=colour, label=label)
        axis.set(xscale="log", xlabel="nodes")
        axis.set_ylim(0, 1.45 * max(row[field] for row in rows for field in fields))
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8, loc="upper left")
    axes[0][0].set_ylabel("for each changed edge")
    axes[0][1].set_ylabel(f"microseconds, batch of {plain(rows[0]['events'])}")
    return picture


def _memory(result: Result) -> Any:
    """The prediction stacked by its parts, the measurement beside it, a node; the whole above the bars."""
    rows = result["rows"]
    picture, axes = panels(1, 1, 2.2 + 1.5 * len(rows), 3.9)
    axis = axes[0][0]
    nodes = 1000 * np.array([row["nodes"] for row in rows])
    places, below = np.arange(len(rows)), np.zeros(len(rows))
    for name in dict.fromkeys(name for row in rows for name in row["parts"]):
        part = np.array([row["parts"].get(name, 0) for row in rows]) / nodes
        stack = axis.bar(places - 0.2, part, 0.38, bottom=below, label=name)
        below += part
    measured = np.array([row["measured_bytes"] for row in rows]) / nodes
    beside = axis.bar(places + 0.2, measured, 0.38, color=OTHERS, ec="black", lw=0.6, label="measured")
    for bars, field in ((stack, "predicted_bytes"), (beside, "measured_bytes")):
        axis.bar_label(bars, [size_text(row[field]) for row in rows], fontsize=8, padding=2)
    axis.set_xticks(places, [f"{row['graph']}\nwidth {row['width']}" for row in rows], fontsize=8)
    axis.set_ylabel("KB for each node")
    axis.margins(y=0.12)
    axis.grid(axis="y", alpha=0.3)
    axis.set_axisbelow(True)
    _legend_below(picture, axis)
    return picture


def _tolerance(result: Result) -> Any:
    """Rows an event against the worst error, a line for each graph; it begins at the exact vectors."""
    picture, axes = panels(1, 1, 6.6, 4.2)
    axis = axes[0][0]
    for number, graph in enumerate(dict.fromkeys(row["graph"] for row in result["rows"])):
        rows = [row for row in result["rows"] if row["graph"] == graph]
        places = [(row["worst"], row["rows_per_event"]) for row in rows]
        style = {"marker": "osD^v"[number % 5], "color": f"C{number}", "ms": 5}
        axis.plot(*zip(*places, strict=True), "-", label=f"{graph} ({rows[0]['model']})", **style)
        named: dict[tuple[float, float], list[str]] = {}  # some tolerances publish nearly the same
        for (worst, count), row in zip(places, rows, strict=True):
            named.setdefault((round(worst, 4), round(count)), []).append(plain(row["tolerance"]))
        for place, texts in named.items():
            axis.annotate(", ".join(texts), place, (5, 4), textcoords="offset points", fontsize=8)
    axis.set(
        yscale="log",
        xlabel="worst error of a vector in the sink (numbers: tolerance)",
        ylabel="rows an event",
    )
    axis.yaxis.set_major_formatter("{x:g}")
    axis.yaxis.set_minor_formatter("{x:g}")
    axis.tick_params(axis="y", which="minor", labelsize=7)
    axis.margins(x=0.1, y=0.12)
    axis.grid(alpha=0.3)
    _legend_below(picture, axis)
    return picture


def _threads(result: Result) -> Any:
    picture, axes = panels(1, 1, 7.5, 3.4)
    axis = axes[0][0]
    _grouped_bars(axis, result["rows"], "batch", "times_faster")
    axis.axhline(1, color="black", lw=0.8, ls=":")
    axis.set_ylabel("times faster with two threads")
    _legend_below(picture, axis)
    return picture


def _base(result: Result) -> Any:
    """Seconds and bytes as bars, one for each base."""
    picture, axes = panels(1, 2, 4.5, 3.4)
    names = [
        f"{row['graph']}\nwalks of {row['window']}{', as fits' if row['asked_window'] is None else ''}\n"
        f"{plain(row['core'])} nodes"
        for row in result["rows"]
    ]
    for axis, field, unit, says in (
        (axes[0][0], "cpu_seconds", 1, "processor seconds"),
        (axes[0][1], "grown_bytes", 1e9, "GB at the peak"),
    ):
        bars = axis.barh(range(len(names)), [row[field] / unit for row in result["rows"]], color=OURS)
        axis.bar_label(bars, fmt="%.3g", fontsize=8, padding=2)
        axis.set_yticks(range(len(names)), names if axis is axes[0][0] else [""] * len(names))
        axis.invert_yaxis()
        axis.margins(x=0.15)
        axis.set_xlabel(says)
    return picture


def _kinds(result: Result) -> Any:
    """Bytes, updates and reads of each kind of features, side by side."""
    rows = result["rows"]
    graphs, kinds = (
        list(dict.fromkeys(r["graph"] for r in rows)),
        list(dict.fromkeys(r["features"] for r in rows)),
    )
    picture, axes = panels(1, 3, 4.2, 3.2)
    panel: list[tuple[str, Callable[[dict[str, Any]], float]]] = [
        ("bytes a node", lambda row: row["sums_bytes"] + row["table_bytes"]),
        ("us, a single edge", lambda row: row["single_us"]),
        ("us, a vector read alone", lambda row: row["read_us"]),
    ]
    for axis, (title, value) in zip(axes[0], panel, strict=True):
        for number, kind in enumerate(kinds):
            heights = [
                value(r) for name in graphs for r in rows if (r["graph"], r["features"]) == (name, kind)
            ]
            axis.bar(np.arange(len(graphs)) + 0.4 * number, heights, 0.4, label=kind)
        axis.set_xticks(np.arange(len(graphs)) + 0.2, graphs, fontsize=7)
        axis.set_title(title, fontsize=10)
        axis.grid(axis="y", alpha=0.3)
    axes[0][0].legend(fontsize=8)
    return picture


def _score(result: Result) -> Any:
    """Microseconds a scored pair beside the cosine, and how much longer an update takes with times."""
    rows = result["rows"]
    picture, axes = panels(1, 2, 6.0, 3.4)
    scores, updates = axes[0]
    for number, kind in enumerate(("cosine", "new", "next")):
        heights = [row[f"{kind}_us"] for row in rows]
        bars = scores.bar(np.arange(len(rows)) + 0.28 * (number - 1), heights, 0.28, label=kind)
        scores.bar_label(bars, [plain(height, 3) for height in heights], fontsize=6, padding=1)
    names = [f"{row['graph']}\n{plain(row['pairs'])} at once" for row in rows]
    scores.set_xticks(range(len(rows)), names, fontsize=7, rotation=30)
    scores.set(yscale="log", ylabel="us a scored pair")
    scores.margins(y=0.15)
    scores.legend(fontsize=8)
    _grouped_bars(updates, result["updates"], "batch", "times_as_long")
    updates.axhline(1, color="black", lw=0.8, ls=":")
    updates.set_ylabel("an update with times, times as long")
    updates.set_ylim(0, 1.35 * max(row["times_as_long"] for row in result["updates"]))
    updates.legend(fontsize=8, loc="upper right", ncol=2)
    return picture


def _recommend(result: Result) -> Any:
    """Recall of both scores, a group for each graph."""
    picture, axes = panels(1, 1, 7.5, 3.2)
    axis, rows = axes[0][0], result["rows"]
    graphs = list(dict.fromkeys(row["graph"] for row in rows))
    for number, links in enumerate(dict.fromkeys(row["links"] for row in rows)):
        here = [row for row in rows if row["links"] == links]
        places = [graphs.index(row["graph"]) + 0.4 * number - 0.2 for row in here]
        bars = axis.bar(places, [row["recall"] for row in here], 0.4, color=SHADES[2 - number], label=links)
        axis.bar_label(bars, fmt="%.3f", fontsize=8)
    axis.axhline(0.95, color="black", lw=0.8, ls=":")
    axis.set_ylim(0, 1.3)
    axis.set_xticks(range(len(graphs)), graphs, fontsize=8)
    axis.set_ylabel(f"recall at {result['k']}")
    axis.legend(fontsize=8, ncols=2)
    return picture


def _engines(result: Result) -> Any:
    """How long an update takes compared with the other build."""
    rows = result["rows"]
    picture, axes = panels(1, 1, 7.5, 3.6)
    axis = axes[0][0]
    _grouped_bars(axis, rows, "events", "ratio")
    axis.axhline(1, color="black", lw=0.8, ls=":")
    axis.set_ylabel("time, compiled at run time = 1")
    _legend_below(picture, axis)
    return picture


def _reads(result: Result) -> Any:
    """Microseconds a vector of both builds."""
    picture, axes = panels(1, 1, 7.5, 3.2)
    axis, rows = axes[0][0], result["rows"]
    builds = {"compiled at run time": "other_us", "ahead of time": "this_us"}
    for number, (label, field) in enumerate(builds.items()):
        places = [at + 0.4 * number - 0.2 for at in range(len(rows))]
        bars = axis.bar(places, [row[field] for row in rows], 0.4, color=SHADES[2 - number], label=label)
        axis.bar_label(bars, fmt="%.2g", fontsize=8)
    axis.set_xticks(range(len(rows)), [f"{row['graph']}\n{row['features']}" for row in rows], fontsize=8)
    axis.set_ylabel("us a vector, 10,000 at once")
    axis.legend(fontsize=8)
    return picture


def _service(result: Result) -> Any:
    """Reads a second, ours and bare, quiet and beside events."""
    picture, axes = panels(1, 1, 6.0, 3.2)
    axis, rounds = axes[0][0], result["rounds"]
    for number, (name, about) in enumerate(
        {"reads_a_second": "the service", "bare_a_second": "a bare route"}.items()
    ):
        places = [at + 0.38 * number for at in range(len(rounds))]
        axis.bar(places, [row[name] for row in rounds], 0.36, label=about)
    axis.set_xticks([at + 0.19 for at in range(len(rounds))], [row["while"] for row in rounds])
    axis.set_ylabel("reads a second")
    axis.margins(y=0.3)
    axis.legend(frameon=False, loc="upper center", ncols=2)
    return picture


def _start(result: Result) -> Any:
    """Processor seconds as bars, a group for each command, those of the first time as marks."""
    picture, axes = panels(1, 1, 7.5, 3.6)
    axis, rows = axes[0][0], result["rows"]
    names = list(dict.fromkeys(row["name"] for row in rows))
    environments = list(dict.fromkeys(row["environment"] for row in rows))
    height = 0.8 / len(environments)
    for number, environment in enumerate(environments):
        here = [row for row in rows if row["environment"] == environment]
        places = [names.index(row["name"]) + height * (number + 0.5) - 0.4 for row in here]
        shade = SHADES[(2 - number) % len(SHADES)]
        median, first = ([row[name] for row in here] for name in ("cpu_seconds", "first_cpu_seconds"))
        axis.barh(places, median, height, color=shade, label=environment)
        for seconds, end, place in zip(median, map(max, median, first), places, strict=True):
            beyond = {"xytext": (8, 0), "textcoords": "offset points"}
            axis.annotate(f"{seconds:.2g}", (end, place), va="center", fontsize=8, **beyond)
        label = "the first time" if number == 0 else None
        axis.plot(first, places, "|", color="tab:red", ms=9, mew=2, label=label)
    axis.set(xscale="log", xlabel="processor seconds")
    axis.set_yticks(range(len(names)), names)
    axis.invert_yaxis()
    axis.margins(x=0.15)
    _legend_below(picture, axis)
    return picture
