"""The copies that come with the package: ids and times only, no names."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS = {"src": pa.int32(), "dst": pa.int32(), "t": pa.int64(), "op": pa.int8()}


def write_shipped(source_folder: Path, target: str | PathLike[str]) -> None:
    """Write the events of a converted folder as one small file, in their order, without any other column.

    Its checksum belongs into ``registry.toml``; other versions of pyarrow write the same events as other
    bytes.
    """
    table = pq.read_table(source_folder / "edges.parquet", columns=list(COLUMNS))
    pq.write_table(
        table.cast(pa.schema(COLUMNS)),
        target,
        use_dictionary=False,
        write_statistics=False,
        store_schema=False,
        compression="zstd",
        compression_level=22,
    )
