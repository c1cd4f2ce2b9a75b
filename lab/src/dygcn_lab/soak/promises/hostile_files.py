"""Files made to hurt whoever reads them: each builder leaves one behind and says how it is to be read."""

from __future__ import annotations

import os
import sqlite3
import struct
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dygcn.engine.events import read_events
from dygcn.engine.events.wire import decode_events
from dygcn.engine.models import folder as folders
from dygcn.errors import EventError
from dygcn.live.durable.opening import open as open_folder
from dygcn.live.durable.storage import times
from dygcn.live.durable.storage.entries import Kind, NewEntry, chained, pack
from dygcn.live.durable.storage.layout import LOG_FILE, MARK_FILE
from dygcn.live.embedding import load, start
from dygcn_lab.testbed.seeding import small_model


@dataclass(frozen=True, slots=True)
class Trap:
    """Something hostile, and who is to read it."""

    reader: str
    path: Path


def read_wire(path: Path) -> object:
    """Read a message; what cannot be read is an error here."""
    found = decode_events(path.read_bytes(), "arrow", "int64")
    if found.bad:
        raise EventError(found.bad[0].reason)
    return found


READERS: dict[str, Callable[[Path], object]] = {
    "load": load,
    "open": open_folder,
    "events": lambda path: read_events(str(path)),
    "wire": read_wire,
}
Build = Callable[[Path], Trap]
EXPLODED = "exploded"  # the folder that a pickle would make
_PICKLE = b"cos\nmkdir\n(S'exploded'\ntR."
_HUGE = 1 << 40
_TIME = 1 << 52  # when an entry was logged: in the year 2112, in microseconds
_JOURNAL = struct.pack(">8I", 0x377F0682, 3007000, 4096, 0, 1, 2, 0, 0)
_MODEL, _GRAPH = "model.safetensors", "graph.safetensors"


def saved(path: Path) -> Path:
    """Return a folder as `save` writes it."""
    live = start(small_model())
    live.update(add=[(1, 2), (2, 3)])
    live.save(path)
    return path


def durable(path: Path) -> Path:
    """Return a durable folder with three entries in its log and no snapshot."""
    with open_folder(path, start(small_model())) as live:
        for step in range(3):
            live.update(add=[(step, step + 1)])
        live._ahead.saved_at = live.sequence  # nothing to write at the end
    return path


def without_log(path: Path) -> Path:
    """Return a durable folder whose log was emptied, with a journal to come."""
    folder = durable(path)
    (folder / LOG_FILE).write_bytes(b"")
    (folder / MARK_FILE).unlink()  # else it is missed before the journal is read
    return folder


def seal(folder: Path) -> None:
    """Make the checksums right: whoever sends a file can do that, too."""
    manifest = msgspec.json.decode((folder / folders.MANIFEST).read_bytes(), type=folders.Manifest)
    manifest.files = {name: folders._describe(folder / name) for name in manifest.files}
    manifest.checksum = folders._checksum(manifest)
    (folder / folders.MANIFEST).write_bytes(folders._encode(manifest))


def sparse(path: Path, size: int, content: bytes = b"") -> None:
    """Write a file that is long and takes no room."""
    with path.open("wb") as file:
        file.write(content)
        file.truncate(size)


# ---- saved folders -----------------------------------------------------------------------------------


def _file(name: str, content: bytes, sealed: bool = False) -> Build:
    def build(workdir: Path) -> Trap:
        folder = saved(workdir / "x")
        (folder / name).write_bytes(content)
        if sealed:
            seal(folder)
        return Trap("load", folder)

    return build


def _replaced(name: str, put: Callable[[Path], object], make: Callable[[Path], Path] = saved) -> Build:
    def build(workdir: Path) -> Trap:
        folder = make(workdir / "x")
        (folder / name).unlink(missing_ok=True)
        put(folder / name)
        return Trap("load" if make is saved else "open", folder)

    return build


def _tensors(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else msgspec.json.encode(header)
    return struct.pack("<Q", len(text)) + text + data


def _safetensors() -> dict[str, bytes]:
    one = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
    return {
        "a header of 2^63 bytes": struct.pack("<Q", 1 << 63) + b"{}",
        "a header of 2^64 - 1 bytes": b"\xff" * 8,
        "a header of 90 million bytes": struct.pack("<Q", 90_000_000) + b"{" * 1000,
        "a deep header": _tensors(b"[" * 100_000),
        "a tensor of 2^62 numbers": _tensors({"W0": one | {"shape": [1 << 31, 1 << 31]}}, b"1234"),
        "a tensor of 2^40 bytes": _tensors({"W0": one | {"shape": [1 << 38], "data_offsets": [0, _HUGE]}}),
        "offsets backwards": _tensors({"W0": one | {"data_offsets": [4, 0]}}, b"1234"),
        "tensors that overlap": _tensors({"W0": one, "W1": one}, b"1234"),
        "ten thousand tensors": _tensors(
            {f"t{i}": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]} for i in range(10_000)}
        ),
        "an unknown type": _tensors({"W0": one | {"dtype": "PICKLE"}}, b"1234"),
        "a pickle": _PICKLE,
        "nothing": b"",
    }


def _manifests() -> dict[str, bytes]:
    return {
        "deep JSON": b'{"format": 1, "settings": ' + b"[" * 1_000_000,
        "deep JSON that is closed": b'{"settings": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001,
        "a number of a million digits": b'{"format": 1' + b"0" * 1_000_000 + b"}",
        "1e400": b'{"format": 1e400}',
        "not UTF-8": b'{"format": "\xff\xfe"}',
        "half a surrogate pair": b'{"format": "\\ud800"}',
        "a pickle": _PICKLE,
        "nothing": b"",
    }


def _saved_cases() -> Iterator[tuple[str, Build]]:
    for what, content in _safetensors().items():
        for name in (_MODEL, _GRAPH):
            yield f"{name}: {what}", _file(name, content, sealed=True)
    for what, content in _manifests().items():
        yield f"manifest: {what}", _file(folders.MANIFEST, content)
    yield "manifest: a gigabyte", _replaced(folders.MANIFEST, lambda path: sparse(path, 1 << 30, b"{"))
    for name in (folders.MANIFEST, _MODEL, _GRAPH):
        yield f"{name}: a terabyte", _replaced(name, lambda path: sparse(path, _HUGE))
        yield f"{name}: a pipe", _replaced(name, os.mkfifo)
        yield f"{name}: a folder", _replaced(name, Path.mkdir)
        yield f"{name}: an endless device", _replaced(name, lambda path: path.symlink_to("/dev/zero"))
        yield f"{name}: a link to itself", _replaced(name, lambda path: path.symlink_to(path.name))


# ---- logs --------------------------------------------------------------------------------------------


def _sql(*statements: str) -> Build:
    def build(workdir: Path) -> Trap:
        folder = durable(workdir / "x")
        with closing(sqlite3.connect(folder / LOG_FILE)) as db, db:
            for statement in statements:
                db.execute(statement)
        return Trap("open", folder)

    return build


def _entry(kind: str, body: bytes, stream: str = "", position: int = -1, batch_id: int = 4) -> Build:
    """An entry whose chain is right: the checksum says that it is whole, not that it makes sense."""

    def build(workdir: Path) -> Trap:
        folder = durable(workdir / "x")
        with closing(sqlite3.connect(folder / LOG_FILE)) as db, db:
            [before] = db.execute("SELECT chain FROM entries WHERE seq = 3").fetchone()
            chain = chained(before, 4, batch_id, NewEntry(kind, stream, position, body))
            row = (4, batch_id, kind, stream, position, body, chain, _TIME, times.seal(chain, _TIME))
            db.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
            [before] = db.execute("SELECT chain FROM entries WHERE seq = 4").fetchone()
            good = NewEntry(Kind.EVENTS, "", -1, pack(read_events([(7, 8)])))
            chain = chained(before, 5, 9, good)
            row = (5, 9, good.kind, "", -1, good.body, chain, _TIME, times.seal(chain, _TIME))
            db.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        return Trap("open", folder)

    return build


def _packed(**changes: object) -> bytes:
    """A batch of one event in which something cannot be."""
    names = ("count", "src", "src_text", "dst", "dst_text", "op", "weight", "t", "whole_times", "now")
    one = np.ones(1, np.int64).tobytes()
    fields = dict(zip(names, (1, one, None, one, None, b"\x01", b"", b"", False, None), strict=True))
    return msgspec.msgpack.encode(list((fields | changes).values()))


def _log_cases() -> Iterator[tuple[str, Build]]:
    yield from _TABLES.items()
    yield from _entry_cases()
    yield from _log_file_cases()


_TABLES = {  # that are others, or too large
    "log: a trigger": _sql("CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries; END"),
    "log: a trigger named as a table": _sql(
        "CREATE TRIGGER entries AFTER INSERT ON dead_letters BEGIN DELETE FROM entries; END"
    ),
    "log: a view": _sql("CREATE VIEW v AS SELECT load_extension('x')"),
    "log: a virtual table": _sql("CREATE VIRTUAL TABLE v USING fts5(x)"),
    "log: entries without an end": _sql(
        "DROP TABLE entries",
        "CREATE VIEW entries AS WITH RECURSIVE n(seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM n) "
        "SELECT seq, 1 batch_id, 'events' kind, '' stream, 0 position, x'' body, x'' chain, 0 logged, "
        "x'' seal FROM n",
    ),
    "log: other columns": _sql("ALTER TABLE entries ADD COLUMN more DEFAULT 7"),
    "log: a body of 90 million bytes": _sql("UPDATE entries SET body = zeroblob(90000000) WHERE seq = 2"),
    "log: twelve bodies of 20 million bytes": _sql(
        "WITH RECURSIVE n(seq) AS (SELECT 4 UNION ALL SELECT seq + 1 FROM n LIMIT 12) "
        "INSERT INTO entries SELECT seq, seq, 'events', '', -1, zeroblob(20000000), zeroblob(16), 7, x'' "
        "FROM n"
    ),
    "log: a genesis of 60 million bytes": _sql("UPDATE about SET value = zeroblob(60000000)"),
}


def _entry_cases() -> Iterator[tuple[str, Build]]:
    """One more entry, which its checksum fits, and which cannot be."""
    yield "log: a body of 60 million bytes", _entry(Kind.EVENTS, bytes(60_000_000))
    wrong: dict[str, dict[str, object]] = {
        "many events": {"count": 1 << 62},
        "an operation that is none": {"op": b"\x05"},
        "a weight that is none": {"weight": np.full(1, np.nan).tobytes()},
        "a time that is none": {"t": np.full(1, np.inf).tobytes()},
        "ids outside": {"src": np.array([0, 1 << 40]).tobytes(), "src_text": b"x"},
        "a now that is none": {"now": float("nan")},
    }
    for what, changes in wrong.items():
        yield f"log: {what}", _entry(Kind.EVENTS, _packed(**changes))
    yield "log: a pickle as a body", _entry(Kind.EVENTS, _PICKLE)
    yield "log: a deep body", _entry(Kind.EVENTS, b"\x91" * 1_000_000)
    yield "log: a kind that is none", _entry("magic", b"")
    yield "log: a load that is nowhere", _entry("barrier", b"")
    yield "log: a batch_id beyond all", _entry(Kind.EVENTS, _packed(), batch_id=-5)


def _log_file_cases() -> Iterator[tuple[str, Build]]:
    """Other things in the place of the files of a log."""
    for what, put in {
        "a terabyte": lambda path: sparse(path, _HUGE),
        "a terabyte with a header": lambda path: sparse(path, _HUGE, b"SQLite format 3\0" + bytes(84)),
        "a pickle": lambda path: path.write_bytes(_PICKLE),
        "a pipe": os.mkfifo,
        "an endless device": lambda path: path.symlink_to("/dev/zero"),
        "a folder": Path.mkdir,
    }.items():
        yield f"log: {what}", _replaced(LOG_FILE, put, durable)
    for what, put in {
        "a terabyte": lambda path: sparse(path, _HUGE),
        "a terabyte with a header": lambda path: sparse(path, _HUGE, _JOURNAL),
        "a pickle": lambda path: path.write_bytes(_PICKLE),
    }.items():
        yield f"journal: {what}", _replaced(f"{LOG_FILE}-wal", put, without_log)
    yield "watermark: a pipe", _replaced("log.watermark", os.mkfifo, durable)
    yield (
        "watermark: a link",
        _replaced("log.watermark", lambda path: path.symlink_to("/etc/hostname"), durable),
    )
    yield "lock: a link", _replaced("lock", lambda path: path.symlink_to("elsewhere"), durable)


# ---- events ------------------------------------------------------------------------------------------


def _events(name: str, write: Callable[[Path], object]) -> Build:
    def build(workdir: Path) -> Trap:
        workdir.mkdir(parents=True, exist_ok=True)
        write(workdir / name)
        return Trap("events", workdir / name)

    return build


def _many_rows(path: Path) -> None:
    """Sixty million rows in a few kilobytes: runs of one value."""
    part = pa.table({"src": np.zeros(1 << 20, np.int64), "dst": np.ones(1 << 20, np.int64)})
    with pq.ParquetWriter(path, part.schema) as writer:
        for _ in range(60):
            writer.write_table(part)


def _zeros(path: Path) -> None:
    """Half a gigabyte of compressed zeros."""
    part = pa.table({"src": np.zeros(1 << 22, np.int64), "dst": np.zeros(1 << 22, np.int64)})
    with pq.ParquetWriter(path, part.schema, compression="zstd", use_dictionary=False) as writer:
        for _ in range(8):
            writer.write_table(part)


def _long_word(path: Path) -> None:
    """One word of some megabytes, a few hundred times."""
    word = pa.DictionaryArray.from_arrays(np.zeros(300, np.int32), pa.array(["x" * (4 << 20)]))
    pq.write_table(
        pa.table({"src": word, "dst": word}), path, dictionary_pagesize_limit=1 << 30, compression="zstd"
    )


def _arrow_stream(path: Path) -> None:
    table = pa.table({"src": np.zeros(1 << 24, np.int64), "dst": np.ones(1 << 24, np.int64)})
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer,
    ):
        writer.write_table(table)


def _off_the_wire(workdir: Path) -> Trap:
    workdir.mkdir(parents=True, exist_ok=True)
    _arrow_stream(workdir / "x.arrow")
    return Trap("wire", workdir / "x.arrow")


def _event_cases() -> Iterator[tuple[str, Build]]:
    yield "parquet: sixty million rows in a few kilobytes", _events("x.parquet", _many_rows)
    yield "parquet: compressed zeros", _events("x.parquet", _zeros)
    yield "parquet: one long word, often", _events("x.parquet", _long_word)
    yield "arrow: compressed zeros, off the wire", _off_the_wire
    yield "arrow: a file of events", _events("x.arrow", _arrow_stream)
    yield "arrow: named as parquet", _events("x.parquet", _arrow_stream)
    for ending in ("parquet", "csv", "tsv", "ndjson", "json"):
        name = f"x.{ending}"
        yield f"{ending}: a pickle", _events(name, lambda path: path.write_bytes(_PICKLE))
        yield f"{ending}: a terabyte", _events(name, lambda path: sparse(path, _HUGE))
        yield f"{ending}: a pipe", _events(name, os.mkfifo)
        yield f"{ending}: an endless device", _events(name, lambda path: path.symlink_to("/dev/zero"))
    yield "ndjson: deep", _events("x.ndjson", lambda path: path.write_bytes(b'{"src":' + b"[" * 1_000_000))
    yield (
        "ndjson: deep and closed",
        _events(
            "x.ndjson", lambda path: path.write_bytes(b'{"src":' + b"[" * 50_000 + b"]" * 50_000 + b"}\n")
        ),
    )
    yield (
        "csv: a million columns",
        _events("x.csv", lambda path: path.write_bytes(b"a," * 1_000_000 + b"a\n")),
    )
    yield "csv: a gzip", _events("x.csv", lambda path: path.write_bytes(b"\x1f\x8b\x08" + bytes(1000)))


def good_things() -> dict[str, Build]:
    """Return things that are not hostile: they are read first, so that nothing is compiled later."""

    def parquet(path: Path) -> None:
        pq.write_table(pa.table({"src": ["a", "b"], "dst": ["c", "d"]}), path)

    return {
        "good: load": lambda workdir: Trap("load", saved(workdir / "x")),
        "good: open": lambda workdir: Trap("open", durable(workdir / "x")),
        "good: parquet": _events("x.parquet", parquet),
        "good: csv": _events("x.csv", lambda path: path.write_text("src,dst\n1,2\n")),
        "good: ndjson": _events("x.ndjson", lambda path: path.write_text('{"src": 1, "dst": 2}\n')),
    }


def cases() -> dict[str, Build]:
    """Return every hostile thing by its name."""
    return dict((*_saved_cases(), *_log_cases(), *_event_cases()))
