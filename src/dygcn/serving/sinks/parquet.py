"""Vectors in a folder of Parquet files, one for each write."""

from __future__ import annotations

import hashlib
import io
import os
import re
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dygcn.engine._disk import sync_names
from dygcn.engine.records import Bool, History, Rows
from dygcn.errors import SinkError
from dygcn.serving.addresses import Settings, failure
from dygcn.serving.sinks.sink import OnOtherHistory, Shape, StoreSink, admit, kind_of, newest

ABOUT = "about.json"
_STALE = 3600.0  # seconds after which an unfinished file is removed
_TRIES = 30  # files may be merged away during a read
_IDS = {"int64": pa.int64(), "string": pa.string()}
_SAME = ["kind", "epoch", "chain"]  # columns in which few texts come again and again
_NAME = re.compile(
    r"(rows|deleted_below)-(\d{19})-([0-9a-f]{16})-(\d{19})-([0-9a-f]{32})(?:-(\d{19}))?-([0-9a-f]{32})\.parquet"
)


class ParquetSettings(Settings, frozen=True, tag="parquet"):
    """Where rows go as files.

    >>> ParquetSettings(folder="vectors")
    ParquetSettings(folder='vectors', other_history='rewrite')
    """

    folder: str
    other_history: OnOtherHistory = "rewrite"

    def make(self) -> StoreSink:
        return StoreSink(ParquetStore(self))


class ParquetStore:
    """A folder in which every write leaves one Parquet file; `read_rows` returns the newest row of each id.

    The name of a file is made of its position and a checksum of its content, so a repeated write gives the
    same file. A file is written under another name, synced and renamed, so it is always complete. A node that
    left has no vector. `delete_below` merges all files into one: call it before they are too many (with a
    floor of 0 it deletes no row of its epoch). A write reads the names of all files, and is refused if one of
    them is of a newer history; if one appears at that moment, `read_rows` still returns the newer rows.
    """

    errors: tuple[type[BaseException], ...] = (OSError, pa.ArrowException)
    not_finite = ""

    def __init__(self, settings: ParquetSettings) -> None:
        self.settings = settings
        self._folder = Path(settings.folder).absolute()
        self.name, self.secrets = f"parquet://{self._folder}", list[str]()
        self._shape: Shape

    def connect(self, shape: Shape) -> None:
        self._shape = shape
        self._folder.mkdir(parents=True, exist_ok=True)
        sync_names(self._folder.parent)
        for unfinished in self._folder.glob(".*.part"):
            if time.time() - unfinished.stat().st_mtime > _STALE:
                unfinished.unlink(missing_ok=True)
        if not (self._folder / ABOUT).exists():
            beside = self._folder / f".{ABOUT}.{secrets.token_hex(8)}.part"
            write_synced(beside, msgspec.json.encode(str(shape)))
            try:
                os.link(beside, self._folder / ABOUT)  # unlike a rename, it replaces no other file
            except FileExistsError:
                pass
            finally:
                beside.unlink()
            sync_names(self._folder)
        shape.refuse(self.name, str(read_shape(self._folder)))

    def disconnect(self) -> None:
        pass  # no file stays open

    def held(self) -> History | None:
        return held(self._folder)

    def write(self, rows: Rows) -> None:
        admit(held(self._folder), rows.history, self.name)
        put(self._folder, rows_table(rows, self._shape), _About(rows.history))

    def delete_below(self, floor: int, history: History) -> None:
        """Merge all files into one with the newest row of each id; rows below `floor` are gone for good.

        So are rows of other epochs. Versions below `floor` that come later are never read.
        """
        table, before, files = read_all(self._folder, self._shape)
        there = newest(read_name(file).history for file in files)
        admit(there, history, self.name)
        if before is not None and before.history.epoch == history.epoch:
            floor = max(floor, before.floor)
        about = _About(newest([there, history]) or history, floor)
        merged = put(self._folder, newest_rows(table, about), about)
        for file in files:
            if file != merged:
                file.unlink(missing_ok=True)
        sync_names(self._folder)

    def forget_left(self) -> None:
        pass  # `delete_below` forgets


def read_rows(folder: str | os.PathLike[str]) -> pa.Table:
    """Return the newest row of each id in a folder that a sink writes, without nodes that left.

    Returns
    -------
    pyarrow.Table
        The columns ``id``, ``kind`` if nodes have kinds, ``generation``, ``epoch``, ``version``, ``chain``
        and ``vector``, in the order of the ids.

    Raises
    ------
    SinkError
        If it is no such folder, or if a file is damaged.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from dygcn.engine.records import History, Rows
    >>> sink = ParquetSettings(folder=tempfile.mkdtemp()).make()
    >>> sink.open("int64", 2)
    >>> none, first, second = np.array([], np.int64), *(History(1, 16 * "e", at, 32 * "c") for at in (1, 2))
    >>> sink.write(Rows(np.array([7, 8]), np.eye(2, dtype=np.float32), none, first))
    >>> sink.write(Rows(none, np.zeros((0, 2), np.float32), np.array([8]), second))
    >>> read_rows(sink.name.removeprefix("parquet://")).select(["id", "version", "vector"]).to_pylist()
    [{'id': 7, 'version': 1, 'vector': [1.0, 0.0]}]
    """
    path = Path(folder)
    try:
        table, merged, _ = read_all(path, read_shape(path))
    except (OSError, pa.ArrowException) as error:
        raise failure(SinkError, f"parquet://{path}", error) from error
    table = newest_rows(table, merged)
    there = table.filter(pc.invert(table["left"])).drop_columns(["left"])
    return there.sort_by("id").replace_schema_metadata(None)


@dataclass(frozen=True, slots=True)
class _About:
    """The facts in a file's name: its newest position and, in a merged file, the floor of `delete_below`.

    A merged file ends rows in all other files: those of lower generations, of other epochs of its generation,
    and of its epoch below the floor.
    """

    history: History
    floor: int = -1  # not merged

    def __str__(self) -> str:
        at = self.history
        text = f"{at.generation:019d}-{at.epoch}-{at.sequence:019d}-{at.chain}"
        return f"rows-{text}" if self.floor < 0 else f"deleted_below-{text}-{self.floor:019d}"


def rows_table(rows: Rows, shape: Shape) -> pa.Table:
    """Return rows and those that left as one table."""
    type_ = pa.list_(pa.float32(), shape.dim)
    flat = pa.array(np.ascontiguousarray(rows.vectors).ravel())
    vectors = pa.FixedSizeListArray.from_arrays(flat, shape.dim)
    ids = [pa.array(column, _IDS[shape.stored]) for column in (rows.ids, rows.left)]
    kinds = [pa.array(list(map(kind_of, (*rows.ids, *rows.left))), pa.string())] if shape.with_kinds else []
    return pa.Table.from_arrays(
        [
            pa.concat_arrays(ids),
            *kinds,
            pa.repeat(pa.scalar(rows.history.generation, pa.int64()), len(rows)),
            pa.repeat(rows.history.epoch, len(rows)),
            pa.repeat(pa.scalar(rows.history.sequence, pa.int64()), len(rows)),
            pa.repeat(rows.history.chain, len(rows)),
            pa.concat_arrays([vectors.cast(type_), pa.nulls(len(rows.left), type_)]),
            pa.array(np.arange(len(rows)) >= len(rows.ids)),
        ],
        schema=_schema(shape),
    )


def _schema(shape: Shape) -> pa.Schema:
    columns = {
        "id": _IDS[shape.stored],
        **({"kind": pa.string()} if shape.with_kinds else {}),
        "generation": pa.int64(),
        "epoch": pa.string(),
        "version": pa.int64(),
        "chain": pa.string(),
        "vector": pa.list_(pa.float32(), shape.dim),
        "left": pa.bool_(),
    }
    return pa.schema(list(columns.items()))


def checksum(content: bytes, about: _About) -> str:
    """Return a checksum of a file and of the facts in its name."""
    return hashlib.sha256(f"{about} ".encode() + content).hexdigest()[:32]


def read_name(path: Path) -> _About:
    """Return the facts in a file's name."""
    found = _NAME.fullmatch(path.name)
    if found is None or (found[1] == "deleted_below") != (found[6] is not None):
        raise SinkError(f"{path} is damaged, or not ours: its name is none that we give")
    history = History(int(found[2]), found[3], int(found[4]), found[5])
    return _About(history, int(found[6] or -1))


def held(folder: Path) -> History | None:
    """Return the newest position that a folder's files are of, by their names."""
    return newest(read_name(file).history for file in files_of(folder))


def newest_rows(table: pa.Table, merged: _About | None) -> pa.Table:
    """Return the row of the highest generation and version of each id, unless that is gone."""
    if table.num_rows == 0:
        return table
    versions: NDArray[Any] = table["version"].to_numpy()
    generations: NDArray[Any] = table["generation"].to_numpy()
    encoded = table["id"].dictionary_encode().unify_dictionaries()
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks])
    order = np.lexsort((versions, generations, codes))
    last: Bool = np.append(codes[order][1:] != codes[order][:-1], True)
    chosen = np.sort(order[last])
    if merged is not None:
        chosen = chosen[~_gone(table, merged)[chosen]]
    return table.take(pa.array(chosen))


def _gone(table: pa.Table, merged: _About) -> Bool:
    generations, versions = table["generation"].to_numpy(), table["version"].to_numpy()
    ours = pc.equal(table["epoch"], merged.history.epoch).to_numpy()
    at, last = generations == merged.history.generation, merged.history.generation
    gone: Bool = (generations < last) | (at & (~ours | (versions < merged.floor)))
    return gone


def read_shape(folder: Path) -> Shape:
    """Return the shape that a folder was made for."""
    try:
        text = msgspec.json.decode((folder / ABOUT).read_bytes(), type=str)
        ids, _, dim = text.rpartition(":")
        return Shape(ids, int(dim))
    except (ValueError, FileNotFoundError):
        raise SinkError(f"{folder} is no folder of a Parquet sink, or its {ABOUT} is damaged") from None


def files_of(folder: Path) -> list[Path]:
    """Return the files that have their names: they are complete."""
    return sorted([*folder.glob("rows-*.parquet"), *folder.glob("deleted_below-*.parquet")])


def read_all(folder: Path, shape: Shape) -> tuple[pa.Table, _About | None, list[Path]]:
    """Return all rows, the facts of the last merged file, and all files, however often they are merged."""
    for attempt in range(_TRIES):
        time.sleep(0.01 * attempt)
        files = files_of(folder)
        try:
            read = [_read(file) for file in files]
        except FileNotFoundError:
            continue  # merged since it was listed
        if _merged(files) == _merged(files_of(folder)):  # or the listing may have missed both of two
            break
    else:
        raise SinkError(f"{folder} is merged again and again while it is read; try again")
    merged = [about for about in map(read_name, files) if about.floor >= 0]
    last = max(merged, key=lambda one: (one.history.generation, one.floor), default=None)
    return pa.concat_tables([_schema(shape).empty_table(), *read]), last, files


def _merged(files: list[Path]) -> list[Path]:
    return [file for file in files if file.name.startswith("deleted_below-")]


def _read(path: Path) -> pa.Table:
    """Return the rows of a file, compared with its name."""
    content = path.read_bytes()
    if not path.name.endswith(f"-{checksum(content, read_name(path))}.parquet"):
        raise SinkError(f"{path} is damaged: what is in it is not what its name says")
    return pq.ParquetFile(io.BytesIO(content)).read().replace_schema_metadata(None)


def put(folder: Path, table: pa.Table, about: _About) -> Path:
    """Write a file, which is complete and on disk from the moment that it has its name."""
    out = pa.BufferOutputStream()
    whole = table.combine_chunks()  # so that the same rows give the same bytes
    pq.write_table(whole, out, compression="zstd", use_dictionary=_SAME)
    content = out.getvalue().to_pybytes()
    path = folder / f"{about}-{checksum(content, about)}.parquet"
    beside = folder / f".{path.name}.{secrets.token_hex(8)}.part"
    try:
        write_synced(beside, content)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    sync_names(folder)
    return path


def write_synced(path: Path, content: bytes) -> None:
    """Write a file and wait until it is on disk."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
