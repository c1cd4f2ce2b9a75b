"""Files of results: what the commands of `dygcn bench` printed as JSON, one object each."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from dygcn.errors import DygcnError, OptionError

Result: TypeAlias = dict[str, Any]
"""What one command measured."""
ONCE = "engines", "reads"
"""Kinds that no command measures any more: beside the last build whose loops were compiled at run time."""
KINDS = (
    *("update", "crossover", "scale", "memory", "tolerance", "threads", "base", "kinds", "score"),
    *("recommend", *ONCE, "service", "start"),
)


def command_of(kind: str) -> str:
    """Return the command that measures a kind, or nothing."""
    return "" if kind in ONCE else f"dygcn bench {kind} --json"


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
    """Return the measurements of a result as flat rows."""
    rows: list[dict[str, Any]]
    if result["kind"] == "crossover":
        return [{"graph": graph["graph"], **rival} for graph in result["graphs"] for rival in graph["rivals"]]
    rows = result["batches" if result["kind"] == "update" else "rows"]
    return [*rows, *result.get("services", ()), *([result["churn"]] if "churn" in result else [])]
