"""The protocol of a sink. Its docstrings name the traps for authors of a new one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from dygcn.engine.records import History, Rows


class Sink(Protocol):
    """A copy of the live vectors in a database, a broker or files.

    Every row has its position in a history: generation, epoch, version (the sequence) and
    chain. Of two rows of a node, that of the greater generation counts and, in one generation, that of the
    greater version; the same holds for ids that left.

    Writes are repeated after a crash, so a write must ignore a node that the sink has at the
    same or a later version. A sink that only appends (a broker) gives every record a key made of epoch, id
    and version instead, so that a reader can drop repeats.

    A service that was thought dead, or that runs from an old copy of its folder, may still write. So a sink
    checks its newest position at every write, not only when it is opened: see `write`.
    """

    @property
    def name(self) -> str:
        """Kind and address, without secrets: for logs, metrics and the key of its saved cursor."""

    def open(self, ids: str, dim: int) -> History | None:
        """Connect and prepare for ids of a type and vectors of a size.

        The type is ``"int64"``, ``"string"``, or one that names kinds of nodes, such as
        ``"user:int64,item:string"``: then ids of rows are texts ``kind:id``, and the sink
        writes the kind beside each.

        A sink that is open already starts again.

        Returns
        -------
        History or None
            The newest position in the sink. None: it is empty, without rows or ids that
            left; the caller then writes all rows.

        Raises
        ------
        SinkError
            If it cannot be reached, or holds vectors of another shape or ids of another type.
        """

    def write(self, rows: Rows) -> None:
        """Write rows and delete those that left; return when they would survive a crash of the sink.

        Raises
        ------
        OtherHistory
            If the sink holds rows of a greater generation, rows of another epoch of this generation, or rows
            of this very sequence with another chain. Nothing was written.
        SinkError
            If not all is written; the caller writes the same rows again.
        """

    def delete_below(self, floor: int, history: History) -> None:
        """Delete every row of another epoch than that of `history`, and every row below version `floor`.

        The caller has just written all nodes, in this epoch, at or above that version.

        Raises
        ------
        OtherHistory
            As in `write`. Nothing was deleted.
        SinkError
            If not all is known to be deleted; the caller may call again.
        """

    def close(self) -> None:
        """Release all resources. Safe to call twice, and on a sink that was never opened."""
