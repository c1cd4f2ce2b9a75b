"""When an entry was logged: microseconds since 1970 that never go back, sealed to the entry.

The chain of the log does not cover times: two copies of a log that are given the same events have the same
chain values, whenever that was. A seal of its own ties each time to its entry.
"""

from __future__ import annotations

import hashlib
import time
from datetime import UTC, datetime, timedelta

_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = 253_402_300_799_999_999  # the last microsecond of the year 9999


def clock() -> int:
    """Return the time of the machine, in microseconds since 1970."""
    return time.time_ns() // 1000


def seal(chain: bytes, logged: int) -> bytes:
    """Return the checksum of the time of an entry, whose chain value says which entry it is."""
    data = chain + logged.to_bytes(8, "big", signed=True)
    return hashlib.blake2b(data, digest_size=8, person=b"dygcn time").digest()


def is_time(logged: object) -> bool:
    """Return whether a value may be the time of an entry."""
    return isinstance(logged, int) and 0 <= logged <= LATEST


def as_datetime(logged: int) -> datetime:
    """Return a time of the log as a datetime in UTC."""
    return _BEGIN + timedelta(microseconds=logged)


def from_datetime(moment: datetime) -> int:
    """Return an aware datetime as a time of the log."""
    return (moment - _BEGIN) // timedelta(microseconds=1)
