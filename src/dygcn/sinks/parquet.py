"""Vectors in a folder of Parquet files, one for each write."""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from dygcn.errors import SinkError
from dygcn.sinks.parquet_files import (
    ABOUT,
    newest,
    put,
    read_shape,
    read_whole,
    rows_table,
    sync_folder,
    write_whole,
)
from dygcn.sinks.settings import Settings
from dygcn.sinks.shape import Shape, opened

if TYPE_CHECKING:
    from collections.abc import Callable

    from dygcn.records import Rows

_STALE = 3600.0  # seconds after which a file that nobody finished is removed
_Result = TypeVar("_Result")


class ParquetSettings(Settings, frozen=True, tag="parquet"):
    """Where rows go as files.

    Parameters
    ----------
    folder
        Made if it is not there; nothing else should be in it.

    Examples
    --------
    >>> ParquetSettings(folder="vectors")
    ParquetSettings(folder='vectors')
    """

    folder: str


class ParquetSink:
    """A folder in which every write leaves one file, for whoever reads tables.

    Columns are ``id``, ``version``, ``vector`` (null for a node that left) and ``left``. A file is called
    after its lowest and highest version and a checksum of what is in it, so a repeated write is the same
    file. It is written beside, forced to disk, and renamed; one that is there is whole. `read_rows` gives the
    newest row of each id. `settle` merges all files into one: call it before they are too many
    (``settle(0)`` drops no row).

    Parameters
    ----------
    settings
        Where.
    """

    def __init__(self, settings: ParquetSettings) -> None:
        self._folder = Path(settings.folder).absolute()
        self._shape: Shape | None = None

    @property
    def name(self) -> str:
        """Kind and address of where rows go."""
        return f"parquet://{self._folder}"

    def open(self, kind: str, dim: int) -> None:
        """Make the folder and write down kind and size, or compare them with what is there.

        Raises
        ------
        SinkError
            If the folder cannot be used, or holds rows of another shape.
        """
        self.close()
        shape = Shape(kind, dim)
        _guard(self.name, lambda: self._prepare(shape))
        self._shape = shape

    def write(self, rows: Rows) -> None:
        """Write a file with rows and with those that left; return when it is on disk.

        Raises
        ------
        SinkError
            If it is not; the same rows may come again.
        """
        shape = opened(self._shape, self.name)
        shape.check(rows, self.name)
        if len(rows) == 0:
            return
        _guard(self.name, lambda: put(self._folder, rows_table(rows, shape)))

    def settle(self, floor: int) -> None:
        """Merge all files into one with the newest row of each id; rows below `floor` are gone for good.

        Versions below it that come later are never read.
        """
        shape = opened(self._shape, self.name)
        _guard(self.name, lambda: self._merge(shape, floor))

    def close(self) -> None:
        """Forget the shape: nothing is held. Safe to call twice."""
        self._shape = None

    def _prepare(self, shape: Shape) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        sync_folder(self._folder.parent)
        for unfinished in self._folder.glob(".*.part"):
            if time.time() - unfinished.stat().st_mtime > _STALE:
                unfinished.unlink(missing_ok=True)
        if not (self._folder / ABOUT).exists():
            beside = self._folder / f".{ABOUT}.{secrets.token_hex(8)}.part"
            write_whole(beside, lambda file: file.write(msgspec.json.encode(str(shape))))
            try:
                os.link(beside, self._folder / ABOUT)  # unlike a rename, it replaces nobody's
            except FileExistsError:
                pass
            finally:
                beside.unlink()
            sync_folder(self._folder)
        shape.refuse(self.name, str(read_shape(self._folder)))

    def _merge(self, shape: Shape, floor: int) -> None:
        whole = read_whole(self._folder, shape)
        floor = max(floor, whole.floor)
        kept = put(self._folder, newest(whole.table, floor), floor)
        for file in whole.files:
            if file != kept:
                file.unlink(missing_ok=True)
        sync_folder(self._folder)


def read_rows(folder: str | os.PathLike[str]) -> pa.Table:
    """Return the newest row of each id in a folder that a sink writes, without nodes that left.

    Returns
    -------
    pyarrow.Table
        The columns ``id``, ``version`` and ``vector``, in the order of the ids.

    Raises
    ------
    SinkError
        If it is no such folder, or if a file is damaged.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from dygcn.records import Rows
    >>> sink = ParquetSink(ParquetSettings(folder=tempfile.mkdtemp()))
    >>> sink.open("int64", 2)
    >>> none = np.array([], np.int64)
    >>> sink.write(Rows(np.array([7, 8]), np.eye(2, dtype=np.float32), np.array([1, 1]), none, none))
    >>> sink.write(Rows(none, np.zeros((0, 2), np.float32), none, np.array([8]), np.array([2])))
    >>> read_rows(sink.name.removeprefix("parquet://")).to_pylist()
    [{'id': 7, 'version': 1, 'vector': [1.0, 0.0]}]
    """
    path = Path(folder)

    def read() -> pa.Table:
        whole = read_whole(path, read_shape(path))
        table = newest(whole.table, whole.floor)
        there = table.filter(pc.invert(table["left"])).drop_columns(["left"])
        return there.sort_by("id").replace_schema_metadata(None)

    return _guard(f"parquet://{path}", read)


def _guard(name: str, what: Callable[[], _Result]) -> _Result:
    try:
        return what()
    except SinkError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise SinkError(f"{name}: {type(error).__name__}: {' '.join(str(error).split())}") from error
