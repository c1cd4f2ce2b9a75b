"""Pictures made of panels, all of one look. Needs matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dygcn._extras import extra

PANEL = (4.6, 3.9)  # inches
OURS, OTHERS = "tab:blue", "#b9c3cf"


def panels(rows: int, columns: int, width: float = PANEL[0], height: float = PANEL[1]) -> tuple[Any, Any]:
    """Return an empty picture and its axes, (rows, columns)."""
    with extra("plot"):
        from matplotlib.figure import Figure  # noqa: PLC0415
    picture = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return picture, picture.subplots(rows, columns, squeeze=False)


def white_edge() -> list[Any]:
    """Return what makes text readable on top of lines."""
    with extra("plot"):
        from matplotlib.patheffects import withStroke  # noqa: PLC0415
    return [withStroke(linewidth=2.5, foreground="white")]


def save(picture: Any, file: Path) -> None:
    """Write a picture as PNG."""
    picture.savefig(file, dpi=110, bbox_inches="tight")


def check() -> None:
    """Fail now, and not after hours of work, where pictures cannot be drawn."""
    panels(1, 1)
