"""What every method that is judged looks like, ours and the baselines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

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

        Parameters
        ----------
        moments
            From the first graph to the last one that may be fitted on.
        nodes
            Nodes are numbered from 0 to one less than this, over the whole history.
        """

    def follow(self, moment: Moment) -> None:
        """Take the graph's next moment."""

    def vectors(self) -> Float32 | None:
        """Return (nodes, dim), zero rows for nodes without a vector; None for a method without vectors."""

    def score(self, pairs: Int64, task: str) -> Float64 | None:
        """Return (m,) how likely each pair (m, 2) is linked next; None: the cosine of the vectors.

        Parameters
        ----------
        task
            ``"all"``: every link of the next graph, those that are there already included. ``"new-warm"``:
            links that are not there now. ``"never"``: links that were never there.

        The ends of a pair come in random order.
        """


class VectorMethod:
    """A method whose score is the cosine of its vectors."""

    def score(self, pairs: Int64, task: str) -> Float64 | None:
        """Return None: the cosine decides."""
        return None
