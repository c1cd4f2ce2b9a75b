"""The files of the Parquet sink: how rows become one, and how all of them become rows again."""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dygcn.errors import SinkError
from dygcn.sinks.shape import Shape

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from dygcn.records import Bool, Rows

ABOUT = "about.json"
FLOOR = b"dygcn.settled"  # a file's metadata: rows of any file below this version are gone
_TRIES = 30  # files may be merged away while somebody reads
_IDS = {"int64": pa.int64(), "string": pa.string()}


@dataclass(frozen=True, slots=True)
class Whole:
    """All that a folder held at one moment."""

    table: pa.Table  # every row of every file
    floor: int  # the highest version that was settled
    files: list[Path]


def rows_table(rows: Rows, shape: Shape) -> pa.Table:
    """Return rows and those that left as one table."""
    kind = pa.list_(pa.float32(), shape.dim)
    flat = pa.array(np.ascontiguousarray(rows.vectors).ravel())
    vectors = pa.FixedSizeListArray.from_arrays(flat, shape.dim)
    ids = [pa.array(column, _IDS[shape.kind]) for column in (rows.ids, rows.left)]
    return pa.Table.from_arrays(
        [
            pa.concat_arrays(ids),
            pa.array(np.concatenate((rows.versions, rows.left_versions)), pa.int64()),
            pa.concat_arrays([vectors.cast(kind), pa.nulls(len(rows.left), kind)]),
            pa.array(np.arange(len(rows)) >= len(rows.ids)),
        ],
        schema=_schema(shape),
    )


def _schema(shape: Shape) -> pa.Schema:
    columns = {
        "id": _IDS[shape.kind],
        "version": pa.int64(),
        "vector": pa.list_(pa.float32(), shape.dim),
        "left": pa.bool_(),
    }
    return pa.schema(list(columns.items()))


def checksum(table: pa.Table, floor: int) -> str:
    """Return a text that differs where rows, their order or the settled version do."""
    digest = hashlib.sha256(f"{floor} {table.num_rows} ".encode())
    ids = table["id"].combine_chunks()
    if pa.types.is_string(ids.type):
        texts = [text.encode() for text in ids.to_pylist()]
        digest.update(np.array([len(text) for text in texts], np.int64).tobytes())
        digest.update(b"".join(texts))
    else:
        digest.update(ids.to_numpy(zero_copy_only=False).tobytes())
    digest.update(table["version"].to_numpy().tobytes())
    digest.update(table["left"].to_numpy().tobytes())
    vectors = table["vector"].combine_chunks()
    digest.update(vectors.is_valid().to_numpy(zero_copy_only=False).tobytes())
    digest.update(vectors.drop_null().flatten().to_numpy(zero_copy_only=False).tobytes())
    return digest.hexdigest()[:32]


def file_name(table: pa.Table, floor: int, settled: bool) -> str:
    """Return what a file is called: after versions and a checksum of what is in it."""
    if settled:
        return f"settled-{floor:019d}-{checksum(table, floor)}.parquet"
    versions = table["version"].to_numpy()
    return f"rows-{versions.min():019d}-{versions.max():019d}-{checksum(table, floor)}.parquet"


def newest(table: pa.Table, floor: int) -> pa.Table:
    """Return the row of the highest version of each id, unless that is below the floor."""
    if table.num_rows == 0:
        return table
    versions: NDArray[Any] = table["version"].to_numpy()
    encoded = table["id"].dictionary_encode().unify_dictionaries()
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks])
    order = np.lexsort((versions, codes))
    last: Bool = np.append(codes[order][1:] != codes[order][:-1], True)
    chosen = np.sort(order[last])
    return table.take(pa.array(chosen[versions[chosen] >= floor]))


def read_shape(folder: Path) -> Shape:
    """Return the shape that a folder was made for."""
    try:
        text = msgspec.json.decode((folder / ABOUT).read_bytes(), type=str)
        kind, _, dim = text.partition(":")
        return Shape(kind, int(dim))
    except (ValueError, FileNotFoundError):
        raise SinkError(f"{folder} is no folder of a Parquet sink, or its {ABOUT} is damaged") from None


def files_of(folder: Path) -> list[Path]:
    """Return the files that have their names, that is, those that are whole."""
    return sorted([*folder.glob("rows-*.parquet"), *folder.glob("settled-*.parquet")])


def read_whole(folder: Path, shape: Shape) -> Whole:
    """Read all files, however often they are merged meanwhile."""
    for attempt in range(_TRIES):
        time.sleep(0.01 * attempt)
        files = files_of(folder)
        try:
            read = [_read(file, shape) for file in files]
        except FileNotFoundError:
            continue  # merged since it was listed
        if _settled(files) == _settled(files_of(folder)):  # or the listing may have missed both of two
            break
    else:
        raise SinkError(f"{folder} is merged again and again while it is read; try again")
    tables = [_schema(shape).empty_table(), *(table for table, _ in read)]
    return Whole(pa.concat_tables(tables), max((floor for _, floor in read), default=0), files)


def _settled(files: list[Path]) -> list[Path]:
    return [file for file in files if file.name.startswith("settled-")]


def _read(path: Path, shape: Shape) -> tuple[pa.Table, int]:
    """Return the rows of a file and the version that it settled, compared with its name."""
    with path.open("rb") as file:  # a missing one is told apart here
        try:
            table = pq.ParquetFile(file).read()
            floor = int((table.schema.metadata or {}).get(FLOOR, 0))
            table = table.replace_schema_metadata(None).cast(_schema(shape))
            if file_name(table, floor, path.name.startswith("settled-")) == path.name:
                return table, floor
        except (pa.ArrowException, OSError, ValueError, KeyError, OverflowError) as error:
            raise SinkError(f"{path} is damaged, or not ours: {' '.join(str(error).split())}") from None
    raise SinkError(f"{path} is damaged: what is in it is not what its name says")


def put(folder: Path, table: pa.Table, floor: int | None = None) -> Path:
    """Write a file that is whole, and on disk, from the moment that it has its name."""
    path = folder / file_name(table, floor or 0, floor is not None)
    if floor is not None:
        table = table.replace_schema_metadata({FLOOR: str(floor)})
    beside = folder / f".{path.name}.{secrets.token_hex(8)}.part"
    try:
        write_whole(
            beside, lambda file: pq.write_table(table, file, compression="zstd", use_dictionary=False)
        )
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    sync_folder(folder)
    return path


def write_whole(path: Path, write: Callable[[Any], Any]) -> None:
    """Write a file and wait until it is on disk."""
    with path.open("wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Wait until the names of a folder's files are on disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
