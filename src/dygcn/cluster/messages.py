"""What shards tell each other of a batch: changed arcs of mirrored nodes, and first rows of new mirrors."""

from __future__ import annotations

from dataclasses import dataclass

from dygcn.engine.records import IdColumn, Int64


@dataclass(frozen=True, slots=True)
class Forward:
    """What one shard tells another of one batch; empty columns say that there is nothing.

    The node of a change is one that the receiving shard mirrors, and stays mirrored there; the one that it
    aggregates may be any. A row is as of the end of the batch.
    """

    node: IdColumn  # (c,)
    aggregated: IdColumn  # (c,)
    change: Int64  # (c,) of the weight, on the grid
    new: IdColumn  # (r,) nodes that the receiving shard begins to mirror
    degree: Int64  # (r,)
    rows: Int64  # (r, width) sums of order 1

    def __len__(self) -> int:
        return len(self.change) + len(self.degree)
