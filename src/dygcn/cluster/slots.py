"""Ownership: every node belongs to one of 4,096 slots, and every slot to one shard."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dygcn.engine.events.keys import keys_of
from dygcn.engine.records import IdColumn, Int16
from dygcn.errors import OptionError

SLOTS = 4_096
MOST_SHARDS = 1_024
_SHIFT = np.uint64(64 - 12)


@dataclass(frozen=True, slots=True)
class SlotMap:
    """The shard that owns each slot."""

    owner: Int16  # (SLOTS,)

    @classmethod
    def even(cls, shards: int) -> SlotMap:
        """Divide the slots evenly among shards."""
        check_shards(shards)
        return cls((np.arange(SLOTS) * shards // SLOTS).astype(np.int16))

    def owners(self, ids: IdColumn) -> Int16:
        """Return the shard that owns each id."""
        owners: Int16 = self.owner[keys_of(ids) >> _SHIFT]  # the high bits of public keys
        return owners

    def moved(self, slots: list[int], to: int) -> SlotMap:
        """Return the map after slots moved to a shard."""
        owner = self.owner.copy()
        owner[slots] = to
        return SlotMap(owner)


def check_shards(shards: object) -> None:
    """Raise `OptionError` unless this is a number of shards."""
    if type(shards) is not int or not 1 <= shards <= MOST_SHARDS:
        raise OptionError(f"shards is {shards!r}; allowed is a whole number from 1 to {MOST_SHARDS}")
