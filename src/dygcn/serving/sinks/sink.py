"""The contract of a sink, the life that every sink leads around its engine, positions in histories, shapes.

The docstrings of `Sink` and `Store` name the traps for authors of a new one.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dygcn.engine.events.kinds import is_id_type, stored_type
from dygcn.engine.records import History, Rows
from dygcn.errors import OtherHistory, SinkError
from dygcn.serving.addresses import Connector, errors_of

FIELDS = ("generation", "epoch", "version", "chain")
"""The fields of a row's position, in every sink; `version` is the sequence."""
_LARGEST = (1 << 63) - 1
KEEP_OURS = "if this folder is the one to keep, begin a new epoch: dygcn restore, or live.feed.begin_epoch()"


def check_history(history: History, name: str) -> None:
    """Raise SinkError unless every sink can store a position."""
    numbers = all(0 <= number <= _LARGEST for number in (history.generation, history.sequence))
    texts = re.fullmatch("[0-9a-f]{16}", history.epoch) and re.fullmatch("[0-9a-f]{32}", history.chain)
    if not numbers or not texts:
        raise SinkError(
            f"{name} got rows of {history}; allowed are a generation and a sequence from 0 to 2^63 - 1, "
            "an epoch of 16 and a chain of 32 hexadecimal digits"
        )


def admit(held: History | None, ours: History, name: str) -> None:
    """Raise OtherHistory if rows of position `ours` may not follow the position `held`."""
    if held is None or ours.generation > held.generation:
        return
    if ours.generation < held.generation:
        kind = "a newer history"
    elif ours.epoch != held.epoch:
        kind = "another history of the same generation"
    elif ours.sequence == held.sequence and ours.chain != held.chain:
        kind = "a copy of our history that went another way"
    else:
        return
    raise OtherHistory(
        f"{name} holds rows of {kind} ({described(held)}); ours is {described(ours)}. "
        f"This service does not write to it; {KEEP_OURS}"
    )


def newest(positions: Iterable[History | None]) -> History | None:
    """Return the position of the greatest generation and, there, of the greatest sequence."""
    found = (one for one in positions if one is not None)
    return max(found, key=lambda one: (one.generation, one.sequence), default=None)


def described(history: History) -> str:
    """Return a position as errors and `/v1/status` name it."""
    return f"generation {history.generation}, epoch {history.epoch}, sequence {history.sequence}"


def as_values(history: History) -> dict[str, int | str]:
    """Return a position as the fields of a row."""
    values = history.generation, history.epoch, history.sequence, history.chain
    return dict(zip(FIELDS, values, strict=True))


def as_fields(history: History) -> dict[str, str]:
    """Return a position as the fields of a row, as texts."""
    return {name: str(value) for name, value in as_values(history).items()}


def from_fields(fields: Mapping[str, str | None]) -> History | None:
    """Return the position in the fields of a row, as texts; None if they are incomplete or unreadable."""
    generation, epoch, version, chain = (fields.get(name) or "" for name in FIELDS)
    try:
        return History(int(generation), epoch, int(version), chain) if epoch and chain else None
    except ValueError:
        return None


_WITH_KINDS = "kind:string"


@dataclass(frozen=True, slots=True)
class Shape:
    """The type of the ids and the size of the vectors, the same for as long as a sink is used.

    Which kinds of nodes there are does not matter, only whether there are any: a refit may add some.
    """

    ids: str
    dim: int

    def __post_init__(self) -> None:
        if not (self.ids == _WITH_KINDS or is_id_type(self.ids)) or not self.dim > 0:
            raise SinkError(
                f"a sink was opened for ids of type {self.ids!r} and vectors of size {self.dim}; "
                "allowed are the types int64 and string, one of both for each kind, and sizes above 0"
            )
        if ":" in self.ids:
            object.__setattr__(self, "ids", _WITH_KINDS)

    def __str__(self) -> str:
        return f"{self.ids}:{self.dim}"

    @property
    def with_kinds(self) -> bool:
        """Whether ids are texts ``kind:id``; then a sink keeps the kind beside the id."""
        return self.ids == _WITH_KINDS

    @property
    def stored(self) -> str:
        """The type that ids are stored as, ``"int64"`` or ``"string"``."""
        return stored_type(self.ids)

    def id_fields(self, id_: Any) -> dict[str, Any]:
        """Return the fields that name a node in its row."""
        return {"id": id_, "kind": kind_of(id_)} if self.with_kinds else {"id": id_}

    def refuse(self, name: str, there: str) -> None:
        """Raise SinkError unless the shape that a sink holds (as text) is this one."""
        if there != str(self):
            raise SinkError(
                f"{name} holds rows of the shape {there} (type of ids, size of vectors), ours are {self}: "
                "write to another target, or delete these rows"
            )

    def check(self, rows: Rows, name: str) -> None:
        """Raise SinkError unless rows are of this shape, and of a history that every sink can store."""
        check_history(rows.history, name)
        if rows.vectors.ndim != 2 or rows.vectors.shape[1] != self.dim or rows.vectors.dtype != np.float32:
            raise SinkError(
                f"{name} takes float32 vectors of size {self.dim}; got {rows.vectors.dtype} of the shape "
                f"{rows.vectors.shape}"
            )
        if len(rows.ids) != len(rows.vectors):
            raise SinkError(f"{name} got rows whose ids and vectors are not equally many")
        for ids in (rows.ids, rows.left):
            if not _is_of(ids, self.ids):
                raise SinkError(f"{name} takes ids of type {self.ids}; got an array of {ids.dtype}")


def check_finite(rows: Rows, name: str, why: str) -> None:
    """Raise SinkError, with the first id, if a vector is not finite."""
    bad = np.flatnonzero(~np.isfinite(rows.vectors).all(axis=1))
    if len(bad):
        raise SinkError(f"{name}: the vector of {rows.ids[bad].tolist()[0]!r} is not finite, and {why}")


def kind_of(id_: Any) -> str:
    """Return the kind of a node of a graph with kinds, whose id is ``kind:id``."""
    return str(id_).partition(":")[0]


def _is_of(ids: NDArray[Any], type_: str) -> bool:
    if len(ids) == 0:
        return True
    if type_ == "int64":
        return ids.dtype == np.int64
    mark = ":" if type_ == _WITH_KINDS else ""
    return ids.dtype == object and all(isinstance(id_, str) and mark in id_ for id_ in ids)


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
