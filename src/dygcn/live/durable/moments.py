"""What a user may mean by a moment in the past: a sequence, or a time."""

from __future__ import annotations

import math
import re
from datetime import datetime
from typing import TypeAlias

import numpy as np

from dygcn.errors import OptionError
from dygcn.live.durable.storage import times

AsOf: TypeAlias = int | float | str | datetime
"""A sequence; seconds since 1970; a datetime with a zone; or either as text, the time in ISO 8601."""
_DATE = "[1-9][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_TIME = r"([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,6})?)?"
_ZONE = "(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
MOMENT_PATTERN = rf"now|[0-9]{{1,18}}(\.[0-9]{{0,9}})?|{_DATE}(T{_TIME})?{_ZONE}"
_ALLOWED = (
    "allowed is a sequence (a whole number, 0 or more), or a time: a datetime with a zone, seconds since "
    "1970 as a float, or text such as '2026-11-10T12:00Z' or 'now'"
)


def read_moment(as_of: object) -> tuple[int | None, int | None]:
    """Return a sequence or a time in microseconds; the other one is None, and both for now.

    Now is whatever the log holds, also where the machine's clock was set back since.

    Examples
    --------
    >>> read_moment(17), read_moment("17"), read_moment("1970-01-01T00:00:01Z"), read_moment(1.5)
    ((17, None), (17, None), (None, 1000000), (None, 1500000))
    """
    if isinstance(as_of, str):
        if as_of.strip() == "now":
            return None, None
        as_of = _from_text(as_of.strip())
    if isinstance(as_of, int | np.integer) and not isinstance(as_of, bool) and 0 <= as_of < 1 << 62:
        return int(as_of), None
    if isinstance(as_of, float | np.floating) and math.isfinite(as_of):
        return None, math.floor(float(as_of) * 1e6)
    if isinstance(as_of, datetime):
        if as_of.utcoffset() is None:
            raise OptionError(f"as_of is {as_of.isoformat()}, which names no time zone; {_zoned(as_of)}")
        return None, times.from_datetime(as_of)
    raise OptionError(f"as_of is {as_of!r}; {_ALLOWED}")


def _zoned(moment: datetime) -> str:
    """Say how the same moment is written with a zone."""
    text, here = moment.isoformat(), moment.astimezone().strftime("%z")
    return f"say which: '{text}Z' for UTC, or '{text}{here[:3]}:{here[3:5]}' for the zone of this machine"


def _from_text(text: str) -> int | float | datetime:
    if re.fullmatch(f"{_DATE}{_ZONE}", text):
        text = f"{text[:10]}T00:00{text[10:]}"
    if re.fullmatch("[0-9]{1,18}", text):
        return int(text)
    try:
        return float(text) if re.fullmatch(r"[0-9]{1,18}\.[0-9]{0,9}", text) else datetime.fromisoformat(text)
    except ValueError:
        raise OptionError(f"as_of is {text[:100]!r}; {_ALLOWED}") from None
