"""Columns of converted files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dygcn.datasets.finding import NODES, read_checked

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from dygcn.datasets.registry import DatasetInfo
    from dygcn.engine.records import Int64


@dataclass(frozen=True, eq=False)
class Columns:
    """Events of a set, and one label column as its file has it: numbers or strings."""

    src: Int64
    dst: Int64
    t: Int64
    op: Int64
    labels: NDArray[Any] | None = None


def read_folder(edges: Path, about: DatasetInfo, label: str | None) -> Columns:
    """Return the columns of a converted folder; nodes.parquet is read for labels only."""
    columns = event_columns(read_checked(edges, about))
    labels = None
    if label is not None:
        content = read_checked(edges.with_name(NODES), about)
        labels = _label_column(pq.read_table(pa.BufferReader(content), columns=[label]).column(label))
    return Columns(*columns, labels)


def event_columns(content: bytes) -> tuple[Int64, Int64, Int64, Int64]:
    """Return src, dst, t and op of a parquet file; without op every event adds.

    Examples
    --------
    >>> stream = pa.BufferOutputStream()
    >>> pq.write_table(pa.table({"src": [0], "dst": [1], "t": [7], "rating": [-3]}), stream)
    >>> event_columns(stream.getvalue().to_pybytes())
    (array([0]), array([1]), array([7]), array([1]))
    """
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
