"""Files of results: what the commands of `dygcn bench` printed as JSON, one object each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from dygcn.errors import DygcnError, OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

Result: TypeAlias = dict[str, Any]
"""What one command measured."""
KINDS = (
    "update",
    "crossover",
    "scale",
    "memory",
    "tolerance",
    "threads",
    "base",
    "kinds",
    "score",
    "recommend",
    "engines",
    "reads",
    "service",
    "start",
)


def read_results(files: Iterable[Path]) -> dict[str, Result]:
    """Return kind -> result, in the order of `KINDS`."""
    found: dict[str, Result] = {}
    for file in files:
        try:
            result = msgspec.json.decode(file.read_bytes(), type=dict[str, Any])
        except msgspec.MsgspecError as error:
            raise DygcnError(f"{file} is no result of dygcn bench: {error}") from None
        kind = result.get("kind")
        if kind not in KINDS:
            raise DygcnError(f"{file}: kind is {kind!r}; allowed: {', '.join(KINDS)}")
        if kind in found:
            raise OptionError(f"{file} is the second result of the kind {kind}; pass one of each")
        found[kind] = result
    return {kind: found[kind] for kind in KINDS if kind in found}


def rows_of(result: Result) -> list[dict[str, Any]]:
    """Return what a result measured as flat rows.

    Examples
    --------
    >>> rows_of({"kind": "crossover", "graphs": [{"graph": "g", "rivals": [{"name": "r", "state_us": 1.0}]}]})
    [{'graph': 'g', 'name': 'r', 'state_us': 1.0}]
    """
    rows: list[dict[str, Any]]
    if result["kind"] == "crossover":
        return [{"graph": graph["graph"], **rival} for graph in result["graphs"] for rival in graph["rivals"]]
    rows = result["batches" if result["kind"] == "update" else "rows"]
    return [*rows, *result.get("services", ()), *([result["churn"]] if "churn" in result else [])]


def write_result(result: Result, file: Path) -> None:
    """Write a result as a file that people can read, too."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")
