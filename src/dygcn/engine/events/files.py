"""Events from files: Parquet, CSV and NDJSON."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from dygcn._extras import late
from dygcn.engine.events.kinds import APART
from dygcn.errors import EventError

pc, csv, json = late("pyarrow.compute"), late("pyarrow.csv"), late("pyarrow.json")
parquet = late("pyarrow.parquet")  # it brings ssl and clients of clouds

_PARQUET = {".parquet", ".pq"}
_CSV = {".csv", ".tsv"}
_NDJSON = {".ndjson", ".jsonl", ".json"}
IDS = ("src", "dst", "id")
_ROWS_A_BYTE, _MOST_UNPACKED, _FEW = 8, 200, 1 << 22  # beyond these a Parquet file is a bomb
_DEEPEST, _BLOCK = 64, 1 << 20


def read_table(
    path: str, columns: Sequence[str] | None = None, kind: str | None = None, ids: Sequence[str] = IDS
) -> pa.Table:
    """Read a file of events or features; the ending of its name says the format."""
    file = Path(path)
    ending = file.suffix.lower()
    if ending not in _PARQUET | _CSV | _NDJSON and (ending or os.path.exists(file)):
        raise EventError(f"the format of {path!r} is unknown; name it .parquet, .csv, .tsv or .ndjson")
    try:
        if not file.is_file():
            raise EventError(f"there is no file {path!r}")
        if ending in _PARQUET:
            return _read_parquet(file, columns, ids)
        if ending in _CSV:
            return _read_csv(file, "\t" if ending == ".tsv" else ",", kind, ids)
        return _read_ndjson(file, ids)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise EventError(f"cannot read {path!r}: {reason}") from None


def _read_parquet(file: Path, columns: Sequence[str] | None, ids: Sequence[str]) -> pa.Table:
    about, size = parquet.read_metadata(file), file.stat().st_size
    groups = (about.row_group(i).total_byte_size for i in range(about.num_row_groups))
    if about.num_rows > _ROWS_A_BYTE * size + _FEW or sum(groups) > _MOST_UNPACKED * size + _FEW:
        raise EventError(
            f"{str(file)!r} says that its {size:,} bytes hold {about.num_rows:,} rows, as no file of events "
            "does; if the file is right, write it again without compression"
        )
    schema = about.schema.to_arrow_schema()
    if columns is not None and not set(ids) & set(columns) <= set(schema.names):
        return schema.empty_table()  # an end is missing: the error names all columns
    wanted = None if columns is None else [name for name in columns if name in schema.names]
    # A long word that stands for many is seen to be too long before it is repeated.
    words = [field.name for field in schema if field.name in ids and pa.types.is_string(field.type)]
    return parquet.read_table(file, columns=wanted, read_dictionary=words)


def _refuse_deep(file: Path) -> None:
    """Refuse JSON without lines, or nested so deeply that reading it would crash the process."""
    depth = 0
    with file.open("rb") as stream:
        while block := stream.read(_BLOCK):
            data = np.frombuffer(block, np.uint8)
            up = (data == ord("[")) | (data == ord("{"))
            down = (data == ord("]")) | (data == ord("}"))
            depths = depth + np.cumsum(up.astype(np.int32) - down)
            ends = data == ord("\n")
            if len(data) == _BLOCK and not ends.any():
                raise EventError(
                    f"{str(file)!r} has a line of {_BLOCK:,} bytes or more; one line is one event"
                )
            line = np.maximum.accumulate(np.where(ends, np.arange(len(data)), -1))  # where the last one ended
            within = depths - np.where(line < 0, 0, depths[line])
            if within.max() > _DEEPEST:
                raise EventError(
                    f"{str(file)!r} is nested more than {_DEEPEST} levels deep; an event is flat"
                )
            depth = int(within[-1])


def _read_ndjson(file: Path, ids: Sequence[str]) -> pa.Table:
    _refuse_deep(file)
    table = json.read_json(file)
    # Arrow takes text that looks like a date for one; an id is never a date.
    dates = [field.name for field in table.schema if field.name in ids and pa.types.is_temporal(field.type)]
    if not dates:
        return table
    schema = pa.schema([(name, pa.string()) for name in dates])
    return json.read_json(file, parse_options=json.ParseOptions(explicit_schema=schema))


def _read_csv(file: Path, delimiter: str, kind: str | None, ids: Sequence[str]) -> pa.Table:
    table = csv.read_csv(
        file,
        parse_options=csv.ParseOptions(delimiter=delimiter),
        convert_options=csv.ConvertOptions(
            column_types=dict.fromkeys(ids, pa.string()), strings_can_be_null=True, null_values=[""]
        ),
    )
    ends = [name for name in ids if name in table.column_names]
    for name in ends:
        if table.column_names.count(name) > 1:
            raise EventError(f"there are two columns {name!r}; rename one")
        if len(table) and pc.all(pc.match_substring_regex(table.column(name), r"^-?[0-9]+\.0$")).as_py():
            raise EventError(
                f"column {name!r} holds integers written as floats (such as 7.0); ids never go through floats"
            )
    integers = [None if kind == "string" else _as_integers(table.column(name)) for name in ends]
    if kind == APART or all(column is not None for column in integers):
        for name, column in zip(ends, integers, strict=True):
            if column is None:
                continue
            table = table.set_column(table.column_names.index(name), name, column)
    return table


def _as_integers(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Return text ids as int64, unless that would lose a digit: 007 stays text."""
    try:
        numbers = column.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    return numbers if pc.all(pc.equal(numbers.cast(pa.string()), column)).as_py() is not False else None
