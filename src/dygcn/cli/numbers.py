"""Numbers as text, for commands and pages."""

from __future__ import annotations

from typing import Any


def plain(item: Any, digits: int = 4) -> str:
    """Return a value as text for people, with `digits` digits and separated thousands.

    Examples
    --------
    >>> plain(1234567), plain(12.34567), plain(12345.67), plain(True), plain("x")
    ('1,234,567', '12.35', '12,346', 'yes', 'x')
    """
    if isinstance(item, bool) or item is None:
        return {True: "yes", False: "no", None: "none"}[item]
    if isinstance(item, float):
        return f"{item:,.0f}" if abs(item) >= 1000 else f"{item:.{digits}g}"
    return f"{item:,}" if isinstance(item, int) else str(item)
