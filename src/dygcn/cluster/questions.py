"""What is asked of a shard, and what it answers.

A question names the batch that its answer must reflect at least; the answer names the one that it reflects.
A shard that is not so far, or still recovers, has no answer yet.
"""

from __future__ import annotations

from dataclasses import dataclass

from dygcn.engine.records import Float32, IdColumn, Int8


@dataclass(frozen=True, slots=True)
class AskOutcome:
    """What a batch did to own nodes."""

    at: int


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """What a batch did to the own nodes of a shard."""

    position: int
    known: bool  # False: a successor replayed the batch, and any own node may have moved
    moved: IdColumn
    orders: Int8
    rows: int
    left: IdColumn
    unchanged: int
    missing: int
    loops: int


@dataclass(frozen=True, slots=True)
class AskVectors:
    """The vectors of own nodes."""

    at: int
    ids: IdColumn


@dataclass(frozen=True, slots=True)
class Vectors:
    """The vectors of those that are in the graph, in the order asked."""

    position: int
    here: Int8  # for each id
    vectors: Float32  # of those that are here
