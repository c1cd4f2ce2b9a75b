"""What the writer and its readers agree on: numbered words, and a list of arrays."""

from __future__ import annotations

import msgspec

from dygcn.live.shared.segments import Place

GENERATION = 0
"""Of the list of arrays; odd while it is written."""
TICK = 1
"""The last whole change of the state."""
LIST_BYTES = 2
"""Of the list of arrays."""
SEQUENCES = 64
"""From here on: the sequence of each of the last ticks, at the tick modulo `KEPT`."""
KEPT = 1024
WORDS = SEQUENCES + KEPT
LIST_ROOM = 1 << 18  # bytes


class Handle(msgspec.Struct, frozen=True):
    """What a process needs to find the rows of another."""

    process: int
    words: Place
    list: Place


class OrderPlaces(msgspec.Struct, frozen=True):
    """The sums of one order."""

    degree: Place
    slot: Place
    narrow: Place
    wide: Place
    stamps: Place
    scale: float
    limit: int


class PulledPlaces(msgspec.Struct, frozen=True):
    """What readers add to the sums of the last order: arcs, and messages of heavy nodes, now and before."""

    arcs: list[Place]
    slot: Place
    rows: Place
    has: Place
    earlier: list[Place]
    stamps: Place
    shift: int


class UnitPlaces(msgspec.Struct, frozen=True):
    """Where features are looked up, or how they are drawn."""

    hashed: bool
    seed: int
    hashes: Place
    slots: Place
    rows: Place
    secret: Place


class ArrayList(msgspec.Struct, frozen=True):
    """Every array that a vector is read from, and the numbers of the model."""

    kind: str
    seed: int
    floor: float
    dim: int
    mixed: bool
    message_shift: int
    weights: list[Place]
    scales: Place
    secret: Place
    units: UnitPlaces
    ids: dict[str, Place]
    active: Place
    stamps: Place
    orders: list[OrderPlaces]
    pulled: PulledPlaces | None
