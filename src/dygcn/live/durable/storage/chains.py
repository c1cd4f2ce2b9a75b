"""The chain values of a log's last entries, in memory: the file forgets entries that a snapshot holds."""

from __future__ import annotations

import threading

MOST_CHAINS = 1 << 20  # 16 MB; at a thousand commits a second the last 17 minutes
_SIZE = 16


class Chains:
    """Chain values of sequences that follow each other; the oldest are forgotten first.

    It has a lock of its own: readers must not wait for the log, which holds its lock while the disk syncs.

    Examples
    --------
    >>> chains = Chains()
    >>> chains.note(7, b"7" * 16)
    >>> chains.note(8, b"8" * 16)
    >>> chains.at(8), chains.at(6)
    (b'8888888888888888', None)
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # an interrupt at the end of a `with` leaves it locked
        self._first = 0
        self._values = bytearray()

    def note(self, sequence: int, chain: bytes) -> None:
        """Remember the chain value of a sequence; one behind a gap begins the record anew."""
        with self._lock:
            following = self._first + len(self._values) // _SIZE
            if sequence < following and self._values:
                return
            if sequence > following or not self._values:
                self._first, self._values = sequence, bytearray()
            self._values += chain
            if len(self._values) > MOST_CHAINS * _SIZE:
                del self._values[:_SIZE]
                self._first += 1

    def at(self, sequence: int) -> bytes | None:
        """Return the chain value of a sequence, None if it is not remembered."""
        with self._lock:
            start = (sequence - self._first) * _SIZE
            known = 0 <= start < len(self._values)
            return bytes(self._values[start : start + _SIZE]) if known else None
