"""Events from files: Parquet, CSV and NDJSON."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from dygcn.errors import EventError

_PARQUET = {".parquet", ".pq"}
_CSV = {".csv", ".tsv"}
_NDJSON = {".ndjson", ".jsonl", ".json"}


def read_table(path: str) -> pa.Table:
    """Read a file of events; the ending of its name says the format.

    Raises
    ------
    EventError
        If the file is missing, of another format or cannot be read.
    """
    file = Path(path)
    ending = file.suffix.lower()
    if ending not in _PARQUET | _CSV | _NDJSON:
        raise EventError(f"cannot tell the format of {path!r}; name it .parquet, .csv, .tsv or .ndjson")
    if not file.is_file():
        raise EventError(f"there is no file {path!r}")
    try:
        if ending in _PARQUET:
            names = pyarrow.parquet.read_schema(file).names
            wanted = [name for name in ("src", "dst", "t", "op", "weight") if name in names]
            return pyarrow.parquet.read_table(file, columns=wanted or None)
        if ending in _CSV:
            return _read_csv(file, "\t" if ending == ".tsv" else ",")
        return pyarrow.json.read_json(file)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise EventError(f"cannot read {path!r}: {str(error).splitlines()[0]}") from None


def _read_csv(file: Path, delimiter: str) -> pa.Table:
    table = pyarrow.csv.read_csv(
        file,
        parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types={"src": pa.string(), "dst": pa.string()}, strings_can_be_null=True, null_values=[""]
        ),
    )
    ends = [name for name in ("src", "dst") if name in table.column_names]
    integers = [_as_integers(table.column(name)) for name in ends]
    if all(column is not None for column in integers):
        for name, column in zip(ends, integers, strict=True):
            table = table.set_column(table.column_names.index(name), name, column)
    return table


def _as_integers(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Return the ids as int64, unless that would lose a digit: 007 stays a string."""
    try:
        numbers = column.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    return numbers if pc.all(pc.equal(numbers.cast(pa.string()), column)).as_py() is not False else None
