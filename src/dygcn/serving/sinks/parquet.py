"""Vectors in a folder of Parquet files, one for each write."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dygcn.engine._disk import sync_names
from dygcn.engine.records import History
from dygcn.errors import SinkError
from dygcn.serving.addresses import Settings, failure
from dygcn.serving.sinks.histories import admit, newest
from dygcn.serving.sinks.shape import Shape, kind_of
from dygcn.serving.sinks.sink import OnOtherHistory, StoreSink

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dygcn.engine.records import Bool, Rows

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

    Parameters
    ----------
    folder
        Made if it is not there; nothing else should be in it.
    other_history
        Action if the files are of another history; see `dygcn.serving.sinks.sink.OnOtherHistory`.

    Examples
    --------
    >>> ParquetSettings(folder="vectors")
    ParquetSettings(folder='vectors', other_history='rewrite')
    """

    folder: str
    other_history: OnOtherHistory = "rewrite"

    def make(self) -> StoreSink:
        """Return the sink, not open yet."""
        return StoreSink(ParquetStore(self))


class ParquetStore:
    """A folder in which every write leaves one Parquet file.

    Columns are ``id``, ``kind`` if nodes have kinds, ``generation``, ``epoch``, ``version``, ``chain``,
    ``vector`` (null for a node that left) and ``left``. The name of a file is made of its position and a
    checksum of its content, so a repeated write gives the same file. A file is written under another name,
    synced and renamed, so it is always complete. `read_rows` returns the newest row of each id.
    `delete_below` merges all files into one: call it before they are too many (with a floor of 0 it deletes
    no row of its epoch).

    A write reads the names of all files, and is refused if one of them is of a newer history. If such a
    file appears at that moment, `read_rows` still returns the newer rows.
    """

    errors: tuple[type[BaseException], ...] = (OSError, pa.ArrowException)
    not_finite = ""

    def __init__(self, settings: ParquetSettings) -> None:
        self.settings = settings
        self._folder = Path(settings.folder).absolute()
        self.name, self.secrets = f"parquet://{self._folder}", list[str]()
        self._shape: Shape

    def connect(self, shape: Shape) -> None:
        """Make the folder; write down the shape, or compare it."""
        self._shape = shape
        self._folder.mkdir(parents=True, exist_ok=True)
        sync_names(self._folder.parent)
        for unfinished in self._folder.glob(".*.part"):
            if time.time() - unfinished.stat().st_mtime > _STALE:
                unfinished.unlink(missing_ok=True)
        if not (self._folder / ABOUT).exists():
            beside = self._folder / f".{ABOUT}.{secrets.token_hex(8)}.part"
            write_synced(beside, lambda file: file.write(msgspec.json.encode(str(shape))))
            try:
                os.link(beside, self._folder / ABOUT)  # unlike a rename, it replaces no other file
            except FileExistsError:
                pass
            finally:
                beside.unlink()
            sync_names(self._folder)
        shape.refuse(self.name, str(read_shape(self._folder)))

    def disconnect(self) -> None:
        """Do nothing: no file stays open."""

    def held(self) -> History | None:
        """Return the newest position in the names of files."""
        return held(self._folder)

    def write(self, rows: Rows) -> None:
        """Write a file with rows and with ids that left; return when it is on disk."""
        admit(held(self._folder), rows.history, self.name)
        put(self._folder, rows_table(rows, self._shape), _About(rows.history))

    def delete_below(self, floor: int, history: History) -> None:
        """Merge all files into one with the newest row of each id; rows below `floor` are gone for good.

        So are rows of other epochs. Versions below `floor` that come later are never read.
        """
        content = read_all(self._folder, self._shape)
        there = newest(read_name(file).history for file in content.files)
        admit(there, history, self.name)
        if content.deleted_below is not None and content.deleted_below.epoch == history.epoch:
            floor = max(floor, content.deleted_below.floor)
        about = _About(newest([there, history]) or history, floor)
        merged = put(self._folder, newest_rows(content.table, about.deleted_below), about)
        for file in content.files:
            if file != merged:
                file.unlink(missing_ok=True)
        sync_names(self._folder)

    def forget_left(self) -> None:
        """Do nothing: `delete_below` forgets."""


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
    >>> sink.write(Rows(np.array([7, 8]), np.eye(2, dtype=np.float32), np.array([1, 1]), none, none, first))
    >>> sink.write(Rows(none, np.zeros((0, 2), np.float32), none, np.array([8]), np.array([2]), second))
    >>> read_rows(sink.name.removeprefix("parquet://")).select(["id", "version", "vector"]).to_pylist()
    [{'id': 7, 'version': 1, 'vector': [1.0, 0.0]}]
    """
    path = Path(folder)
    try:
        content = read_all(path, read_shape(path))
    except (OSError, pa.ArrowException) as error:
        raise failure(SinkError, f"parquet://{path}", error) from error
    table = newest_rows(content.table, content.deleted_below)
    there = table.filter(pc.invert(table["left"])).drop_columns(["left"])
    return there.sort_by("id").replace_schema_metadata(None)


@dataclass(frozen=True, slots=True)
class _DeletedBelow:
    """Rows of lower generations are gone, those of other epochs, and those of this one below a version."""

    generation: int
    epoch: str
    floor: int


@dataclass(frozen=True, slots=True)
class _About:
    """The facts in a file's name: its newest position and, in a merged file, the floor of `delete_below`."""

    history: History
    floor: int | None = None

    @property
    def deleted_below(self) -> _DeletedBelow | None:
        """The rows that a merged file deletes in all other files; None for other files."""
        if self.floor is None:
            return None
        return _DeletedBelow(self.history.generation, self.history.epoch, self.floor)

    def __str__(self) -> str:
        at = self.history
        text = f"{at.generation:019d}-{at.epoch}-{at.sequence:019d}-{at.chain}"
        return f"rows-{text}" if self.floor is None else f"deleted_below-{text}-{self.floor:019d}"


@dataclass(frozen=True, slots=True)
class _Content:
    """The content of a folder at one moment."""

    table: pa.Table  # every row of every file
    deleted_below: _DeletedBelow | None  # of all that were merged, the highest
    files: list[Path]


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
            pa.array(np.concatenate((rows.versions, rows.left_versions)), pa.int64()),
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


def checksum(table: pa.Table, about: _About) -> str:
    """Return a checksum of the rows, their order and the facts in the file's name."""
    digest = hashlib.sha256(f"{about} {table.num_rows} ".encode())
    for name in ("id", *(["kind"] if "kind" in table.column_names else []), "epoch", "chain"):
        _digest_texts(digest, table[name].combine_chunks())
    for name in ("generation", "version", "left"):
        digest.update(table[name].to_numpy().tobytes())
    vectors = table["vector"].combine_chunks()
    digest.update(vectors.is_valid().to_numpy(zero_copy_only=False).tobytes())
    digest.update(vectors.drop_null().flatten().to_numpy(zero_copy_only=False).tobytes())
    return digest.hexdigest()[:32]


def _digest_texts(digest: Any, column: pa.Array) -> None:
    """Add a column of texts, or of integers."""
    if not pa.types.is_string(column.type):
        digest.update(column.to_numpy(zero_copy_only=False).tobytes())
        return
    encoded = column.dictionary_encode()
    texts = [text.encode() for text in encoded.dictionary.to_pylist()]
    digest.update(np.array([len(text) for text in texts], np.int64).tobytes())
    digest.update(b"".join(texts))
    digest.update(encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64).tobytes())


def file_name(table: pa.Table, about: _About) -> str:
    """Return the name of a file, made of its position and a checksum of its content."""
    return f"{about}-{checksum(table, about)}.parquet"


def read_name(path: Path) -> _About:
    """Return the facts in a file's name."""
    found = _NAME.fullmatch(path.name)
    if found is None or (found[1] == "deleted_below") != (found[6] is not None):
        raise SinkError(f"{path} is damaged, or not ours: its name is none that we give")
    history = History(int(found[2]), found[3], int(found[4]), found[5])
    return _About(history, None if found[6] is None else int(found[6]))


def held(folder: Path) -> History | None:
    """Return the newest position that a folder's files are of, by their names."""
    return newest(read_name(file).history for file in files_of(folder))


def newest_rows(table: pa.Table, deleted_below: _DeletedBelow | None) -> pa.Table:
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
    if deleted_below is not None:
        chosen = chosen[~_gone(table, deleted_below)[chosen]]
    return table.take(pa.array(chosen))


def _gone(table: pa.Table, deleted_below: _DeletedBelow) -> Bool:
    generations, versions = table["generation"].to_numpy(), table["version"].to_numpy()
    ours = pc.equal(table["epoch"], deleted_below.epoch).to_numpy()
    at = generations == deleted_below.generation
    gone: Bool = (generations < deleted_below.generation) | (at & (~ours | (versions < deleted_below.floor)))
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


def read_all(folder: Path, shape: Shape) -> _Content:
    """Read all files, however often they are merged meanwhile."""
    for attempt in range(_TRIES):
        time.sleep(0.01 * attempt)
        files = files_of(folder)
        try:
            read = [_read(file, shape) for file in files]
        except FileNotFoundError:
            continue  # merged since it was listed
        if _merged(files) == _merged(files_of(folder)):  # or the listing may have missed both of two
            break
    else:
        raise SinkError(f"{folder} is merged again and again while it is read; try again")
    ended = [about.deleted_below for about in map(read_name, files) if about.deleted_below is not None]
    highest = max(ended, key=lambda one: (one.generation, one.floor), default=None)
    return _Content(pa.concat_tables([_schema(shape).empty_table(), *read]), highest, files)


def _merged(files: list[Path]) -> list[Path]:
    return [file for file in files if file.name.startswith("deleted_below-")]


def _read(path: Path, shape: Shape) -> pa.Table:
    """Return the rows of a file, compared with its name."""
    about = read_name(path)
    with path.open("rb") as file:  # a missing file raises here
        try:
            table = pq.ParquetFile(file).read().replace_schema_metadata(None).cast(_schema(shape))
            if file_name(table, about) == path.name:
                return table
        except (pa.ArrowException, OSError, ValueError, KeyError, OverflowError) as error:
            raise SinkError(f"{path} is damaged, or not ours: {' '.join(str(error).split())}") from None
    raise SinkError(f"{path} is damaged: what is in it is not what its name says")


def put(folder: Path, table: pa.Table, about: _About) -> Path:
    """Write a file, which is complete and on disk from the moment that it has its name."""
    path = folder / file_name(table, about)
    beside = folder / f".{path.name}.{secrets.token_hex(8)}.part"
    try:
        how = {"compression": "zstd", "use_dictionary": _SAME}
        write_synced(beside, lambda file: pq.write_table(table, file, **how))
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    sync_names(folder)
    return path


def write_synced(path: Path, write: Callable[[Any], Any]) -> None:
    """Write a file and wait until it is on disk."""
    with path.open("wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
