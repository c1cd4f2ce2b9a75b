"""What loops of one update hand to each other: arrays that are filled by one and read by the next.

None of these grows: a larger one is another object, and a running loop keeps its own.
"""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING, Any

try:
    import cython
except ImportError:
    from dygcn.engine import _native as cython
if not cython.compiled:
    from dygcn.engine._rows import RowBlock
    from dygcn.engine.graph.arcs import ArcArrays

if TYPE_CHECKING:
    from dygcn.engine.records import Int8, Int32, Int64, Nodes, Stored

WorkArrays = namedtuple(
    "WorkArrays",
    "node row factor receivers first sorted_row sorted_factor before after slots movers spans",
)
HandoffArrays = namedtuple("HandoffArrays", "table has nodes row")
MarkArrays = namedtuple("MarkArrays", "place seen own")
ReachArrays = namedtuple("ReachArrays", "nodes orders")


class Work:
    """What `gathering.gather` fills: pushes as they are listed, then sorted by receiver.

    Parameters
    ----------
    node, row, factor
        Of each push: its receiver, the row of the table that is added, what it is taken times.
    receivers, first
        Each receiver once, and where its pushes begin; one more than there are receivers.
    sorted_row, sorted_factor
        Of each push, sorted.
    before, after, slots
        Of each receiver: degrees, and where its row lies.
    movers
        Which receivers have their row in the wrong place for their degree.
    spans
        Where the pushes to each span of the nodes begin, then where they end.
    """

    def __init__(self, *arrays: Any) -> None:
        self.arrays = given = WorkArrays(*arrays)
        self.node, self.row, self.factor = given.node, given.row, given.factor
        self.receivers, self.first, self.spans = given.receivers, given.first, given.spans
        self.sorted_row, self.sorted_factor = given.sorted_row, given.sorted_factor
        self.before, self.after, self.slots, self.movers = (
            given.before,
            given.after,
            given.slots,
            given.movers,
        )

    def __reduce__(self) -> tuple[type[Work], WorkArrays]:
        return Work, self.arrays


class Handoff:
    """What one order hands to the next.

    Parameters
    ----------
    table
        Old messages of the senders of changed arcs, then the changes of messages; no rows: nobody asks.
    has
        For each row of the table: 1 where there is a message; +1, -1 or 0 for a change.
    nodes, row
        Whose message changed, and which row says by how much.
    """

    def __init__(self, table: Stored, has: Int64, nodes: Nodes, row: Int32) -> None:
        self.arrays = HandoffArrays(table, has, nodes, row)
        self.table, self.has, self.nodes, self.row = RowBlock(table), has, nodes, row

    def __reduce__(self) -> tuple[type[Handoff], HandoffArrays]:
        return Handoff, self.arrays


class ArcChanges:
    """The arcs that an update changed, for all orders.

    Parameters
    ----------
    receiver, row, change
        Of each arc: who aggregates, the row of the sender in every table, the change of the weight.
    changed_senders
        The senders, each once; their rows are the first of every table.
    turned
        The arcs weigh what they did, but are pushed where they were pulled, or the other way.
    """

    def __init__(
        self, receiver: Nodes, row: Int32, change: Int64, changed_senders: Nodes, turned: bool = False
    ) -> None:
        self.arrays = receiver, row, change, changed_senders, turned
        self.receiver, self.row, self.change, self.changed_senders = receiver, row, change, changed_senders
        self.turned = turned

    def __reduce__(self) -> tuple[type[ArcChanges], tuple[Nodes, Int32, Int64, Nodes, bool]]:
        return ArcChanges, self.arrays


class Arcs:
    """What all orders of an update share.

    Parameters
    ----------
    changes, count
        The arcs that changed, and how many these are.
    changed_senders
        Their senders, each once.
    pull, push
        Who aggregates whom, and who is aggregated by whom.
    shift
        Every weight is a multiple of 2 to this.
    """

    def __init__(
        self,
        changes: ArcChanges,
        count: int,
        changed_senders: Nodes,
        pull: ArcArrays,
        push: ArcArrays,
        shift: int,
    ) -> None:
        self.changes, self.count, self.changed_senders = changes, count, changed_senders
        self.pull, self.push, self.shift = pull, push, shift


class Marks:
    """Marks of every node.

    Parameters
    ----------
    place, seen
        -1 and 0 between updates.
    own
        1 for nodes that high orders add to, 0 for mirrors of other shards' nodes; empty: there are none.
    """

    def __init__(self, place: Int32, seen: Int8, own: Int8) -> None:
        self.arrays = MarkArrays(place, seen, own)
        self.place, self.seen, self.own = place, seen, own

    def __reduce__(self) -> tuple[type[Marks], MarkArrays]:
        return Marks, self.arrays


class Reach:
    """Whom an update changed, and at which order."""

    def __init__(self, nodes: Nodes, orders: Int8) -> None:
        self.arrays = ReachArrays(nodes, orders)
        self.nodes, self.orders = nodes, orders

    def __reduce__(self) -> tuple[type[Reach], ReachArrays]:
        return Reach, self.arrays
