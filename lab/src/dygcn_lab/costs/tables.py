"""Results as tables, for a terminal and for a page alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dygcn.cli.printing import plain
from dygcn_lab.report.tables import Table, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dygcn_lab.costs.results import Result

DIGITS = 3
_BATCH = {
    "events": "batch",
    "median_us": "median us",
    "p99_us": "p99 us",
    "bare_us": "bare us",
    "times_bare": "times bare",
}
_COUNTS = {
    "rows_per_event": "rows per event",
    "additions_per_event": "additions per event",
    "vectors_per_event": "vectors per event",
}
UPDATE = {
    **_BATCH,
    "events_per_second": "events per second",
    **_COUNTS,
    "vectors_of_a_rerun": "N for a rerun",
    "times_cheaper_than_recompute": "times cheaper than recompute",
}
CROSSOVER = {
    "events": "batch",
    "update_us": "our update us",
    "update_and_vectors_us": "with vectors us",
    "vectors_moved": "vectors moved",
}
_RIVAL = [
    "rival",
    "state us",
    "cheaper from a batch of",
    "vectors us",
    "cheaper from a batch of, vectors",
]
SCALE = {
    "nodes": "nodes",
    "edges": "edges",
    "rows_of_a_single_edge": "rows of a single edge",
    **_BATCH,
    **_COUNTS,
    "peak_bytes": "peak memory",
}
MEMORY = {
    "graph": "graph",
    "nodes": "nodes",
    "edges": "edges",
    "width": "width",
    "predicted_bytes": "predicted",
    "measured_bytes": "measured",
    "peak_bytes": "peak of the process",
    "bytes_per_node": "bytes a node",
    "bytes_per_edge": "bytes an edge",
}
TOLERANCE = {
    "graph": "graph",
    "model": "model",
    "tolerance": "tolerance",
    "rows_per_event": "rows an event",
    "times_fewer_rows": "times fewer rows",
    "error": "error",
    "worst": "worst error",
    "bound": "greatest bound",
    "within_bound": "within the bound",
    "recall": "recall at 10",
    "same_bits": "same bits when flushed",
}
CHURN = {
    "events": "events",
    "ids_seen": "ids seen",
    "nodes": "nodes at the end",
    "begun_bytes": "after the first tenth",
    "grown_bytes": "growth from there",
}
THREADS = {
    "graph": "graph",
    "batch": "batch",
    "one_us": "one thread us",
    "two_us": "two threads us",
    "times_faster": "times faster",
    "events_per_second": "events per second on two",
    "bare_times_faster": "bare additions, times faster",
    "same_bits": "same bits",
}
BASE = {
    "graph": "graph",
    "nodes": "nodes",
    "edges": "edges",
    "rank": "rank",
    "budget_bytes": "budget",
    "window": "steps of walks",
    "core": "nodes factorised",
    "seconds": "seconds",
    "cpu_seconds": "processor seconds",
    "before_bytes": "process before",
    "grown_bytes": "growth to the peak",
    "result_bytes": "of it the rows",
}

KINDS = {
    "graph": "graph",
    "features": "features",
    "sums_bytes": "sums, a node",
    "table_bytes": "rows of the model, a node",
    "rows_a_single_edge": "rows, a single edge",
    "single_us": "single edge us",
    "batch_us_an_event": "us an event, batches of 1,000",
    "read_us": "us a vector, read alone",
    "read_many_us": "us a vector, 400 at once",
}
FITS = {
    "graph": "graph",
    "features": "features",
    "nodes": "nodes",
    "edges": "edges",
    "window": "steps of walks",
    "seconds": "seconds",
    "cpu_seconds": "processor seconds",
    "before_bytes": "process before",
    "peak_bytes": "process at the peak",
}
SCORE = {
    "graph": "graph",
    "nodes": "nodes",
    "edges": "edges",
    "pairs": "pairs at once",
    "cosine_us": "cosine, us a pair",
    "new_us": "new, us a pair",
    "next_us": "next, us a pair",
    "times_new": "new, times the cosine",
    "times_next": "next, times the cosine",
}
SCORE_UPDATES = {
    "graph": "graph",
    "batch": "batch",
    "with_us": "with times us",
    "without_us": "without us",
    "times_as_long": "times as long",
    "times_of_a_copy": "its copy, times as long",
}
SCORE_BYTES = {
    "graph": "graph",
    "arcs_with": "arcs, bytes an edge",
    "arcs_without": "without pair state",
    "pair_state": "pair state",
    "activity": "activity, bytes a node",
    "numbers": "numbers in a head",
}
RECOMMEND = {
    "graph": "graph",
    "nodes": "nodes",
    "edges": "edges",
    "links": "score",
    "asked": "nodes asked for",
    "recall": "recall",
    "least_recall": "least recall of a node",
    "recommend_ms": "recommend, ms",
    "everyone_ms": "scoring everyone, ms",
    "times_faster": "times faster",
}
ENGINES = {
    "graph": "graph",
    "width": "width",
    "events": "batch",
    "other_us": "compiled at run time us",
    "this_us": "ahead of time us",
    "ratio": "ratio",
    "ratio_avx2": "ratio, AVX2",
    "ratio_baseline": "ratio, baseline",
    "other_times_bare": "run time, times bare",
    "times_bare": "ahead of time, times bare",
}
READS = {
    "graph": "graph",
    "features": "features",
    "width": "width",
    "dim": "dim",
    "vectors": "vectors",
    "other_us": "compiled at run time, us a vector",
    "this_us": "ahead of time, us a vector",
    "ratio": "ratio",
}
SERVICE = {
    "while": "while",
    "reads_a_second": "reads a second",
    "bare_a_second": "bare route, a second",
    "ratio": "ratio",
    "cpu_us": "processor time, us a read",
    "bare_cpu_us": "bare route, us a read",
    "p99_ms": "p99, ms",
    "bare_p99_ms": "bare route, p99, ms",
}
SERVICE_WAITS = {
    "beside": "beside",
    "reads": "reads",
    "p50_ms": "p50, ms",
    "p99_ms": "p99, ms",
    "times_quiet": "times quiet",
}
SERVICE_EVENTS = {
    "while": "while",
    "asked_a_second": "events a second, asked",
    "events_a_second": "events a second, held",
    "refused": "refused requests",
    "p50_ms": "p50, ms",
    "p99_ms": "p99, ms",
}
LIFECYCLE = {
    "state": "SIGTERM",
    "ready_seconds": "start to ready, s",
    "first_read_seconds": "first read, s",
    "first_write_seconds": "first write, s",
    "first_nearest_seconds": "first nearest, s",
    "pending": "nodes not in the index then",
    "exit_seconds": "SIGTERM to exit, s",
    "exit_code": "exit code",
}
START = {
    "environment": "environment",
    "name": "started",
    "cpu_seconds": "processor seconds",
    "seconds": "seconds",
    "first_cpu_seconds": "processor seconds, the first time",
}
SERVICES = {
    "environment": "environment",
    "graph": "graph",
    "nodes": "nodes",
    "edges": "edges",
    "ready_seconds": "seconds until it answers",
    "ready_cpu_seconds": "of it processor seconds",
    "first_seconds": "first write, s",
    "second_seconds": "second, s",
    "hundredth_seconds": "hundredth, s",
    "times_hundredth": "first over hundredth",
}


def tables_of(result: Result) -> list[Table]:
    """Return the tables of a result."""
    makers: dict[str, Callable[[Result], list[Table]]] = {
        "update": _update,
        "crossover": _crossover,
        "scale": lambda found: [_rows(_setting(found, found["orders"]), SCALE, found["rows"])],
        "memory": _memory,
        "tolerance": lambda found: [
            _rows(f"{plain(found['events'])} single events", TOLERANCE, found["rows"])
        ],
        "threads": lambda found: [_rows("", THREADS, found["rows"])],
        "base": lambda found: [_rows("", BASE, found["rows"])],
        "kinds": lambda found: [
            _rows("", KINDS, found["rows"]),
            _rows("A whole fit, the score of links included", FITS, found["fits"]),
        ],
        "score": lambda found: [
            _rows("Scores", SCORE, found["rows"]),
            _rows("An update", SCORE_UPDATES, found["updates"]),
            _rows("Bytes", SCORE_BYTES, found["bytes"]),
        ],
        "recommend": lambda found: [_rows(f"Recall at {found['k']}", RECOMMEND, found["rows"])],
        "engines": lambda found: [_rows("", ENGINES, found["rows"])],
        "reads": lambda found: [_rows("", READS, found["rows"])],
        "service": lambda found: [
            _rows("Reads of one vector by wrk, 16 connections", SERVICE, found["rounds"]),
            _rows("One client, a hundred reads a second", SERVICE_WAITS, found["waits"]),
            _rows("Events", SERVICE_EVENTS, _of_events(found["events"])),
            _rows("Beginning and end", LIFECYCLE, found["lifecycle"]),
        ],
        "start": lambda found: [
            _rows("Commands", START, found["rows"]),
            _rows("A service", SERVICES, found["services"]),
        ],
    }
    return makers[result["kind"]](result)


def _of_events(events: dict[str, Any]) -> list[dict[str, Any]]:
    asked = {"asked_a_second": events["asked_a_second"]}
    return [
        {"while": "nobody reads", **asked, **events["alone"]},
        {"while": "wrk reads", **asked, **events["with_reads"]},
    ]


def size_text(count: float) -> str:
    """Write bytes for people.

    Examples
    --------
    >>> size_text(2_345_000_000), size_text(12)
    ('2.35 GB', '12 B')
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if abs(count) >= size:
            return f"{count / size:.{DIGITS}g} {unit}"
    return f"{count} B"


def _rows(caption: str, columns: dict[str, str], rows: Iterable[dict[str, Any]]) -> Table:
    cells: list[list[str | Value]] = [[_text(name, row[name]) for name in columns] for row in rows]
    return Table(caption, list(columns.values()), cells)


def _text(name: str, value: Any) -> str:
    return size_text(value) if name.endswith("_bytes") else plain(value, DIGITS)


def _setting(found: dict[str, Any], orders: int) -> str:
    return f"width {found['width']}, {orders} orders"


def _caption(graph: dict[str, Any], result: Result) -> str:
    size = f"{plain(graph['nodes'])} nodes, {plain(graph['edges'])} edges"
    return f"{graph['graph']}: {size}, {_setting({**result, **graph}, result['orders'])}"


def _update(result: Result) -> list[Table]:
    tables = [
        _rows(
            f"{_caption(graph, result)}, a recompute takes {plain(graph['recompute_seconds'], DIGITS)} s",
            UPDATE,
            (batch for batch in result["batches"] if _of(batch) == _of(graph)),
        )
        for graph in result["graphs"]
    ]
    return [*tables, _stages(result)] if any(graph.get("stages") for graph in result["graphs"]) else tables


def _stages(result: Result) -> Table:
    """Where the time of batches goes, a row for each that is large enough to be taken apart."""
    found = [each for graph in result["graphs"] for each in graph.get("stages", ())]
    names = list(dict.fromkeys(name for each in found for name in each["stages"]))
    rows: list[list[str | Value]] = [
        [each["graph"], plain(each["width"]), plain(each["events"])]
        + [plain(each["stages"][name], DIGITS) if name in each["stages"] else "" for name in names]
        for each in found
    ]
    return Table("Where the time of a batch goes, us", ["graph", "width", "batch", *names], rows)


def _of(row: dict[str, Any]) -> tuple[str, int]:
    return row["graph"], row["width"]


def _crossover(result: Result) -> list[Table]:
    tables = []
    for graph in result["graphs"]:
        most = graph["batches"][-1]["events"]
        rivals: list[list[str | Value]] = [
            [
                rival["name"],
                plain(rival["state_us"], DIGITS),
                batch_text(rival["cheaper_from_batch"], most),
                plain(rival["vectors_us"], DIGITS),
                batch_text(rival["cheaper_from_batch_with_vectors"], most),
            ]
            for rival in graph["rivals"]
        ]
        caption = f"{_caption(graph, result)}, dim {result['dim']}, others on {result['workers']} cores"
        tables.append(Table(caption, _RIVAL, rivals))
        tables.append(_rows("", CROSSOVER, graph["batches"]))
    return tables


def batch_text(batch: float | None, most: int) -> str:
    """Say from which batch on a rival is cheaper.

    Examples
    --------
    >>> batch_text(1234.5, 10_000), batch_text(None, 10_000)
    ('1,230', 'never up to 10,000')
    """
    if batch is None:
        return f"never up to {plain(most)}"
    return plain(int(float(f"{batch:.{DIGITS}g}")))


def _memory(result: Result) -> list[Table]:
    names = list(dict.fromkeys(name for row in result["rows"] for name in row["parts"]))
    columns = {**MEMORY, **{f"{name}_bytes": name for name in names}}
    rows = (
        {**row, **{f"{name}_bytes": row["parts"].get(name, 0) for name in names}} for row in result["rows"]
    )
    churn = [_rows("Ids that come and go", CHURN, [result["churn"]])] if "churn" in result else []
    return [_rows("", columns, rows), *churn]
