"""What a sink is. Traps for whoever adds one are written where they wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from dygcn.engine.records import History, Rows


class Sink(Protocol):
    """A place where vectors go, kept equal to the live ones.

    Every row says which position of which history it is of: generation, epoch, version (the sequence) and
    chain. Of two rows of a node, that of the greater generation counts and, in one generation, that of the
    greater version; what left counts likewise.

    Writes are repeated after a crash, so each must do nothing where the sink already has that node at the
    same or a later version. A sink that only appends (a broker) gives every record a key made of epoch, id
    and version instead, so that a reader can drop repeats.

    A service that was thought dead, or that runs from an old copy of its folder, goes on writing. So a sink
    looks at what it holds with every write, not only when it is opened: see `write`.
    """

    @property
    def name(self) -> str:
        """Kind and address of where rows go, without any secret: for logs, metrics and the kept place."""

    def open(self, kind: str, dim: int) -> History | None:
        """Connect and prepare for ids of a kind (``"int64"`` or ``"string"``) and vectors of a size.

        A sink that is open already begins afresh.

        Returns
        -------
        History or None
            The newest position that was written there. None: it holds nothing, neither rows nor ids that
            left; the caller then writes everything.

        Raises
        ------
        SinkError
            If it cannot be reached, or holds vectors of another shape or ids of another kind.
        """

    def write(self, rows: Rows) -> None:
        """Bring rows in and take out those that left; return when they would survive a crash there.

        Raises
        ------
        OtherHistory
            If the sink holds rows of a greater generation, rows of another epoch of this generation, or rows
            of this very sequence with another chain. Nothing was written.
        SinkError
            If not all is written; the same rows come again.
        """

    def delete_below(self, floor: int, history: History) -> None:
        """Take out every row of another epoch than that of `history`, and every row below version `floor`.

        All nodes were just written, in this epoch, at or above that version.

        Raises
        ------
        OtherHistory
            As in `write`. Nothing was taken out.
        SinkError
            If that is not done, or not known to be; it may be asked for again.
        """

    def close(self) -> None:
        """Let go of everything. Safe to call twice, and on a sink that was never opened."""
