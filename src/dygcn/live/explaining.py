"""Why a vector is where it is, by the user's ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dygcn.engine.models.explaining import Movement, Shares
from dygcn.engine.records import Float64, Int8
from dygcn.live import exporting

_SHOWN = 10  # neighbours that a notebook and a terminal show


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """Why the vector of a node is where it is: the share of each neighbour, order by order.

    A share is projected onto the vector z, so ``own + by_neighbor.sum() + rounding`` is ``|z|^2``. A share
    below zero pulls the other way.

    Attributes
    ----------
    id
        The node.
    neighbors
        Ids of its neighbours, removed edges that still count included; the greatest share first.
    shares
        Whole rows behind the numbers, columns in the order of `neighbors`; sums are exact.

    Examples
    --------
    >>> import dygcn
    >>> live = dygcn.fit([("ann", "bob"), ("bob", "cat"), ("cat", "dan")], dim=8)
    >>> why = live.explain("bob")
    >>> sorted(why.neighbors.tolist()), why.by_order.shape
    (['ann', 'cat'], (2, 2))
    >>> bool(abs(why.own + why.by_neighbor.sum() + why.rounding - why.vector @ why.vector) < 1e-12)
    True
    """

    id: object
    neighbors: NDArray[Any]
    shares: Shares

    @property
    def vector(self) -> Float64:
        """The vector of the node, (dim,)."""
        return self.shares.vector

    @property
    def own(self) -> float:
        """The share of the node itself: its own features, and all that does not come from neighbours."""
        return self.shares.own

    @property
    def rounding(self) -> float:
        """The share of rounding: messages are rounded, and vectors are sums in float32."""
        return self.shares.rounding

    @property
    def by_neighbor(self) -> Float64:
        """The share of each of `neighbors` over all orders, (n,)."""
        return self.shares.totals

    @property
    def by_order(self) -> Float64:
        """The share of each of `neighbors` through each order 1..K, (n, K)."""
        return self.shares.projections.T

    def to_pandas(self) -> Any:
        """Return a pandas frame: a row for each neighbour, its share, and its shares by order."""
        columns = ["share", *(f"order {k + 1}" for k in range(self.by_order.shape[1]))]
        return exporting.as_frame(self.neighbors, np.column_stack([self.by_neighbor, self.by_order]), columns)

    def __len__(self) -> int:
        return len(self.neighbors)

    def __repr__(self) -> str:
        named = [f"{name!r} {share:.3f}" for name, share in self._rows()]
        more = [f"{len(self) - _SHOWN:,} more"] if len(self) > _SHOWN else []
        return f"Explanation({self.id!r}: {', '.join([f'itself {self.own:.3f}', *named, *more])})"

    def _repr_html_(self) -> str:
        rows = [(str(name), f"{share:.3f}") for name, share in [("itself", self.own), *self._rows()]]
        return exporting.html_table(f"Shares in the vector of {self.id}", rows, ("neighbour", "share"))

    def _rows(self) -> list[tuple[Any, float]]:
        return list(zip(self.neighbors[:_SHOWN].tolist(), self.by_neighbor[:_SHOWN].tolist(), strict=True))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ExplainedChange(Movement):
    """How far each event would move the vector of a node, by the user's ids.

    Attributes
    ----------
    before, after
        The vector before the events and after them, (dim,); zero where the node is not in the graph.
    waiting
        What the passing of time to `now` moves, (dim,).
    by_event
        What each event moves, (n, dim): the vector after it minus the vector before it.
    id
        The node.
    src, dst, op
        The events: their ends, and 1 for an add, -1 for a remove.

    Examples
    --------
    >>> import dygcn
    >>> live = dygcn.fit([("ann", "bob"), ("bob", "cat"), ("dan", "eve")], dim=8)
    >>> live.explain_change("ann", add=[("dan", "gus"), ("ann", "bob")])
    ExplainedChange('ann': moved 0.000 by 0 of 2 events)
    """

    id: object
    src: NDArray[Any]
    dst: NDArray[Any]
    op: Int8

    @property
    def distance(self) -> float:
        """How far all of the events together move the vector."""
        return float(np.linalg.norm(self.after.astype(np.float64) - self.before))

    def to_pandas(self) -> Any:
        """Return a pandas frame: a row for each event, how far it moves the vector, and its share in that.

        The index counts events as they came. Shares, and that of `waiting`, add up to `distance` squared.
        """
        far = np.linalg.norm(self.by_event, axis=1)
        columns = {
            "src": self.src,
            "dst": self.dst,
            "op": self.op,
            "distance": far,
            "share": self.projections,
        }
        return exporting.as_frame(np.arange(len(self)), columns, index="event")

    def __len__(self) -> int:
        return len(self.by_event)

    def __repr__(self) -> str:
        some = int(self.by_event.any(axis=1).sum())
        return f"ExplainedChange({self.id!r}: moved {self.distance:.3f} by {some:,} of {len(self):,} events)"
