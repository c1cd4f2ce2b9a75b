"""Facebook100 from the publisher's ``.mat`` files, with the same events as the converted folders."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from dygcn._extras import extra
from dygcn.datasets.finding import check
from dygcn.datasets.reading import Columns
from dygcn.errors import DatasetError

if TYPE_CHECKING:
    from pathlib import Path

    from dygcn.datasets.registry import DatasetInfo, Original
    from dygcn.engine.records import Int64

ATTRIBUTES = ("status", "gender", "major", "second_major", "dorm", "year", "high_school")


def read_mat(path: Path, about: DatasetInfo, original: Original, label: str | None) -> Columns:
    """Read a school: matrix ``A`` has the friendships, ``local_info`` a row of attributes for each person.

    Raises `DatasetError` if the content is not the publisher's.
    """
    matrix, attributes = _matrices(path)
    src, dst, t = arrivals(matrix.row, matrix.col, len(attributes))
    numbers = (src, dst, attributes)
    content = b"".join(np.ascontiguousarray(part, dtype="<i8").tobytes() for part in numbers)
    check(content, original.content, f"the content of {path}", about)
    labels = None if label is None else attributes[:, ATTRIBUTES.index(label)]
    return Columns(src, dst, t, np.ones(len(src), np.int64), labels)


def arrivals(row: Int64, column: Int64, nodes: int) -> tuple[Int64, Int64, Int64]:
    """Return src, dst and an artificial t: a quarter of the nodes at 0, then one node at a time.

    Edges are returned once each, the lower end first, sorted by t, src and dst.

    Examples
    --------
    >>> ends = np.array([(0, 1), (1, 0), (3, 0), (0, 3), (7, 1), (1, 7)])
    >>> arrivals(ends[:, 0], ends[:, 1], 8)
    (array([0, 0, 1]), array([1, 3, 7]), array([0, 2, 6]))
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
