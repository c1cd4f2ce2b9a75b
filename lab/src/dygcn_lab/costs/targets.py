"""What updates were target to cost (`targets.toml`), beside what was found."""

from __future__ import annotations

import importlib.resources
import math
from typing import TYPE_CHECKING, Any

import msgspec

from dygcn.cli.printing import plain
from dygcn_lab.costs.results import rows_of
from dygcn_lab.report.tables import Table, Value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dygcn_lab.costs.results import Result

DIGITS = 3


class Target(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One thing that was target; `targets.toml` says what the fields mean."""

    says: str
    kind: str
    field: str
    where: dict[str, Any] = {}
    most: float | None = None
    least: float | None = None
    across: bool = False

    @property
    def sentence(self) -> str:
        """What was target, with its number."""
        limit = self.least if self.most is None else self.most
        return self.says.format(limit=plain(limit, DIGITS))

    def reached(self, value: float) -> bool:
        """Say whether a number is within what was target."""
        return (self.most is None or value <= self.most) and (self.least is None or value >= self.least)

    def values(self, result: Result) -> dict[str, float]:
        """Return what was found, by the name of the row."""
        rows = [row for row in rows_of(result) if self.field.split(" / ")[0] in row]
        rows = [row for row in rows if all(_is(row, *wanted) for wanted in self.where.items())]
        found = {_label(row, self.where): _number(row, self.field) for row in rows}
        if self.across and found:
            low, high = min(found, key=lambda name: found[name]), max(found, key=lambda name: found[name])
            return {f"{high} over {low}": found[high] / found[low]}
        return found


def read_asked() -> list[Target]:
    """Return everything that was target."""
    text = (importlib.resources.files("dygcn_lab.costs") / "targets.toml").read_text(encoding="utf-8")
    return msgspec.toml.decode(text, type=dict[str, list[Target]])["target"]


def asked_table(target: Sequence[Target], results: Mapping[str, Result]) -> Table:
    """Return what was target, what was found, and whether it holds.

    Examples
    --------
    >>> wish = Target("at most {limit} times the bare additions", "update", "times_bare", most=2)
    >>> rows = [{"graph": "g", "events": 1000, "times_bare": 1.5}]
    >>> asked_table([wish], {"update": {"kind": "update", "batches": rows}}).rows
    [['at most 2 times the bare additions', 'g, batch of 1,000: 1.5', 'yes']]
    """
    rows: list[list[str | Value]] = []
    for each in target:
        found = each.values(results[each.kind]) if each.kind in results else {}
        said = "; ".join(f"{name}: {_said(value)}" for name, value in found.items())
        holds = "yes" if all(map(each.reached, found.values())) else "no"
        rows.append([each.sentence, said, holds] if found else [each.sentence, "not measured", ""])
    return Table("", ["target", "found", "holds"], rows)


def _is(row: dict[str, Any], name: str, wanted: Any) -> bool:
    return row.get(name) in (wanted if isinstance(wanted, list) else [wanted])


def _number(row: dict[str, Any], field: str) -> float:
    """Return a field, or one divided by another; what never happens is infinite."""
    over, _, under = field.partition(" / ")
    value: float = math.inf if row[over] is None else row[over]
    return value / row[under] if under else value


def _said(value: float) -> str:
    return "never" if math.isinf(value) else plain(value, DIGITS)


def _label(row: dict[str, Any], where: dict[str, Any]) -> str:
    """Name a row by what sets it apart, as far as `where` does not say it."""
    words = [str(row[name]) for name in ("graph", "name") if name in row and _open(name, where)]
    words += [
        f"batch of {plain(row[name])}" for name in ("events", "batch") if name in row and _open(name, where)
    ]
    if "tolerance" in row:
        words.append(f"tolerance {plain(row['tolerance'])}")
    return ", ".join(words) or "found"


def _open(name: str, where: dict[str, Any]) -> bool:
    return name not in where or isinstance(where[name], list)
