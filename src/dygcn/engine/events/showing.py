"""How errors show what a user passed: at most ten items, and a line of text."""

from __future__ import annotations

import itertools
import reprlib
from collections.abc import Iterable

MOST_ITEMS, MOST_CHARACTERS = 10, 120
_SHORT = reprlib.Repr()
_SHORT.maxlevel = 3
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = _SHORT.maxset = _SHORT.maxfrozenset = MOST_ITEMS
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = MOST_CHARACTERS


def shown(value: object) -> str:
    """Return the repr of any value, on one line and never long."""
    try:
        text = " ".join(_SHORT.repr(value).split())
    except Exception:  # a repr of somebody else's, or an int of too many digits
        text = f"<{type(value).__name__}>"
    if len(text) <= MOST_CHARACTERS:
        return text
    return f"{text[: MOST_CHARACTERS // 2]}...{text[-MOST_CHARACTERS // 3 :]}"


def listed(names: Iterable[object]) -> str:
    """Return names one after the other, the first ten of them."""
    rest = iter(names)
    first = [str(name) for name in itertools.islice(rest, MOST_ITEMS)]
    more = sum(1 for _ in rest)
    text = ", ".join(name if len(name) <= 40 else f"{name[:37]}..." for name in first)
    return f"{text} and {more} more" if more else text
