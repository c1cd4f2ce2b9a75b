"""Epochs: the identity of a history, and which of two histories is the newer one."""

from __future__ import annotations

import secrets
import struct
import time
from dataclasses import dataclass

from dygcn.errors import DamagedLog

_FORM = struct.Struct(">Q8s")


@dataclass(frozen=True, slots=True)
class Epoch:
    """A stretch of a log that readers and sinks take for one history.

    Examples
    --------
    >>> first = Epoch.begin()
    >>> second = Epoch.begin(after=first)
    >>> second.generation > first.generation, Epoch.unpack(second.pack()) == second, len(second.id)
    (True, True, 16)
    """

    generation: int  # milliseconds since 1970 when it began; of two epochs the greater one wins
    id: str  # random, 16 hexadecimal digits

    @classmethod
    def begin(cls, after: Epoch | None = None) -> Epoch:
        """Return a new epoch; one that follows another has a greater generation, whatever the clock says."""
        least = 0 if after is None else after.generation + 1
        return cls(max(time.time_ns() // 1_000_000, least), secrets.token_hex(8))

    def pack(self) -> bytes:
        """Return the epoch as 16 bytes."""
        return _FORM.pack(self.generation, bytes.fromhex(self.id))

    @classmethod
    def unpack(cls, packed: bytes) -> Epoch:
        """Read what `pack` returned.

        Raises
        ------
        DamagedLog
            If the bytes are anything else.
        """
        if len(packed) != _FORM.size:
            raise DamagedLog(f"an epoch has {len(packed)} bytes; {_FORM.size} were written")
        generation, identity = _FORM.unpack(packed)
        if generation >= 1 << 63:
            raise DamagedLog(f"an epoch has the generation {generation}, which none can have")
        return cls(generation, identity.hex())
