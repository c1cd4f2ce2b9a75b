"""Rows as JSON, one text for each node, for sinks that hand on messages.

==============================================  ===================================================
message                                         meaning
==============================================  ===================================================
``{"id":7,"version":3,"vector":[0.5,-1]}``      node 7 has this vector since version 3
``{"id":7,"version":4,"left":true}``            node 7 is gone since version 4
``{"settled":5}``                               a row below version 5 that did not come again is gone
==============================================  ===================================================

Messages may come twice, and old ones late. Whoever keeps the row of the highest version for each id, and
drops those below the highest settled version, has what the sink would have.

Numbers of a vector are as short as a float32 allows, and become the same float32 again, bit for bit,
whether they are read as float32 or as float64 first. Integers are whole: read ids and versions as int64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dygcn.sinks.shape import check_finite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dygcn.records import Float32, Rows

_AT_ONCE = 1024  # vectors that lie in memory as text
NOT_JSON = "JSON has no word for NaN or infinity: look for what made it (a rolled run may have exploded)"


def row_messages(rows: Rows, name: str) -> Iterator[bytes]:
    """Yield a message for each vector, in the order of the rows.

    Raises
    ------
    SinkError
        If a number is not finite: JSON cannot say it.

    Examples
    --------
    >>> from dygcn.records import Rows
    >>> vectors, none = np.array([[0.1, -0.0]], np.float32), np.array([], np.int64)
    >>> rows = Rows(np.array([7]), vectors, np.array([3]), none, none)
    >>> list(row_messages(rows, "here"))
    [b'{"id":7,"version":3,"vector":[0.1,-0.0]}']
    """
    check_finite(rows, name, NOT_JSON)
    for begin in range(0, len(rows.ids), _AT_ONCE):
        part = slice(begin, begin + _AT_ONCE)
        texts = vector_texts(rows.vectors[part])
        for id_, version, text in zip(
            rows.ids[part].tolist(), rows.versions[part].tolist(), texts, strict=True
        ):
            yield b'{"id":%b,"version":%d,"vector":[%b]}' % (msgspec.json.encode(id_), version, text)


def left_messages(rows: Rows) -> list[bytes]:
    """Return a message for each id that left."""
    return [
        b'{"id":%b,"version":%d,"left":true}' % (msgspec.json.encode(id_), version)
        for id_, version in zip(rows.left.tolist(), rows.left_versions.tolist(), strict=True)
    ]


def settled_message(floor: int) -> bytes:
    """Return the message that ends every row below a version."""
    return b'{"settled":%d}' % floor


def vector_texts(vectors: Float32) -> list[bytes]:
    """Return the numbers of each vector, with commas between.

    Examples
    --------
    >>> vector_texts(np.array([[1, 1e-45], [3.4028235e38, 16777216]], np.float32))
    [b'1,1e-45', b'3.4028235e+38,16777216']
    """
    count, dim = vectors.shape
    flat = np.ascontiguousarray(vectors).ravel()
    texts = _shortest(flat)
    texts = pc.if_else(pc.equal(texts, "-0"), "-0.0", texts)  # many readers take -0 for the integer 0
    read = texts.cast(pa.float64()).to_numpy().astype(np.float32)
    wrong = np.flatnonzero(read.view(np.uint32) != flat.view(np.uint32))
    if len(wrong):  # rounded twice, by way of float64: one more digit or two
        whole = texts.to_pylist()
        for at in wrong.tolist():
            whole[at] = repr(float(flat[at]))
        texts = pa.array(whole, pa.string())
    starts = pa.array(np.arange(0, (count + 1) * dim, dim, dtype=np.int64))
    lines = pc.binary_join(pa.LargeListArray.from_arrays(starts, texts), ",")
    return [line.encode() for line in lines.to_pylist()]


def _shortest(numbers: Float32) -> pa.Array:
    return pa.array(numbers).cast(pa.string())
