"""The files of a data set: where they are, their checksums, and what is in them.

They are in a named folder, in the folder of DYGCN_DATA, or in a package.
"""

from __future__ import annotations

import hashlib
import io
import os
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dygcn._extras import extra, late
from dygcn.datasets.registry import shipped_names
from dygcn.errors import DatasetError

if TYPE_CHECKING:
    from os import PathLike

    import pyarrow as pa
    import pyarrow.parquet as pq
    from numpy.typing import NDArray

    from dygcn.datasets.registry import DatasetInfo, Original
    from dygcn.engine.records import Int64
else:
    pa, pq = late("pyarrow"), late("pyarrow.parquet")  # names() needs neither

VARIABLE = "DYGCN_DATA"
OWN, LAB = "dygcn.datasets", "dygcn_lab.datasets"  # packages that contain copies
EDGES, NODES = "edges.parquet", "nodes.parquet"
ATTRIBUTES = ("status", "gender", "major", "second_major", "dorm", "year", "high_school")  # of Facebook100


@dataclass(frozen=True, eq=False)
class EventColumns:
    """Events of a set, and one label column as its file has it: numbers or strings."""

    src: Int64
    dst: Int64
    t: Int64
    op: Int64
    labels: NDArray[Any] | None = None


def find(about: DatasetInfo, folder: str | PathLike[str] | None) -> Path | None:
    """Return the file with the edges of a set, or None for the copy that comes with dygcn or dygcn-lab.

    Raises `DatasetError` if there is neither. If `folder` is given, the set must be in it.
    """
    if folder is not None:
        candidates = _candidates(about, Path(folder).expanduser(), alone=True)
    elif variable := os.environ.get(VARIABLE):
        candidates = _candidates(about, Path(variable).expanduser(), alone=False)
    else:
        candidates = []
    for file in candidates:
        if file.is_file():
            return file
    if folder is None and about.ships_in and find_spec(about.ships_in.partition(".")[0]):
        return None
    raise DatasetError(_not_found(about, candidates))


def _candidates(about: DatasetInfo, root: Path, alone: bool) -> list[Path]:
    """Return the possible files. `alone`: the folder may also be that of this set alone."""
    if about.original and root.suffix == Path(about.original.file).suffix:
        return [root]
    wanted = [EDGES] if about.original is None else [EDGES, about.original.file]
    inside = [root / about.name / file for file in wanted]
    return inside + [root / file for file in wanted if alone or file != EDGES]


def _not_found(about: DatasetInfo, candidates: list[Path]) -> str:
    where = "looked for " + " and ".join(map(str, candidates)) if candidates else f"{VARIABLE} is not set"
    found = f"the data set {about.name} was not found: {where}. "
    if about.ships_in == LAB:
        return found + "A copy comes with the laboratory: pip install dygcn-lab"
    if about.ships_in:
        return found + "Without folder= the copy that comes with dygcn is loaded"
    original = f" or {about.original.file}" if about.original else ""
    return found + (
        f"Only {' and '.join(shipped_names(OWN))} comes with dygcn. This one is published by "
        f"{about.publisher}, {about.address}. Put {EDGES}{original} into a folder called {about.name}, and "
        f"name the parent of that folder in {VARIABLE} or as folder=. docs/datasets.md describes the files"
    )


def read_checked(path: Path, about: DatasetInfo) -> bytes:
    """Return the content of a file; raise `DatasetError` if its checksum is not the registry's."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DatasetError(f"{path} of the data set {about.name} cannot be read: {error.strerror}") from error
    check(content, about.sha256[path.name], str(path), about)
    return content


def read_shipped(about: DatasetInfo) -> bytes:
    """Return the content of the copy that comes with dygcn or dygcn-lab."""
    file = about.shipped_file
    content = files(about.ships_in).joinpath("shipped", file).read_bytes()
    check(content, about.sha256[file], f"{file} of this installation", about)
    return content


def check(content: bytes, expected: str, what: str, about: DatasetInfo) -> None:
    """Raise `DatasetError` if a content has not the expected checksum."""
    found = hashlib.sha256(content).hexdigest()
    if found != expected:
        raise DatasetError(
            f"{what} is not the {about.name} that dygcn knows: expected sha256 {expected[:12]}..., found "
            f"{found[:12]}.... It is damaged, of another version, or another set: get it again. For your own "
            f"events, pass the path of their file to dygcn.fit"
        )


# ---- converted files ---------------------------------------------------------------------------------------


def read_folder(edges: Path, about: DatasetInfo, label: str | None) -> EventColumns:
    """Return the columns of a converted folder; nodes.parquet is read for labels only."""
    columns = event_columns(read_checked(edges, about))
    labels = None
    if label is not None:
        content = read_checked(edges.with_name(NODES), about)
        labels = _label_column(pq.read_table(pa.BufferReader(content), columns=[label]).column(label))
    return EventColumns(*columns, labels)


def event_columns(content: bytes) -> tuple[Int64, Int64, Int64, Int64]:
    """Return src, dst, t and op of a parquet file; without op every event adds."""
    file = pq.ParquetFile(pa.BufferReader(content))
    present = [name for name in ("src", "dst", "t", "op") if name in file.schema_arrow.names]
    table = file.read(columns=present)
    src, dst, t = (table.column(name).to_numpy().astype(np.int64) for name in ("src", "dst", "t"))
    op = table.column("op").to_numpy().astype(np.int64) if "op" in present else np.ones(len(src), np.int64)
    return src, dst, t, op


def _label_column(column: pa.ChunkedArray) -> NDArray[Any]:
    if pa.types.is_integer(column.type):
        return np.asarray(column.to_numpy().astype(np.int64))
    return np.array(column.cast(pa.string()).to_pylist(), dtype=np.str_)


# ---- Facebook100, from the publisher's .mat files ----------------------------------------------------------


def read_mat(path: Path, about: DatasetInfo, original: Original, label: str | None) -> EventColumns:
    """Read a .mat file of a school: ``A`` holds friendships, ``local_info`` attributes of each person."""
    matrix, attributes = _matrices(path)
    src, dst, t = arrivals(matrix.row, matrix.col, len(attributes))
    numbers = (src, dst, attributes)
    content = b"".join(np.ascontiguousarray(part, dtype="<i8").tobytes() for part in numbers)
    check(content, original.content, f"the content of {path}", about)
    labels = None if label is None else attributes[:, ATTRIBUTES.index(label)]
    return EventColumns(src, dst, t, np.ones(len(src), np.int64), labels)


def arrivals(row: Int64, column: Int64, nodes: int) -> tuple[Int64, Int64, Int64]:
    """Return src, dst and an artificial t: a quarter of the nodes at 0, then one node at a time.

    Edges are returned once each, the lower end first, sorted by t, src and dst.
    """
    once = row < column
    src, dst = row[once].astype(np.int64), column[once].astype(np.int64)
    first = nodes // 4
    t = np.where(dst < first, 0, dst - first + 1)
    order = np.lexsort((dst, src, t))
    return src[order], dst[order], t[order]


def _matrices(path: Path) -> tuple[Any, Int64]:
    with extra("facebook100"):
        from scipy.io import loadmat  # noqa: PLC0415
    try:
        content = loadmat(io.BytesIO(path.read_bytes()), variable_names=("A", "local_info"))
        matrix, attributes = content["A"].tocoo(), content["local_info"].astype(np.int64)
    except Exception as error:  # a damaged file may fail in any way
        raise DatasetError(
            f"{path} cannot be read as a school of Facebook100, a MATLAB 5 file with a sparse A and a "
            f"local_info ({type(error).__name__}: {error}). Get it again from its publisher"
        ) from error
    if attributes.ndim != 2 or attributes.shape[1] != len(ATTRIBUTES):
        raise DatasetError(
            f"local_info of {path} has the shape {attributes.shape}; expected is one row a person with "
            f"{', '.join(ATTRIBUTES)}"
        )
    return matrix, attributes
