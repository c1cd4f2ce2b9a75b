"""Results as tables, for a terminal and for a page alike; `tables.toml` has their columns."""

from __future__ import annotations

import importlib.resources
from collections.abc import Iterable
from functools import cache
from typing import Any

import msgspec

from dygcn.cli.printing import plain
from dygcn_lab.costs.results import Result
from dygcn_lab.report.tables import Table, Value

DIGITS = 3
_RIVAL = [
    *("rival", "state us", "cheaper from a batch of", "vectors us"),
    "cheaper from a batch of, vectors",
]


class _Columns(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which rows of a result a table has, and their fields with the heads of columns."""

    rows: str
    columns: dict[str, str]
    caption: str = ""


@cache
def _specs() -> dict[str, list[_Columns]]:
    text = (importlib.resources.files("dygcn_lab.costs") / "tables.toml").read_text(encoding="utf-8")
    return msgspec.toml.decode(text, type=dict[str, list[_Columns]])


def tables_of(result: Result) -> list[Table]:
    """Return the tables of a result."""
    special = {"update": _update, "crossover": _crossover}
    if result["kind"] in special:
        return special[result["kind"]](result, _specs()[result["kind"]][0].columns)
    return [
        _rows(one.caption.format_map(result), _with_parts(one, result), _found(one.rows, result))
        for one in _specs()[result["kind"]]
        if one.rows in result
    ]


def _found(name: str, result: Result) -> Iterable[dict[str, Any]]:
    """Return rows; those of events and of churn are no list, and bytes by part lie one level deeper."""
    rows = result[name]
    if name == "churn":
        return [rows]
    if name == "events":
        asked = {"asked_a_second": rows["asked_a_second"]}
        both = {"nobody reads": rows["alone"], "wrk reads": rows["with_reads"]}
        return [{"while": what} | asked | figures for what, figures in both.items()]
    return [{**row, **{f"{part}_bytes": size for part, size in row.get("parts", {}).items()}} for row in rows]


def _with_parts(one: _Columns, result: Result) -> dict[str, str]:
    rows = result[one.rows] if one.rows == "rows" else ()
    parts = dict.fromkeys(part for row in rows for part in row.get("parts", {}))
    return one.columns | {f"{part}_bytes": part for part in parts}


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
    cells: list[list[str | Value]] = [[_text(name, row.get(name, 0)) for name in columns] for row in rows]
    return Table(caption, list(columns.values()), cells)


def _text(name: str, value: Any) -> str:
    return size_text(value) if name.endswith("_bytes") else plain(value, DIGITS)


def _caption(graph: dict[str, Any], result: Result) -> str:
    about = {**result, **graph}
    size = f"{plain(graph['nodes'])} nodes, {plain(graph['edges'])} edges"
    return f"{graph['graph']}: {size}, width {about['width']}, {result['orders']} orders"


def _update(result: Result, columns: dict[str, str]) -> list[Table]:
    tables = [
        _rows(
            f"{_caption(graph, result)}, a recompute takes {plain(graph['recompute_seconds'], DIGITS)} s",
            columns,
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


def _crossover(result: Result, columns: dict[str, str]) -> list[Table]:
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
        tables += [Table(caption, _RIVAL, rivals), _rows("", columns, graph["batches"])]
    return tables


def batch_text(batch: float | None, most: int) -> str:
    """Return from which batch on a rival is cheaper.

    Examples
    --------
    >>> batch_text(1234.5, 10_000), batch_text(None, 10_000)
    ('1,230', 'never up to 10,000')
    """
    if batch is None:
        return f"never up to {plain(most)}"
    return plain(int(float(f"{batch:.{DIGITS}g}")))
