"""Vectors by the user's ids, one at a time or many, kept until they move."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dygcn.live.finding import find_nodes
from dygcn.live.search.nearest import VectorCache

if TYPE_CHECKING:
    from dygcn.engine.models import State
    from dygcn.engine.records import Float32, Nodes


class Reader:
    """Reads vectors of a state that changes. Whoever changes it must `mark` what moved.

    What is read has the bits of `read_vectors`; a vector that did not move is not computed again. Not for
    several threads at once: a lock around it, and around updates, is the caller's business.

    Parameters
    ----------
    state
        Graph and rule.
    cache
        Where vectors are kept, if others keep theirs there, too.

    Examples
    --------
    >>> import dygcn
    >>> live = dygcn.fit([("ann", "bob"), ("bob", "cat")], dim=4)
    >>> reader = Reader(live.state)
    >>> (reader.vector("ann") == live["ann"]).all(), reader.vector("dan")
    (np.True_, None)
    """

    def __init__(self, state: State, cache: VectorCache | None = None) -> None:
        self._state = state
        self.cache = VectorCache(state) if cache is None else cache
        self._graph = state.graph

    def mark(self, nodes: Nodes) -> None:
        """Say that nodes moved."""
        self.cache.mark(nodes)

    def vector(self, node_id: object) -> Float32 | None:
        """Return the vector of one node, (dim,), or None if the id is not in the graph now."""
        node = self._graph.find_one(node_id)
        return self.cache.one(node) if node >= 0 else None

    def vectors(self, ids: object) -> Float32:
        """Return the vectors of nodes, (n, dim).

        Raises
        ------
        UnknownNode
            For the first id that is not in the graph now.
        """
        return self.cache.refresh(find_nodes(self._state, ids))[0]
