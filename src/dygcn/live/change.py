"""What one update moved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dygcn.engine.events import python_ids
from dygcn.errors import StaleChange

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dygcn.engine.models import Outcome
    from dygcn.engine.records import Float32, Int8, Nodes
    from dygcn.live.embedding import LiveEmbedding


class Change:
    """What one update moved: only the nodes whose state is another one now.

    Attributes
    ----------
    orders
        The order at which each node was reached: 0 for its own features or a fresh base, 1 for the ends of a
        changed edge, 2 for their neighbours, and so on up to K.
    version
        Number of the update.
    unchanged, missing, loops
        Events without effect: adds of an edge that had that weight, removes of an edge that was not
        there, self loops.
    rows
        Rows of state that the update added to: its cost.

    Examples
    --------
    >>> import dygcn
    >>> live = dygcn.fit([("ann", "bob"), ("bob", "cat"), ("cat", "dan")], dim=8)
    >>> change = live.update(remove=[("cat", "dan")])
    >>> sorted(zip(change.ids, change.orders.tolist())), change.left.tolist()
    ([('bob', 2), ('cat', 1)], ['dan'])
    """

    def __init__(self, live: LiveEmbedding, outcome: Outcome, version: int) -> None:
        self._live = live
        self._nodes = outcome.moved.nodes
        self._ids: NDArray[Any] | None = None
        self._left = outcome.left
        self.orders: Int8 = outcome.moved.orders
        self.version = version
        self.unchanged = outcome.unchanged
        self.missing = outcome.missing
        self.loops = outcome.loops
        self.rows = outcome.moved.rows

    @property
    def nodes(self) -> Nodes:
        """The nodes that moved, for the other modules of this wing."""
        return self._nodes

    @property
    def ids(self) -> NDArray[Any]:
        """The nodes that moved, by the user's ids."""
        if self._ids is None:
            self._live.guard.run(self.keep_ids)
        assert self._ids is not None
        return self._ids

    def keep_ids(self) -> None:
        """Look up the ids now: after the next update the nodes may have others."""
        if self._ids is None:
            self._ids = python_ids(self._live.names(self._nodes))

    @property
    def left(self) -> NDArray[Any]:
        """Ids that are no longer in the graph."""
        return python_ids(self._left).copy()

    @property
    def vectors(self) -> Float32:
        """The vectors of `ids`, computed when asked for.

        Raises
        ------
        StaleChange
            After a later update: the state they belong to is gone.
        """
        if self._live.version != self.version:
            raise StaleChange(
                f"this change is of version {self.version}, the embedding is at {self._live.version}; "
                "read the vectors before the next update, or ask live.vectors(change.ids) for today's"
            )
        return self._live.guard.run(self._live.vectors_of, self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    def __repr__(self) -> str:
        return f"Change(version={self.version}, moved={len(self)}, left={len(self._left)})"
