"""Vectors in a table of LanceDB, in a folder."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dygcn._extras import extra
from dygcn.engine import _disk
from dygcn.engine.records import History
from dygcn.errors import SinkError
from dygcn.serving.sinks.histories import FIELDS, as_values
from dygcn.serving.sinks.settings import DAY, YEAR, OnOtherHistory, Settings, check_name, check_seconds
from dygcn.serving.sinks.shape import kind_of
from dygcn.serving.sinks.vector_store import POSITION, NodeId, Rank, VectorStoreSink

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dygcn.engine.records import Float32
    from dygcn.serving.sinks.shape import Shape

_LEAST = -(1 << 63)
_POLL = 0.01  # seconds between two looks at the lock
_TYPES = {"int64": pa.int64(), "string": pa.string()}
_POSITION = [
    ("generation", pa.int64()),
    ("epoch", pa.string()),
    ("version", pa.int64()),
    ("chain", pa.string()),
]
_MARKS = pa.schema([("key", pa.string()), *_POSITION, ("at", pa.int64()), ("shape", pa.string())])
_NEWER = (
    "source.generation > target.generation OR "
    "(source.generation = target.generation AND source.version > target.version)"
)


class LanceSettings(Settings, frozen=True, tag="lancedb"):
    """Where rows go in LanceDB.

    Parameters
    ----------
    folder
        Of the database; created if it is not there.
    table
        Its name; created if it is not there.
    keep_left
        Seconds for which an id that left is remembered, in ``<table>_marks``: for that long, a late repeat
        of an older write does not bring it back.
    keep_versions
        Seconds for which older versions of the table can be read. Files of older ones are removed.
    optimize_after
        Writes after which fragments are merged and indexes are brought up to date.
    timeout
        Seconds that a writer waits for another one.
    other_history
        Action if the table holds rows of another history; see
        `dygcn.serving.sinks.settings.OnOtherHistory`.

    Examples
    --------
    >>> LanceSettings(folder="vectors", table="people")
    LanceSettings(folder='vectors', table='people', keep_left=86400.0, keep_versions=3600.0, ...)
    """

    folder: str
    table: str = "dygcn_vectors"
    keep_left: float = DAY
    keep_versions: float = 3600.0
    optimize_after: int = 50
    timeout: float = 60.0
    other_history: OnOtherHistory = "rewrite"

    def __post_init__(self) -> None:
        check_name("table", self.table, r"[A-Za-z0-9_-]{1,100}", "a name of letters, digits, _ and -")
        check_seconds("keep_left", self.keep_left, YEAR)
        check_seconds("keep_versions", self.keep_versions, YEAR)
        check_seconds("timeout", self.timeout, DAY)
        check_name("optimize_after", str(self.optimize_after), "[1-9][0-9]{0,5}", "a number from 1 to 999999")


class LanceSink(VectorStoreSink):
    """A table with a row for each node: ``id``, ``vector``, and the position of each row.

    That is ``generation``, ``epoch``, ``version`` (the sequence) and ``chain``; and ``kind``, if nodes have
    kinds. ``<table>_marks`` has the newest position that was written, and ids that left, by a hash. To begin
    again, drop the table.

    Writers wait for each other on a lock in the folder, so an older version never replaces a newer one, in
    any order of writes, by any process of this machine. Each version of the table is complete; a write makes
    one for rows that came and one for rows that left. A write is on disk when it returns.

    Parameters
    ----------
    settings
        Where, and how.
    """

    def __init__(self, settings: LanceSettings) -> None:
        folder = Path(settings.folder).absolute()
        name = f"lancedb://{folder}/{settings.table}"
        super().__init__(name, LanceStore(settings, folder, name), settings.keep_left)


class LanceStore:
    """Two tables of LanceDB; see `dygcn.serving.sinks.vector_store.VectorStore`."""

    # LanceDB has no errors of its own.
    errors: tuple[type[BaseException], ...] = (
        OSError,
        ValueError,
        RuntimeError,
        TypeError,
        pa.ArrowException,
    )

    def __init__(self, settings: LanceSettings, folder: Path, name: str) -> None:
        with extra("lancedb"):
            import lancedb  # noqa: PLC0415
        self._lancedb, self._settings, self._folder, self._name = lancedb, settings, folder, name
        self._rows_name, self._marks_name = settings.table, f"{settings.table}_marks"
        self._database: Any = None
        self._tables: dict[str, Any] = {}
        self._synced: dict[str, set[str]] = {}
        self._writes = 0

    def open(self, shape: Shape) -> None:
        """Connect to the folder."""
        self._database = self._lancedb.connect(self._folder, read_consistency_interval=timedelta(0))
        self._writes = 0

    def close(self) -> None:
        """Let go of the tables."""
        self._database, self._tables, self._synced = None, {}, {}

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the lock of the table, which lies beside it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        handle = _disk.open_own(self._folder / f".{self._rows_name}.lock", os.O_RDWR | os.O_CREAT)
        try:
            until = time.monotonic() + self._settings.timeout
            while not _locked(handle):
                if time.monotonic() > until:
                    raise SinkError(f"{self._name}: another writer has the lock; end it, or wait for it")
                time.sleep(_POLL)
            yield
        finally:
            os.close(handle)

    def collections(self) -> tuple[bool, bool]:
        """Return whether there are rows and marks."""
        there: set[str] = set()
        page, more = self._database.list_tables(), True
        while more:
            there.update(page.tables)
            more = bool(page.page_token)
            page = self._database.list_tables(page_token=page.page_token) if more else page
        return self._rows_name in there, self._marks_name in there

    def create_marks(self) -> None:
        """Create the table of marks."""
        self._create(self._marks_name, _MARKS)

    def create_rows(self, shape: Shape) -> None:
        """Create the table of rows."""
        vector = pa.list_(pa.float32(), shape.dim)
        kind = [("kind", pa.string())] if shape.with_kinds else []
        fields = [("id", _TYPES[shape.stored]), *kind, ("vector", vector), *_POSITION]
        self._create(self._rows_name, pa.schema(fields))

    def shape_there(self) -> str:
        """Return the shape that was kept with the position."""
        found = self._select(self._marks_name, f"key = {_literal(POSITION)}", ["shape"])
        return str(found["shape"][0]) if len(found) else "(none)"

    def marks(self, keys: Sequence[str]) -> dict[str, History]:
        """Return those marks that are there."""
        found = self._select(self._marks_name, f"key IN ({_literals(keys)})", ["key", *FIELDS])
        return {row.pop("key"): History(*row.values()) for row in found.to_pylist()}

    def put_marks(self, keys: Sequence[str], history: History, at: int, shape: str = "") -> None:
        """Write marks in one commit."""
        values = {"key": list(keys), **_repeated(history, len(keys))}
        values |= {"at": [at] * len(keys), "shape": [shape] * len(keys)}
        merge = self._table(self._marks_name).merge_insert("key")
        merge = merge.when_matched_update_all().when_not_matched_insert_all()
        merge.execute(pa.table(values, schema=_MARKS))
        self._committed(self._marks_name)

    def delete_marks(self, keys: Sequence[str]) -> None:
        """Delete marks."""
        self._delete(self._marks_name, f"key IN ({_literals(keys)})")

    def delete_marks_before(self, at: int) -> None:
        """Delete marks of an earlier time."""
        self._delete(self._marks_name, f"at < {at}")

    def delete_marks_of_others(self, generation: int) -> None:
        """Delete marks of other generations."""
        self._delete(self._marks_name, f"generation <> {generation}")

    def any_rows(self) -> bool:
        """Return whether there is any row."""
        return bool(self._table(self._rows_name).count_rows())

    def ranks(self, ids: Sequence[NodeId]) -> dict[NodeId, Rank]:
        """Return the rank of each id that has a row."""
        found = self._select(self._rows_name, f"id IN ({_literals(ids)})", ["id", "generation", "version"])
        ranks = zip(found["generation"].to_pylist(), found["version"].to_pylist(), strict=True)
        return dict(zip(found["id"].to_pylist(), ranks, strict=True))

    def put_rows(self, ids: Sequence[NodeId], vectors: Float32, history: History) -> None:
        """Write rows in one commit, each unless the table has a newer one."""
        table = self._table(self._rows_name)
        flat = pa.array(vectors.reshape(-1))
        values = {"id": list(ids), "vector": pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])}
        if "kind" in table.schema.names:
            values["kind"] = list(map(kind_of, ids))
        rows = pa.table(values | _repeated(history, len(ids)), schema=table.schema)
        merge = table.merge_insert("id").when_matched_update_all(where=_NEWER).when_not_matched_insert_all()
        merge.execute(rows)
        self._committed(self._rows_name)

    def delete_rows(self, ids: Sequence[NodeId], below: Rank) -> None:
        """Delete those rows of ids that are of a lower rank."""
        generation, version = below
        lower = f"(generation < {generation} OR (generation = {generation} AND version < {version}))"
        self._delete(self._rows_name, f"id IN ({_literals(ids)}) AND {lower}")

    def delete_rows_of_others(self, epoch: str) -> None:
        """Delete rows of other epochs."""
        self._delete(self._rows_name, f"epoch <> {_literal(epoch)}")

    def ids_below(self, version: int, epoch: str, most: int) -> list[NodeId]:
        """Return ids whose rows are of an epoch and below a version."""
        where = f"version < {version} AND epoch = {_literal(epoch)}"
        ids: list[NodeId] = self._select(self._rows_name, where, ["id"], most)["id"].to_pylist()
        return ids

    def _create(self, name: str, schema: pa.Schema) -> None:
        self._tables[name] = self._database.create_table(name, schema=schema, mode="overwrite")
        self._committed(name)
        _disk.sync_names(self._folder)

    def _table(self, name: str) -> Any:
        if name not in self._tables:
            self._tables[name] = self._database.open_table(name)
        return self._tables[name]

    def _select(self, name: str, where: str, fields: list[str], most: int = 1 << 30) -> pa.Table:
        return self._table(name).search().where(where).select(fields).limit(most).to_arrow()

    def _delete(self, name: str, where: str) -> None:
        if self._table(name).count_rows(where):  # a deletion of nothing would be a version, too
            self._table(name).delete(where)
            self._committed(name)

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


def _locked(handle: int) -> bool:
    try:
        _disk.lock(handle)
    except OSError:
        return False
    return True


def _literal(value: NodeId) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value) if value != _LEAST else f"({_LEAST + 1} - 1)"  # the minus is read after the digits


def _literals(values: Sequence[NodeId]) -> str:
    return ", ".join(map(_literal, values))


def _repeated(history: History, count: int) -> dict[str, list[Any]]:
    return {field: [value] * count for field, value in as_values(history).items()}
