"""The table of ``docs/datasets.md``, written from the registry so that the two cannot drift apart."""

from __future__ import annotations

from dygcn.datasets.loading import LAB, OWN
from dygcn.datasets.registry import DatasetInfo, registry

_HEAD = ("name", "what", "nodes", "events", "removals", "labels", "publisher", "terms", "shipped")
_RULE = ("---", "---", "---:", "---:", "---:", "---", "---", "---", "---")


def docs_table() -> str:
    """Return the table of all sets."""
    rows = [_HEAD, _RULE, *(_row(about) for about in registry().values())]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def _row(about: DatasetInfo) -> tuple[str, ...]:
    return (
        f"`{about.name}`",
        about.what,
        f"{about.nodes:,}",
        f"{about.events:,}",
        f"{about.deletions:,}" if about.deletions else "-",
        ", ".join(f"`{label}`" for label in about.labels) or "-",
        f"[{about.publisher}]({about.address})",
        about.terms,
        {"": "no", OWN: "dygcn", LAB: "dygcn-lab"}[about.ships_in],
    )
