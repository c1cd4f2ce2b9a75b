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
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from dygcn.engine.records import History
from dygcn.errors import SinkError
from dygcn.serving.sinks.histories import admit, check_history, newest
from dygcn.serving.sinks.settings import without
from dygcn.serving.sinks.shape import Shape, check_finite, opened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from dygcn.engine.records import Float32, Rows

Rank: TypeAlias = tuple[int, int]
"""Generation and version: of two rows of a node, that of the greater rank counts."""
NodeId: TypeAlias = int | str
_Result = TypeVar("_Result")

POSITION = str(uuid.UUID(int=0))
"""The key of the mark that is the position of the whole sink."""
FOREVER = 1 << 62
"""The time of a mark that is never forgotten."""
_NAMESPACE = uuid.UUID("6479-6763-6e00-4000-8000-000000000001".replace("-", ""))
_AT_ONCE = 1000  # rows of one request
_NUMBERS_AT_ONCE = 1 << 20  # numbers of its vectors; as JSON they stay below the 32 MB that Qdrant takes
_FORGET_EVERY = 3600.0  # seconds
_LOCKS: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
_NO_NAN = "a vector database refuses NaN and infinity: look for what made it (a rolled run may have exploded)"


def key_of(id_: NodeId) -> str:
    """Return the key of an id where a store does not take every id as a key: a UUID, the same each time.

    Examples
    --------
    >>> key_of(-7)
    'c64f8fa2-8100-576d-845b-356bd9527d47'
    >>> key_of("ann") == key_of("ann")
    True
    """
    return str(uuid.uuid5(_NAMESPACE, str(id_)))


def lock_of(name: str) -> threading.Lock:
    """Return the lock that all sinks of this process with one address share."""
    return _LOCKS[name]


class VectorStore(Protocol):
    """A collection of rows and one of marks in a vector database. Every method may be repeated."""

    errors: tuple[type[BaseException], ...]
    """What its client raises."""

    def open(self, shape: Shape) -> None:
        """Connect, and call `prepare`."""

    def close(self) -> None:
        """Disconnect. Safe to call twice."""

    def lock(self) -> AbstractContextManager[object]:
        """Return what keeps other writers out, as far as the store allows it."""

    def collections(self) -> tuple[bool, bool]:
        """Return whether there are rows and marks."""

    def create_marks(self) -> None:
        """Create the collection of marks, in the place of one that may be there."""

    def create_rows(self, shape: Shape) -> None:
        """Create the collection of rows."""

    def shape_there(self) -> str:
        """Return the shape that was kept with the position, as text."""

    def marks(self, keys: Sequence[str]) -> dict[str, History]:
        """Return those marks that are there."""

    def put_marks(self, keys: Sequence[str], history: History, at: int, shape: str = "") -> None:
        """Write marks, whatever was there."""

    def delete_marks(self, keys: Sequence[str]) -> None:
        """Delete marks."""

    def delete_marks_before(self, at: int) -> None:
        """Delete marks of an earlier time."""

    def delete_marks_of_others(self, generation: int) -> None:
        """Delete marks of other generations."""

    def any_rows(self) -> bool:
        """Return whether there is any row."""

    def ranks(self, ids: Sequence[NodeId]) -> dict[NodeId, Rank]:
        """Return the rank of each id that has a row."""

    def put_rows(self, ids: Sequence[NodeId], vectors: Float32, history: History) -> None:
        """Write rows over older ones."""

    def delete_rows(self, ids: Sequence[NodeId], below: Rank) -> None:
        """Delete those rows of ids that are of a lower rank."""

    def delete_rows_of_others(self, epoch: str) -> None:
        """Delete rows of other epochs."""

    def ids_below(self, version: int, epoch: str, most: int) -> list[NodeId]:
        """Return up to `most` ids whose rows are of an epoch and below a version."""


class VectorStoreSink:
    """A sink on a `VectorStore`.

    Parameters
    ----------
    name
        Kind and address, without secrets.
    store
        Where rows go.
    keep_left
        Seconds for which an id that left is remembered.
    secrets
        What errors may not show.
    """

    def __init__(self, name: str, store: VectorStore, keep_left: float, secrets: Iterable[str] = ()) -> None:
        self._name, self._store, self._keep_left, self._secrets = name, store, keep_left, list(secrets)
        self._shape: Shape | None = None
        self._text = ""  # the shape, as it is kept with the position
        self._connected = False
        self._forgot = 0.0

    @property
    def name(self) -> str:
        """Kind and address of where rows go, without any secret."""
        return self._name

    def open(self, ids: str, dim: int) -> History | None:
        """Connect; create the collections if they are not there; return the newest position.

        Raises
        ------
        SinkError
            If the store cannot be reached, or if it holds rows of another shape, or rows of somebody else.
        """
        self.close()
        shape = Shape(ids, dim)
        held = self._call(shape, self._held)
        self._shape = shape
        return held

    def write(self, rows: Rows) -> None:
        """Write rows that are newer than those of their nodes, and delete those that left.

        Raises
        ------
        OtherHistory
            If the store holds rows of a newer history; nothing was written.
        SinkError
            If not all is known to be written; the same rows may come again.
        """
        shape = opened(self._shape, self.name)
        shape.check(rows, self.name)
        check_finite(rows, self.name, _NO_NAN)
        self._check_ids(shape, rows)
        if len(rows):
            self._call(shape, lambda: self._write(rows))

    def delete_below(self, floor: int, history: History) -> None:
        """Delete every row of another epoch, and every row with a version below `floor`."""
        shape = opened(self._shape, self.name)
        check_history(history, self.name)
        self._call(shape, lambda: self._delete_below(floor, history))

    def close(self) -> None:
        """Disconnect. Safe to call twice."""
        self._shape = None
        self._disconnect()

    def _check_ids(self, shape: Shape, rows: Rows) -> None:
        """Refuse ids that the store cannot keep."""

    def _held(self) -> History | None:
        """Return the position; without rows, forget ids that left and return None."""
        there = self._store.marks([POSITION]).get(POSITION)
        if there is None or self._store.any_rows():
            return None if there is None or there.sequence < 0 else there
        self._store.delete_marks_before(FOREVER)  # nothing is late where everything is written
        self._keep(History(there.generation, there.epoch, -1, ""))  # generation and epoch fence older ones
        return None

    def _write(self, rows: Rows) -> None:
        self._reach(rows.history)
        rank = rows.history.generation, rows.history.sequence
        at_once = max(1, min(_AT_ONCE, _NUMBERS_AT_ONCE // rows.vectors.shape[1]))
        for part in _parts(len(rows.ids), at_once):
            self._put(rows.ids[part].tolist(), rows.vectors[part], rows.history, rank)
        for part in _parts(len(rows.left), _AT_ONCE):
            self._leave(rows.left[part].tolist(), rows.history, rank)
        if time.monotonic() - self._forgot > _FORGET_EVERY:
            self._store.delete_marks_before(round(time.time() - self._keep_left))
            self._forgot = time.monotonic()

    def _put(self, ids: list[NodeId], vectors: Float32, history: History, rank: Rank) -> None:
        there, gone = self._store.ranks(ids), self._gone(ids)
        fresh = [place for place, id_ in enumerate(ids) if _older(id_, rank, there, gone)]
        if fresh:
            self._store.put_rows([ids[place] for place in fresh], vectors[fresh], history)
        back = [key_of(ids[place]) for place in fresh if ids[place] in gone]
        if back:
            self._store.delete_marks(back)

    def _leave(self, ids: list[NodeId], history: History, rank: Rank) -> None:
        """Mark ids, then delete their rows: whoever is interrupted between finds both again."""
        there, gone = self._store.ranks(ids), self._gone(ids)
        self._mark([id_ for id_ in ids if _older(id_, rank, there, gone)], history)
        ended = [id_ for id_ in ids if id_ in there and there[id_] < rank]
        if ended:
            self._store.delete_rows(ended, rank)

    def _delete_below(self, floor: int, history: History) -> None:
        self._reach(history)
        self._store.delete_rows_of_others(history.epoch)
        self._store.delete_marks_of_others(history.generation)
        below = History(history.generation, history.epoch, floor - 1, "")
        while floor > 0 and (ids := self._store.ids_below(floor, history.epoch, _AT_ONCE)):
            gone = self._gone(ids)
            self._mark([id_ for id_ in ids if _older(id_, (history.generation, floor - 1), gone)], below)
            self._store.delete_rows(ids, (history.generation, floor))

    def _mark(self, ids: list[NodeId], history: History) -> None:
        if ids:
            self._store.put_marks([key_of(id_) for id_ in ids], history, round(time.time()))

    def _gone(self, ids: list[NodeId]) -> dict[NodeId, Rank]:
        """Return the ranks of those ids that left."""
        by_key = {key_of(id_): id_ for id_ in ids}
        marks = self._store.marks(list(by_key))
        return {by_key[key]: (at.generation, at.sequence) for key, at in marks.items()}

    def _reach(self, history: History) -> None:
        """Refuse a stale writer; else note how far the store has come, before any row."""
        held = self._store.marks([POSITION]).get(POSITION)
        admit(held, history, self.name)
        if newest([held, history]) is history:
            self._keep(history)

    def _keep(self, history: History) -> None:
        self._store.put_marks([POSITION], history, FOREVER, self._text)

    def _prepare(self, shape: Shape) -> None:
        """Create what is missing. Marks come first: rows without them are not ours."""
        rows, marks = self._store.collections()
        if rows and not marks:
            raise SinkError(
                f"{self.name} is there, and not made by this sink: choose another name, or delete it"
            )
        if not rows:
            self._store.create_marks()
            self._store.put_marks([POSITION], History(-1, "", -1, ""), FOREVER, str(shape))
            self._store.create_rows(shape)
        shape.refuse(self.name, self._store.shape_there())
        self._text = str(shape)
        self._store.delete_marks_before(round(time.time() - self._keep_left))
        self._forgot = time.monotonic()

    def _call(self, shape: Shape, what: Callable[[], _Result]) -> _Result:
        try:
            with self._store.lock():
                if not self._connected:
                    self._store.open(shape)
                    self._prepare(shape)
                    self._connected = True
                return what()
        except SinkError:
            self._disconnect()
            raise
        except self._store.errors as error:
            self._disconnect()  # after any error: the next call connects again
            text = without(str(error), self._secrets)
            raise SinkError(f"{self.name}: {type(error).__name__}: {text}") from None

    def _disconnect(self) -> None:
        self._connected = False
        self._store.close()


def _parts(count: int, size: int) -> Iterator[slice]:
    for begin in range(0, count, size):
        yield slice(begin, begin + size)


def _older(id_: NodeId, rank: Rank, *known: dict[NodeId, Rank]) -> bool:
    """Return whether all that is known of an id is of a lower rank."""
    return all(ranks[id_] < rank for ranks in known if id_ in ranks)
