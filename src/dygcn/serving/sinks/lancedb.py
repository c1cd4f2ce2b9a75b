"""Vectors in a table of LanceDB, in a folder."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from dygcn._extras import extra
from dygcn.engine import _disk
from dygcn.engine.records import Float32, History
from dygcn.errors import SinkError
from dygcn.serving.addresses import DAY, YEAR, Settings, check_name, check_seconds
from dygcn.serving.sinks.sink import FIELDS, OnOtherHistory, Shape, StoreSink, as_values, kind_of
from dygcn.serving.sinks.vector_store import MARKS, ROWS, Condition, NodeId, VectorStore, as_text

_LEAST = -(1 << 63)
_POLL = 0.01  # seconds between two looks at the lock
_TYPES = {"int64": pa.int64(), "string": pa.string()}
_POSITION = [(name, pa.string() if name in ("epoch", "chain") else pa.int64()) for name in FIELDS]
_MARKS = pa.schema([("key", pa.string()), *_POSITION, ("at", pa.int64()), ("shape", pa.string())])
_NEWER = (
    "source.generation > target.generation OR "
    "(source.generation = target.generation AND source.version > target.version)"
)


class LanceSettings(Settings, frozen=True, tag="lancedb"):
    """Where rows go in LanceDB.

    >>> LanceSettings(folder="vectors", table="people")
    LanceSettings(folder='vectors', table='people', keep_left=86400.0, keep_versions=3600.0, ...)
    """

    folder: str
    table: str = "dygcn_vectors"
    keep_left: float = DAY
    keep_versions: float = 3600.0  # seconds for which older versions of the table can be read
    optimize_after: int = 50  # writes after which fragments are merged
    timeout: float = 60.0  # seconds that a writer waits for another one
    other_history: OnOtherHistory = "rewrite"

    def __post_init__(self) -> None:
        check_name("table", self.table, r"[A-Za-z0-9_-]{1,100}", "a name of letters, digits, _ and -")
        check_seconds("keep_left", self.keep_left, YEAR)
        check_seconds("keep_versions", self.keep_versions, YEAR)
        check_seconds("timeout", self.timeout)
        check_name("optimize_after", str(self.optimize_after), "[1-9][0-9]{0,5}", "a number from 1 to 999999")

    def make(self) -> StoreSink:
        name = f"lancedb://{Path(self.folder).absolute()}/{self.table}"
        return StoreSink(VectorStore(name, LanceCollections(self, name), self.keep_left))


class LanceCollections:
    """A table with a row for each node.

    Writers wait for each other on a lock in the folder, so an older version never replaces a newer one, by
    any process of this machine. Each version of the table is complete; a write makes one for rows that came
    and one for rows that left. A write is on disk when it returns.
    """

    longest_id = 0
    # LanceDB has no errors of its own.
    errors: tuple[type[BaseException], ...] = OSError, ValueError, RuntimeError, TypeError, pa.ArrowException

    def __init__(self, settings: LanceSettings, name: str) -> None:
        with extra("lancedb"):
            import lancedb  # noqa: PLC0415
        self._lancedb, self._settings, self._name = lancedb, settings, name
        self._folder = Path(settings.folder).absolute()
        self._names = {ROWS: settings.table, MARKS: f"{settings.table}_marks"}
        self._database: Any = None
        self._tables: dict[str, Any] = {}
        self._synced: dict[str, set[str]] = {}
        self._writes = 0
        self._shape: Shape

    def open(self, shape: Shape) -> tuple[bool, bool]:
        self._shape, self._writes = shape, 0
        self._database = self._lancedb.connect(self._folder, read_consistency_interval=timedelta(0))
        there: set[str] = set()
        page, more = self._database.list_tables(), True
        while more:
            there.update(page.tables)
            more = bool(page.page_token)
            page = self._database.list_tables(page_token=page.page_token) if more else page
        return self._names[ROWS] in there, self._names[MARKS] in there

    def close(self) -> None:
        self._database, self._tables, self._synced = None, {}, {}

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the lock of the table, which lies beside it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        handle = _disk.open_own(self._folder / f".{self._names[ROWS]}.lock", os.O_RDWR | os.O_CREAT)
        try:
            until = time.monotonic() + self._settings.timeout
            while True:
                with suppress(OSError):
                    _disk.lock(handle)
                    break
                if time.monotonic() > until:
                    raise SinkError(f"{self._name}: another writer has the lock; end it, or wait for it")
                time.sleep(_POLL)
            yield
        finally:
            os.close(handle)

    def create(self, of: str) -> None:
        schema = _MARKS
        if of == ROWS:
            kind = [("kind", pa.string())] if self._shape.with_kinds else []
            vector = ("vector", pa.list_(pa.float32(), self._shape.dim))
            schema = pa.schema([("id", _TYPES[self._shape.stored]), *kind, vector, *_POSITION])
        name = self._names[of]
        self._tables[name] = self._database.create_table(name, schema=schema, mode="overwrite")
        self._committed(name)
        _disk.sync_names(self._folder)

    def select(self, of: str, where: Sequence[Condition], fields: Sequence[str], most: int) -> list[Any]:
        query = self._table(of).search()
        if where:
            query = query.where(_filter(where))
        found: list[Any] = query.select(list(fields)).limit(most).to_arrow().to_pylist()
        return found

    def delete(self, of: str, where: Sequence[Condition]) -> None:
        table, text = self._table(of), _filter(where)
        if table.count_rows(text):  # a deletion of nothing would be a version, too
            table.delete(text)
            self._committed(self._names[of])

    def put_marks(self, keys: Sequence[str], values: dict[str, Any]) -> None:
        columns = {"key": list(keys), **{name: [value] * len(keys) for name, value in values.items()}}
        merge = self._table(MARKS).merge_insert("key")
        merge = merge.when_matched_update_all().when_not_matched_insert_all()
        merge.execute(pa.table(columns, schema=_MARKS))
        self._committed(self._names[MARKS])

    def put_rows(self, ids: Sequence[NodeId], vectors: Float32, history: History) -> None:
        """Write rows in one commit, each unless the table has a newer one."""
        table = self._table(ROWS)
        flat = pa.array(vectors.reshape(-1))
        columns = {"id": list(ids), "vector": pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])}
        columns |= {name: [value] * len(ids) for name, value in as_values(history).items()}
        if self._shape.with_kinds:
            columns["kind"] = list(map(kind_of, ids))
        merge = table.merge_insert("id").when_matched_update_all(where=_NEWER).when_not_matched_insert_all()
        merge.execute(pa.table(columns, schema=table.schema))
        self._committed(self._names[ROWS])

    def _table(self, of: str) -> Any:
        name = self._names[of]
        if name not in self._tables:
            self._tables[name] = self._database.open_table(name)
        return self._tables[name]

    def _committed(self, name: str) -> None:
        """Put new files on disk; now and then merge fragments and remove old versions."""
        self._writes += 1
        if self._writes % self._settings.optimize_after == 0:
            for table in self._tables.values():
                table.optimize(cleanup_older_than=timedelta(seconds=self._settings.keep_versions))
            for other in self._tables:
                self._sync(other)
        self._sync(name)

    def _sync(self, name: str) -> None:
        """Sync the files of a table that are new, and the names in their folders: Lance does not."""
        known, there = self._synced.get(name, set()), set()
        for folder, _, files in os.walk(self._folder / f"{name}.lance"):
            paths = {os.path.join(folder, file) for file in files}
            for path in paths - known:
                _disk.sync_file(Path(path))
            if paths - known:
                _disk.sync_names(Path(folder))
            there |= paths
        self._synced[name] = there


def _literal(value: NodeId) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value) if value != _LEAST else f"({_LEAST + 1} - 1)"  # the minus is read after the digits


def _filter(where: Sequence[Condition]) -> str:
    return as_text(where, "=", lambda values: f"({', '.join(map(_literal, values))})")
