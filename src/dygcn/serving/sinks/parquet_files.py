"""The files of the Parquet sink: how rows become one, and how all of them become rows again."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dygcn.engine._disk import sync_names
from dygcn.engine.records import History
from dygcn.errors import SinkError
from dygcn.serving.sinks.histories import newest
from dygcn.serving.sinks.shape import Shape, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from dygcn.engine.records import Bool, Rows

ABOUT = "about.json"
_TRIES = 30  # files may be merged away while somebody reads
_IDS = {"int64": pa.int64(), "string": pa.string()}
_SAME = ["kind", "epoch", "chain"]  # columns in which few texts come again and again
_NAME = re.compile(
    r"(rows|deleted_below)-(\d{19})-([0-9a-f]{16})-(\d{19})-([0-9a-f]{32})(?:-(\d{19}))?-([0-9a-f]{32})\.parquet"
)


@dataclass(frozen=True, slots=True)
class DeletedBelow:
    """Rows of lower generations are gone, those of other epochs, and those of this one below a version."""

    generation: int
    epoch: str
    floor: int


@dataclass(frozen=True, slots=True)
class About:
    """The facts in a file's name: its newest position and, in a merged file, the floor of `delete_below`."""

    history: History
    floor: int | None = None

    @property
    def deleted_below(self) -> DeletedBelow | None:
        """The rows that a merged file deletes in all other files; None for other files."""
        if self.floor is None:
            return None
        return DeletedBelow(self.history.generation, self.history.epoch, self.floor)

    def __str__(self) -> str:
        at = self.history
        text = f"{at.generation:019d}-{at.epoch}-{at.sequence:019d}-{at.chain}"
        return f"rows-{text}" if self.floor is None else f"deleted_below-{text}-{self.floor:019d}"


@dataclass(frozen=True, slots=True)
class Whole:
    """All that a folder held at one moment."""

    table: pa.Table  # every row of every file
    deleted_below: DeletedBelow | None  # of all that were merged, the highest
    files: list[Path]


def rows_table(rows: Rows, shape: Shape) -> pa.Table:
    """Return rows and those that left as one table."""
    type_ = pa.list_(pa.float32(), shape.dim)
    flat = pa.array(np.ascontiguousarray(rows.vectors).ravel())
    vectors = pa.FixedSizeListArray.from_arrays(flat, shape.dim)
    ids = [pa.array(column, _IDS[shape.stored]) for column in (rows.ids, rows.left)]
    kinds = (
        [pa.array([kind_of(id_) for id_ in (*rows.ids, *rows.left)], pa.string())] if shape.with_kinds else []
    )
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


def checksum(table: pa.Table, about: About) -> str:
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


def file_name(table: pa.Table, about: About) -> str:
    """Return the name of a file, made of its position and a checksum of its content."""
    return f"{about}-{checksum(table, about)}.parquet"


def read_name(path: Path) -> About:
    """Return the facts in a file's name."""
    found = _NAME.fullmatch(path.name)
    if found is None or (found[1] == "deleted_below") != (found[6] is not None):
        raise SinkError(f"{path} is damaged, or not ours: its name is none that we give")
    history = History(int(found[2]), found[3], int(found[4]), found[5])
    return About(history, None if found[6] is None else int(found[6]))


def held(folder: Path) -> History | None:
    """Return the newest position that a folder's files are of, by their names."""
    return newest(read_name(file).history for file in files_of(folder))


def newest_rows(table: pa.Table, deleted_below: DeletedBelow | None) -> pa.Table:
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


def _gone(table: pa.Table, deleted_below: DeletedBelow) -> Bool:
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
    """Return the files that have their names, that is, those that are whole."""
    return sorted([*folder.glob("rows-*.parquet"), *folder.glob("deleted_below-*.parquet")])


def read_whole(folder: Path, shape: Shape) -> Whole:
    """Read all files, however often they are merged meanwhile."""
    for attempt in range(_TRIES):
        time.sleep(0.01 * attempt)
        files = files_of(folder)
        try:
            read = [_read(file, shape) for file in files]
        except FileNotFoundError:
            continue  # merged since it was listed
        if _deleted_below(files) == _deleted_below(
            files_of(folder)
        ):  # or the listing may have missed both of two
            break
    else:
        raise SinkError(f"{folder} is merged again and again while it is read; try again")
    ended = [about.deleted_below for about in map(read_name, files) if about.deleted_below is not None]
    highest = max(ended, key=lambda one: (one.generation, one.floor), default=None)
    return Whole(pa.concat_tables([_schema(shape).empty_table(), *read]), highest, files)


def _deleted_below(files: list[Path]) -> list[Path]:
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


def put(folder: Path, table: pa.Table, about: About) -> Path:
    """Write a file that is whole, and on disk, from the moment that it has its name."""
    path = folder / file_name(table, about)
    beside = folder / f".{path.name}.{secrets.token_hex(8)}.part"
    try:
        write_whole(
            beside, lambda file: pq.write_table(table, file, compression="zstd", use_dictionary=_SAME)
        )
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    sync_names(folder)
    return path


def write_whole(path: Path, write: Callable[[Any], Any]) -> None:
    """Write a file and wait until it is on disk."""
    with path.open("wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
