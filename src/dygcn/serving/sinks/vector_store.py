"""What the sinks for vector databases share: rows and marks, compared by rank before each write.

Vector databases have no transactions over several rows. A sink for one of them keeps two collections: the
rows, and beside them *marks*, without vectors. One mark is the newest position that was written; the others
are ids that left. Each write reads the position and the ranks of its ids, and sends only what is newer. Every
step may be repeated, so a write that was interrupted anywhere is completed by writing the same rows again.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias

from dygcn.engine.records import Float32, History, Rows
from dygcn.errors import SinkError
from dygcn.serving.sinks.sink import FIELDS, Shape, admit, as_values, newest

Rank: TypeAlias = tuple[int, int]
"""Generation and version: of two rows of a node, that of the greater rank counts."""
NodeId: TypeAlias = int | str
Condition: TypeAlias = tuple[str, str, Any]
"""Field, operator (``in``, ``<``, ``==``, ``!=``) and value; all of a list must hold.

The field ``rank`` is generation and version; ``id`` is that of a row, ``key`` that of a mark.
"""
ROWS, MARKS = "rows", "marks"
POSITION = str(uuid.UUID(int=0))  # the key of the mark that is the position of all rows
FOREVER = 1 << 62  # the time of a mark that is never forgotten
_NAMESPACE = uuid.UUID("6479-6763-6e00-4000-8000-000000000001".replace("-", ""))
_AT_ONCE = 1000  # rows of one request
_NUMBERS_AT_ONCE = 1 << 20  # numbers of its vectors; as JSON they stay below the 32 MB that Qdrant takes
LOCKS: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
"""The lock that all sinks of this process with one name share."""


def key_of(id_: NodeId) -> str:
    """Return the UUID of an id, the same each time, where a database does not take every id as a key."""
    return str(uuid.uuid5(_NAMESPACE, str(id_)))


def as_text(where: Sequence[Condition], equal: str, values: Callable[[Sequence[NodeId]], str]) -> str:
    """Return conditions as a filter in text; `values` writes a list of ids. No other text is a user's."""
    parts = []
    for field, operator, value in where:
        if field == "rank":
            generation, version = value
            same = f"generation {equal} {generation} and version < {version}"
            parts.append(f"(generation < {generation} or ({same}))")
        elif operator == "in":
            parts.append(f"{field} in {values(value)}")
        else:
            shown = f"'{value}'" if isinstance(value, str) else value
            parts.append(f"{field} {operator.replace('==', equal)} {shown}")
    return " and ".join(parts)


class Collections(Protocol):
    """Two collections of a vector database, ROWS and MARKS. Every method may be repeated."""

    errors: tuple[type[BaseException], ...]
    """Errors of the client."""
    longest_id: int
    """Bytes of the longest id that can be kept; 0: any."""

    def open(self, shape: Shape) -> tuple[bool, bool]:
        """Connect; return whether there are rows and marks."""

    def close(self) -> None:
        """Disconnect. Safe to call twice."""

    def lock(self) -> AbstractContextManager[object]:
        """Return a lock that keeps other writers out, as far as the database allows it."""

    def create(self, of: str) -> None:
        """Create one of the collections, replacing marks that may be there."""

    def select(self, of: str, where: Sequence[Condition], fields: Sequence[str], most: int) -> list[Any]:
        """Return up to `most` rows or marks as dicts with the fields."""

    def delete(self, of: str, where: Sequence[Condition]) -> None:
        """Delete rows or marks."""

    def put_marks(self, keys: Sequence[str], values: dict[str, Any]) -> None:
        """Write marks with one set of values, replacing those of the same keys."""

    def put_rows(self, ids: Sequence[NodeId], vectors: Float32, history: History) -> None:
        """Write rows, replacing older ones (and newer ones, if the database cannot compare)."""


class VectorStore:
    """A `Store` on `Collections`; the position is kept with the shape, as text."""

    not_finite = (
        "a vector database refuses NaN and infinity: look for what made it (a rolled run may have exploded)"
    )

    def __init__(
        self, name: str, collections: Collections, keep_left: float, secrets: Iterable[str] = ()
    ) -> None:
        self.name, self.collections, self.errors = name, collections, collections.errors
        self.secrets, self._keep_left = list(secrets), keep_left
        self._shape: Shape

    def connect(self, shape: Shape) -> None:
        """Create what is missing. Marks come first: rows without them are not ours."""
        self._shape = shape
        with self.collections.lock():
            rows, marks = self.collections.open(shape)
            if rows and not marks:
                raise SinkError(
                    f"{self.name} is there, and not made by this sink: choose another name, or delete it"
                )
            if not rows:
                self.collections.create(MARKS)
                self._keep(History(-1, "", -1, ""))
                self.collections.create(ROWS)
            found = self.collections.select(MARKS, [("key", "in", [POSITION])], ["shape"], 1)
            shape.refuse(self.name, str(found[0]["shape"]) if found else "(none)")

    def disconnect(self) -> None:
        self.collections.close()

    def held(self) -> History | None:
        """Return the position; without rows, forget ids that left and return None."""
        with self.collections.lock():
            there = self.marks([POSITION]).get(POSITION)
            if there is None or self.collections.select(ROWS, [], ["id"], 1):
                return None if there is None or there.sequence < 0 else there
            self._forget_before(FOREVER)  # nothing is late where everything is written
            self._keep(History(there.generation, there.epoch, -1, ""))  # both fence older writers
            return None

    def write(self, rows: Rows) -> None:
        self._check_ids(rows)
        rank = rows.history.generation, rows.history.sequence
        at_once = max(1, min(_AT_ONCE, _NUMBERS_AT_ONCE // rows.vectors.shape[1]))
        with self.collections.lock():
            self._reach(rows.history)
            for part in _parts(len(rows.ids), at_once):
                self._put(rows.ids[part].tolist(), rows.vectors[part], rows.history, rank)
            for part in _parts(len(rows.left), _AT_ONCE):
                self._leave(rows.left[part].tolist(), rows.history, rank)

    def delete_below(self, floor: int, history: History) -> None:
        below = History(history.generation, history.epoch, floor - 1, "")
        where = [("version", "<", floor), ("epoch", "==", history.epoch)]
        with self.collections.lock():
            self._reach(history)
            self.collections.delete(ROWS, [("epoch", "!=", history.epoch)])
            self.collections.delete(MARKS, [("generation", "!=", history.generation)])
            while floor > 0 and (found := self.collections.select(ROWS, where, ["id"], _AT_ONCE)):
                ids, rank = [one["id"] for one in found], (history.generation, floor - 1)
                gone = self._gone(ids)
                self._mark([id_ for id_ in ids if _older(id_, rank, gone)], below)
                self.delete_rows(ids, (history.generation, floor))

    def forget_left(self) -> None:
        with self.collections.lock():
            self._forget_before(round(time.time() - self._keep_left))

    def marks(self, keys: Sequence[str]) -> dict[str, History]:
        """Return the marks of keys that have one."""
        found = self.collections.select(MARKS, [("key", "in", keys)], ["key", *FIELDS], len(keys))
        return {one["key"]: History(*(one[field] for field in FIELDS)) for one in found}

    def ranks(self, ids: Sequence[NodeId]) -> dict[NodeId, Rank]:
        """Return the rank of each id that has a row."""
        fields = ["id", "generation", "version"]
        found = self.collections.select(ROWS, [("id", "in", ids)], fields, len(ids))
        return {one["id"]: (one["generation"], one["version"]) for one in found}

    def delete_rows(self, ids: Sequence[NodeId], below: Rank) -> None:
        """Delete those rows of ids that are of a lower rank."""
        self.collections.delete(ROWS, [("id", "in", ids), ("rank", "<", below)])

    def _check_ids(self, rows: Rows) -> None:
        most = self.collections.longest_id
        if most and self._shape.stored == "string":
            for id_ in (*rows.ids, *rows.left):
                if len(id_.encode()) > most:
                    raise SinkError(
                        f"{self.name}: the id {id_[:40]!r}... is longer than the {most} bytes of a text "
                        "there; give the node another id"
                    )

    def _put(self, ids: list[NodeId], vectors: Float32, history: History, rank: Rank) -> None:
        there, gone = self.ranks(ids), self._gone(ids)
        fresh = [row for row, id_ in enumerate(ids) if _older(id_, rank, there, gone)]
        if fresh:
            self.collections.put_rows([ids[row] for row in fresh], vectors[fresh], history)
        back = [key_of(ids[row]) for row in fresh if ids[row] in gone]
        if back:
            self.collections.delete(MARKS, [("key", "in", back)])

    def _leave(self, ids: list[NodeId], history: History, rank: Rank) -> None:
        """Mark ids, then delete their rows: the repeat of an interrupted write finds both again."""
        there, gone = self.ranks(ids), self._gone(ids)
        self._mark([id_ for id_ in ids if _older(id_, rank, there, gone)], history)
        ended = [id_ for id_ in ids if id_ in there and there[id_] < rank]
        if ended:
            self.delete_rows(ended, rank)

    def _mark(self, ids: list[NodeId], history: History) -> None:
        if ids:
            values = {**as_values(history), "at": round(time.time()), "shape": ""}
            self.collections.put_marks([key_of(id_) for id_ in ids], values)

    def _gone(self, ids: list[NodeId]) -> dict[NodeId, Rank]:
        by_key = {key_of(id_): id_ for id_ in ids}
        return {by_key[key]: (at.generation, at.sequence) for key, at in self.marks(list(by_key)).items()}

    def _reach(self, history: History) -> None:
        """Refuse a stale writer; else note how far the store has come, before any row."""
        held = self.marks([POSITION]).get(POSITION)
        admit(held, history, self.name)
        if newest([held, history]) is history:
            self._keep(history)

    def _keep(self, history: History) -> None:
        values = {**as_values(history), "at": FOREVER, "shape": str(self._shape)}
        self.collections.put_marks([POSITION], values)

    def _forget_before(self, at: int) -> None:
        self.collections.delete(MARKS, [("at", "<", at)])


def _parts(count: int, size: int) -> Iterator[slice]:
    for begin in range(0, count, size):
        yield slice(begin, begin + size)


def _older(id_: NodeId, rank: Rank, *known: dict[NodeId, Rank]) -> bool:
    """Return whether every known rank of an id is lower."""
    return all(ranks[id_] < rank for ranks in known if id_ in ranks)
