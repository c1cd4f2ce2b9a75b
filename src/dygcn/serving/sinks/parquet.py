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

from dygcn.engine._disk import sync_names
from dygcn.errors import SinkError
from dygcn.serving.sinks.histories import admit, check_history, newest
from dygcn.serving.sinks.parquet_files import (
    ABOUT,
    About,
    held,
    newest_rows,
    put,
    read_name,
    read_shape,
    read_whole,
    rows_table,
    write_whole,
)
from dygcn.serving.sinks.settings import OnOtherHistory, Settings
from dygcn.serving.sinks.shape import Shape, opened

if TYPE_CHECKING:
    from collections.abc import Callable

    from dygcn.engine.records import History, Rows

_STALE = 3600.0  # seconds after which a file that nobody finished is removed
_Result = TypeVar("_Result")


class ParquetSettings(Settings, frozen=True, tag="parquet"):
    """Where rows go as files.

    Parameters
    ----------
    folder
        Made if it is not there; nothing else should be in it.
    other_history
        Action if the files are of another history; see `dygcn.serving.sinks.settings.OnOtherHistory`.

    Examples
    --------
    >>> ParquetSettings(folder="vectors")
    ParquetSettings(folder='vectors', other_history='rewrite')
    """

    folder: str
    other_history: OnOtherHistory = "rewrite"


class ParquetSink:
    """A folder in which every write leaves one Parquet file.

    Columns are ``id``, ``kind`` if nodes have kinds, ``generation``, ``epoch``, ``version``, ``chain``,
    ``vector`` (null for a node that left) and ``left``. The name of a file is made of its position and a
    checksum of its content, so a repeated write gives the same file. A file is written under another name,
    synced and renamed, so it is always complete. `read_rows` returns the newest row of each id.
    `delete_below` merges all files into one: call it before they are too many (with a floor of 0 it deletes
    no row of its epoch).

    A write reads the names of all files, and is refused if one of them is of a newer history. If such a
    file appears at that moment, `read_rows` still returns the newer rows.

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

    def open(self, ids: str, dim: int) -> History | None:
        """Make the folder and write down the shape, or compare it; return the newest position there.

        Raises
        ------
        SinkError
            If the folder cannot be used, or holds rows of another shape.
        """
        self.close()
        shape = Shape(ids, dim)
        _guard(self.name, lambda: self._prepare(shape))
        found = _guard(self.name, lambda: held(self._folder))
        self._shape = shape
        return found

    def write(self, rows: Rows) -> None:
        """Write a file with rows and with those that left; return when it is on disk.

        Raises
        ------
        OtherHistory
            If the folder holds files of a newer history; nothing was written.
        SinkError
            If it is not on disk; the same rows may come again.
        """
        shape = opened(self._shape, self.name)
        shape.check(rows, self.name)
        if len(rows) == 0:
            return
        _guard(self.name, lambda: self._put(rows, shape))

    def delete_below(self, floor: int, history: History) -> None:
        """Merge all files into one with the newest row of each id; rows below `floor` are gone for good.

        So are rows of other epochs. Versions below `floor` that come later are never read.
        """
        shape = opened(self._shape, self.name)
        check_history(history, self.name)
        _guard(self.name, lambda: self._merge(shape, floor, history))

    def close(self) -> None:
        """Forget the shape: nothing is held. Safe to call twice."""
        self._shape = None

    def _prepare(self, shape: Shape) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        sync_names(self._folder.parent)
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
            sync_names(self._folder)
        shape.refuse(self.name, str(read_shape(self._folder)))

    def _put(self, rows: Rows, shape: Shape) -> None:
        admit(held(self._folder), rows.history, self.name)
        put(self._folder, rows_table(rows, shape), About(rows.history))

    def _merge(self, shape: Shape, floor: int, history: History) -> None:
        whole = read_whole(self._folder, shape)
        there = newest(read_name(file).history for file in whole.files)
        admit(there, history, self.name)
        if whole.deleted_below is not None and whole.deleted_below.epoch == history.epoch:
            floor = max(floor, whole.deleted_below.floor)
        about = About(newest([there, history]) or history, floor)
        merged = put(self._folder, newest_rows(whole.table, about.deleted_below), about)
        for file in whole.files:
            if file != merged:
                file.unlink(missing_ok=True)
        sync_names(self._folder)


def read_rows(folder: str | os.PathLike[str]) -> pa.Table:
    """Return the newest row of each id in a folder that a sink writes, without nodes that left.

    Returns
    -------
    pyarrow.Table
        The columns ``id``, ``kind`` if nodes have kinds, ``generation``, ``epoch``, ``version``, ``chain``
        and ``vector``, in the order of the ids.

    Raises
    ------
    SinkError
        If it is no such folder, or if a file is damaged.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from dygcn.engine.records import History, Rows
    >>> sink = ParquetSink(ParquetSettings(folder=tempfile.mkdtemp()))
    >>> sink.open("int64", 2)
    >>> none, first, second = np.array([], np.int64), *(History(1, 16 * "e", at, 32 * "c") for at in (1, 2))
    >>> sink.write(Rows(np.array([7, 8]), np.eye(2, dtype=np.float32), np.array([1, 1]), none, none, first))
    >>> sink.write(Rows(none, np.zeros((0, 2), np.float32), none, np.array([8]), np.array([2]), second))
    >>> read_rows(sink.name.removeprefix("parquet://")).select(["id", "version", "vector"]).to_pylist()
    [{'id': 7, 'version': 1, 'vector': [1.0, 0.0]}]
    """
    path = Path(folder)

    def read() -> pa.Table:
        whole = read_whole(path, read_shape(path))
        table = newest_rows(whole.table, whole.deleted_below)
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
