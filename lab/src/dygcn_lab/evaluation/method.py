"""What every method that is judged looks like, ours and the baselines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from dygcn.engine.records import Float32, Int64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dygcn.engine.records import Float32, Float64, Int64
    from dygcn_lab.evaluation.steps import Moment


class Method(Protocol):
    """Follows a graph: fitted on the first moments, then shown one moment after the other.

    A method has vectors, or a score of its own, or both. It never sees a moment before its turn.
    """

    def begin(self, moments: Sequence[Moment], nodes: int) -> None:
        """Fit on the first moments; the state afterwards is that of the last of them.

        `moments`: from the first graph to the last one that may be fitted on; `nodes`: nodes are numbered
        from 0 to one less than this, over the whole history.
        """

    def follow(self, moment: Moment) -> None:
        """Take the graph's next moment."""

    def vectors(self) -> Float32 | None:
        """Return (nodes, dim), zero rows for nodes without a vector; None for a method without vectors."""

    def score(self, pairs: Int64, task: str) -> Float64 | None:
        """Return (m,) how likely each pair (m, 2) is linked next; None: the cosine of the vectors.

        `task`: ``"all"``: every link of the next graph, those that are there already included.
        ``"new-warm"``: links that are not there now. ``"never"``: links that were never there; `The ends of a
        pair come in random order.`: .
        """


class VectorMethod:
    """A method whose score is the cosine of its vectors."""

    def score(self, pairs: Int64, task: str) -> Float64 | None:
        """Return None: the cosine decides."""
        return None


def by_number(ids: Int64, vectors: Float32, nodes: int) -> Float32:
    """Return a table with a row for every node number; zero for nodes without a vector.

    Examples
    --------
    >>> import numpy as np
    >>> by_number(np.array([2, 0]), np.array([[5.0], [7.0]], np.float32), 3).ravel().tolist()
    [7.0, 0.0, 5.0]
    """
    out = np.zeros((nodes, vectors.shape[1]), np.float32)
    out[ids] = vectors
    return out
