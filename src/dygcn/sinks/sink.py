"""What a sink is. Traps for whoever adds one are written where they wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from dygcn.records import Rows


class Sink(Protocol):
    """A place where vectors go, kept equal to the live ones.

    Writes are repeated after a crash, so each must do nothing where the sink already has that node at the
    same or a later version. A sink that only appends (a broker) gives every record a key made of id and
    version instead, so that a reader can drop repeats.
    """

    @property
    def name(self) -> str:
        """Kind and address of where rows go, without any secret: for logs, metrics and the kept place."""

    def open(self, kind: str, dim: int) -> None:
        """Connect and prepare for ids of a kind (``"int64"`` or ``"string"``) and vectors of a size.

        A sink that is open already begins afresh.

        Raises
        ------
        SinkError
            If it cannot be reached, or holds vectors of another shape or ids of another kind.
        """

    def write(self, rows: Rows) -> None:
        """Bring rows in and take out those that left; return when they would survive a crash there.

        Raises
        ------
        SinkError
            If not all is written; the same rows come again.
        """

    def settle(self, floor: int) -> None:
        """Take out every row with a version below `floor`: all nodes were just written at or above it.

        Raises
        ------
        SinkError
            If that is not done, or not known to be; it may be asked for again.
        """

    def close(self) -> None:
        """Let go of everything. Safe to call twice, and on a sink that was never opened."""
