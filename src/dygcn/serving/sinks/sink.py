"""The contract of a sink, and the life that every sink leads around what its engine does.

The docstrings of `Sink` and `Store` name the traps for authors of a new one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from dygcn.engine.records import History, Rows
from dygcn.errors import SinkError
from dygcn.serving.addresses import Connector, errors_of
from dygcn.serving.sinks.histories import check_history
from dygcn.serving.sinks.shape import Shape, check_finite

OnOtherHistory: TypeAlias = Literal["rewrite", "refuse"]
"""Action if a sink holds rows of an older history than ours, or of a copy that diverged.

``"rewrite"`` writes all rows again and then deletes those of the other history; ``"refuse"`` does not change
the sink and reports it in ``/v1/status``. Rows of a newer history are never replaced.
"""
_FORGET_EVERY = 3600.0  # seconds


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


@runtime_checkable
class SinkSettings(Protocol):
    """Settings of a sink: a subclass of `dygcn.serving.addresses.Settings` whose tag is its `kind`."""

    other_history: OnOtherHistory

    def make(self) -> Sink:
        """Return the sink, not open yet. Its client is imported only now, under ``with extra(...)``."""


class Store(Connector, Protocol):
    """What an engine does for a `StoreSink`. Any call may be repeated; any may follow a lost connection."""

    not_finite: str
    """Why the engine cannot keep NaN and infinity; empty: it can."""

    def connect(self, shape: Shape) -> None:
        """Connect, create what is missing, and refuse rows of another shape."""

    def held(self) -> History | None:
        """Return the newest position that was written; None: there are no rows.

        In a target without rows, ids that left are forgotten; its epoch still refuses older writers.
        """

    def write(self, rows: Rows) -> None:
        """Write rows, of which there are some, as `Sink.write` says."""

    def delete_below(self, floor: int, history: History) -> None:
        """Delete rows, as `Sink.delete_below` says."""

    def forget_left(self) -> None:
        """Forget ids that left longer ago than the settings say; called now and then."""


class StoreSink:
    """A sink on a `Store`: checks rows, connects when needed, and again after every error."""

    def __init__(self, store: Store) -> None:
        self.store, self.name = store, store.name
        self._shape: Shape | None = None  # None: not open
        self._connected = False
        self._forgot = 0.0

    def open(self, ids: str, dim: int) -> History | None:
        self.close()
        shape = Shape(ids, dim)
        with self._connection(shape):
            held = self.store.held()
        self._shape = shape
        return held

    def write(self, rows: Rows) -> None:
        shape = self._opened()
        shape.check(rows, self.name)
        if self.store.not_finite:
            check_finite(rows, self.name, self.store.not_finite)
        if len(rows) == 0:
            return
        with self._connection(shape):
            self.store.write(rows)
            if time.monotonic() - self._forgot > _FORGET_EVERY:
                self._forget_left()

    def delete_below(self, floor: int, history: History) -> None:
        shape = self._opened()
        check_history(history, self.name)
        with self._connection(shape):
            self.store.delete_below(floor, history)

    def close(self) -> None:
        self._shape, self._connected = None, False
        self.store.disconnect()

    def _opened(self) -> Shape:
        if self._shape is None:
            raise SinkError(f"{self.name} is not open; call open() first")
        return self._shape

    @contextmanager
    def _connection(self, shape: Shape) -> Iterator[None]:
        """Connect, unless the last call left a connection."""
        connected, self._connected = self._connected, False
        with errors_of(self.store, SinkError, self.store.disconnect):
            if not connected:
                self.store.connect(shape)
                self._forget_left()
            yield
        self._connected = True

    def _forget_left(self) -> None:
        self.store.forget_left()
        self._forgot = time.monotonic()
