"""Snapshots of a shard as files, on any path that fsspec knows, and edges that shards hand over.

A file has a checksum, and gets its name only when it is complete. Its contents follow from the log, the shard
and the sequence: a process that was taken for dead, and is not, writes the same again.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

from dygcn._extras import extra, late
from dygcn.cluster.messages import HandedOver, Record, ShardSnapshot
from dygcn.cluster.wire import pack_parts, unpack
from dygcn.engine._disk import make_folder, replace_own, write_own
from dygcn.engine.graph.image import GraphImage
from dygcn.errors import ClusterError

T = TypeVar("T")
_FORMAT = b"dygcn shard 2\n"
_CHECKSUM = 32  # bytes
_COMPLETE = "whole"  # an empty file, written after all others of its folder


class SnapshotFolder:
    """The snapshots of one shard, in a folder below that of all shards; one process at a time owns it.

    Edges that are handed over stay while an older snapshot is kept: a process that starts from that one
    applies the move again, and the shard that handed over may not.
    """

    def __init__(self, path: str, number: int) -> None:
        self._files, self._root = _files_at(path)
        self.number = number
        _make(self._files, self._folder(number))
        floor = self._floor()
        kept = []
        for name in self._names(number):
            sequence = _sequence_of(name, ".snapshot")
            if name.endswith(".part") or (sequence is not None and sequence < floor):
                self._remove(
                    name
                )  # of a process that ended while it wrote, or that was wrongly taken for dead
            elif sequence is not None:
                kept.append(sequence)
        self.sequences = sorted(kept)  # of snapshots; in memory, since it is read with every message

    # ---- snapshots -------------------------------------------------------------------------------------

    def save(self, snapshot: ShardSnapshot) -> None:
        """Keep a snapshot; when it returns, it is on disk."""
        self._write(self.number, f"{snapshot.sequence:020}.snapshot", snapshot)
        self.sequences = sorted({*self.sequences, snapshot.sequence})

    def begin(self, snapshot: ShardSnapshot) -> None:
        """Keep a snapshot and delete all others, which are of an earlier shard with this number."""
        for name in self._names(self.number):
            self._remove(name)
        self.save(snapshot)
        self._forget_before(snapshot.sequence)

    def load(self, sequence: int) -> ShardSnapshot:
        """Read a snapshot; raise `ClusterError` if the file is damaged."""
        return self._read(f"{sequence:020}.snapshot", ShardSnapshot)

    def drop(self, sequence: int) -> None:
        """Delete a snapshot, and what was handed over up to the oldest one that is left."""
        self.sequences = [one for one in self.sequences if one != sequence]
        self._remove(f"{sequence:020}.snapshot")
        self._forget_before(self.sequences[0])

    def _forget_before(self, oldest: int) -> None:
        # First: a process that was taken for dead may write an older snapshot yet, and none may begin with
        # that.
        self._write(self.number, f"{oldest:020}.floor", None)
        self.sequences = [one for one in self.sequences if one >= oldest]
        for name in self._names(self.number):
            handed = _sequence_of(name, ".edges")
            older = (_sequence_of(name, ".floor"), _sequence_of(name, ".snapshot"))
            if any(one is not None and one < oldest for one in older) or (
                handed is not None and handed <= oldest
            ):
                self._remove(name)

    # ---- edges that are handed over --------------------------------------------------------------------

    def hand_over(self, sequence: int, to: int, image: GraphImage) -> None:
        """Keep edges of nodes that another shard owns from an entry on; when it returns, it is on disk."""
        _make(self._files, self._folder(to))
        self._write(to, f"{sequence:020}-{self.number}.edges", HandedOver(image))

    def handed(self, sequence: int, sender: int) -> GraphImage | None:
        """Return what a shard handed over at an entry, None if it has not yet."""
        name = f"{sequence:020}-{sender}.edges"
        if self._files.exists(self._place(self.number, name)):
            return self._read(name, HandedOver).image
        if self._floor() >= sequence:
            raise ClusterError(
                f"edges of entry {sequence} were forgotten in {self._folder(self.number)}, since another "
                "process of this shard has a newer snapshot: this process must start again with that"
            )
        return None

    # ---- files -----------------------------------------------------------------------------------------

    def _folder(self, number: int) -> str:
        return f"{self._root}/shard-{number:04}"

    def _place(self, number: int, name: str) -> str:
        return f"{self._folder(number)}/{name}"

    def _names(self, number: int) -> list[str]:
        self._files.invalidate_cache(self._folder(number))
        found = self._files.ls(self._folder(number), detail=False)
        return [str(one).rpartition("/")[2] for one in found]

    def _floor(self) -> int:
        """Return the oldest snapshot from which a process may start."""
        floors = (_sequence_of(name, ".floor") for name in self._names(self.number))
        return max((one for one in floors if one is not None), default=-1)

    def _remove(self, name: str) -> None:
        with suppress(FileNotFoundError):  # a process that was taken for dead deleted it
            self._files.rm_file(self._place(self.number, name))

    def _write(self, number: int, name: str, record: Record | None) -> None:
        """Write a file under a temporary name in the shard's folder, then rename it."""
        parts = [_FORMAT, *(pack_parts(record) if record is not None else [])]
        checksum = blake2b(digest_size=_CHECKSUM)
        for part in parts:
            checksum.update(part)
        parts.append(checksum.digest())
        _replace(self._files, self._place(number, name), self._folder(self.number), parts)

    def _read(self, name: str, kind: type[T]) -> T:
        place = self._place(self.number, name)
        body = memoryview(self._files.cat_file(place))
        end = len(body) - _CHECKSUM
        intact = end >= len(_FORMAT) and blake2b(body[:end], digest_size=_CHECKSUM).digest() == body[end:]
        if not intact or body[: len(_FORMAT)] != _FORMAT:
            raise ClusterError(f"{place} is damaged: restore this file from a backup")
        record = unpack(body[len(_FORMAT) : end])
        if not isinstance(record, kind):
            raise ClusterError(f"{place} holds a {type(record).__name__} and not a {kind.__name__}")
        return record


def leave_note(path: str, text: str) -> None:
    """Store the address of the front, where every shard looks it up."""
    files, root = _files_at(path)
    _make(files, root)
    _replace(files, f"{root}/front", root, [text.encode()])


def read_note(path: str) -> str | None:
    """Return the stored address of the front; None if there is none."""
    files, root = _files_at(path)
    try:
        return str(files.cat_file(f"{root}/front"), "utf-8")
    except FileNotFoundError:
        return None


def is_used(path: str) -> bool:
    """Return whether there are snapshots of shards."""
    files, root = _files_at(path)
    return bool(files.exists(f"{root}/shard-0000"))


def leave_folder(path: str, name: str, folder: str | os.PathLike[str]) -> None:
    """Copy the files of a local folder to the store, for all shards."""
    files, root = _files_at(path)
    inside = f"{root}/{name}"
    _make(files, inside)
    for file in sorted(Path(folder).iterdir()):
        _replace(files, f"{inside}/{file.name}", root, [file.read_bytes()])
    _replace(files, f"{inside}/{_COMPLETE}", root, [b""])


def has_folder(path: str, name: str) -> bool:
    """Return whether `leave_folder` copied all files of a folder."""
    files, root = _files_at(path)
    return bool(files.exists(f"{root}/{name}/{_COMPLETE}"))


def fetch_folder(path: str, name: str, folder: str | os.PathLike[str]) -> None:
    """Copy a folder from the store to a local folder."""
    files, root = _files_at(path)
    for place in files.ls(f"{root}/{name}", detail=False):
        file = str(place).rpartition("/")[2]
        if file != _COMPLETE:
            write_own(Path(folder) / file, files.cat_file(place))


def _files_at(path: str) -> tuple[Any, str]:
    with extra("ray"):
        files, root = late("fsspec.core").url_to_fs(path)
    return files, root.rstrip("/")


def _is_local(files: Any) -> bool:
    return "file" in ((files.protocol,) if isinstance(files.protocol, str) else files.protocol)


def _make(files: Any, folder: str) -> None:
    """Make a folder; a local one for its owner alone."""
    if _is_local(files):
        make_folder(Path(folder), parents=True)
    else:
        files.makedirs(folder, exist_ok=True)


def _replace(files: Any, place: str, beside: str, parts: Iterable[bytes | memoryview]) -> None:
    """Write a file under a temporary name, then rename it; a local file is synced to disk."""
    other = f"{beside}/{uuid.uuid4().hex}.part"
    if _is_local(files):
        replace_own(Path(place), Path(other), *parts)
        return
    with files.open(other, "wb") as file:
        for part in parts:
            file.write(part)
    files.mv(other, place)


def _sequence_of(name: str, suffix: str) -> int | None:
    digits = name.partition(".")[0].partition("-")[0]
    return int(digits) if name.endswith(suffix) and digits.isdecimal() else None
