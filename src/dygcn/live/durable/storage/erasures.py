"""Forgotten ids as keyed hashes: old events of these ids are dropped.

The file holds no id. Its key lies beside the hashes, so a reader of the file can try ids one by one: it is
pseudonymous, and small integers are soon guessed.
"""

from __future__ import annotations

import hashlib
import math
import os
import secrets
import time
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
import numpy as np
from msgspec.structs import replace

from dygcn.engine._disk import replace_own
from dygcn.engine.events import python_ids, take
from dygcn.engine.events.keys import keys_of, salted
from dygcn.engine.records import IdColumn, Int64, UInt64
from dygcn.errors import DamagedFolder, FolderError, StorageError

ERASURES_FILE = "erasures.json"
NOT_YET = 1 << 62
_FORMAT, _STRONG, _QUICK = 1, 16, 8  # bytes of the hash that decides, and of the one that finds candidates


class Erasure(msgspec.Struct, forbid_unknown_fields=True):
    """The ids that one call forgot."""

    sequence: int  # of the log when they left; digests noted up to it are void. NOT_YET: they have not left
    at: float  # seconds since 1970
    t: int | float | None  # events of these ids up to this time are old
    offsets: dict[str, int]  # of streams, where they differ from those of the erasure before
    hashes: list[str]
    done: bool = False  # no file of the folder names the ids any more


class _File(msgspec.Struct, forbid_unknown_fields=True):
    key: str
    erasures: list[Erasure]
    format: int = _FORMAT
    checksum: str = ""


class Erasures:
    """The erasures of a durable folder, oldest first, in a file of the folder."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.path = Path(folder) / ERASURES_FILE
        found = _read(self.path) or _File(secrets.token_hex(32), [])
        self._key, self.all = found.key, found.erasures
        self._index()

    def __len__(self) -> int:
        return len(self.all)

    @property
    def last_sequence(self) -> int:
        """The sequence of the last erasure: digests noted up to it are void; -1 if there is none."""
        return max((one.sequence for one in self.all if one.sequence != NOT_YET), default=-1)

    def pending_at(self, sequence: int) -> list[int]:
        """Return the numbers of pending erasures that the folder's files at a sequence are older than.

        What was written since the ids left is of new persons, and stays.
        """
        return [number for number in self.pending if self.all[number].sequence > sequence]

    # ---- writing -----------------------------------------------------------------------------------

    def add(self, ids: IdColumn, *, t: int | float | None, offsets: Mapping[str, int]) -> None:
        """Record that ids are forgotten; the erasure is pending until `complete`."""
        hashes = [f"{quick:016x}{strong.hex()}" for quick, strong in zip(*self._hashes(ids), strict=True)]
        known = self._offsets_at(len(self.all))
        self._write([*self.all, Erasure(NOT_YET, time.time(), t, _changed(known, offsets), hashes)])

    def leave(self, sequence: int) -> None:
        """Record that the ids of pending erasures left the graph at a sequence."""
        self._write([replace(one, sequence=min(one.sequence, sequence)) for one in self.all])

    def complete(self) -> None:
        """Record that no file names the ids of these erasures any longer."""
        self._write([replace(one, done=True) for one in self.all])

    def take_over(self, other: Erasures) -> None:
        """Add the erasures of another folder that this one does not have, all of them pending."""
        if self.all and self._key != other._key:
            raise FolderError(
                f"{other.path} is of another folder than {self.path}: their keys differ; name a copy of the "
                "same folder, or forget the ids again"
            )
        self._key = other._key
        known = {(one.at, *one.hashes) for one in self.all}
        taken, offsets = list(self.all), self._offsets_at(len(self.all))
        for number, one in enumerate(other.all):
            if (one.at, *one.hashes) not in known:
                changed = _changed(offsets, other._offsets_at(number))
                taken.append(replace(one, sequence=NOT_YET, offsets=changed, done=False))
                offsets |= changed
        self._write(taken)

    def _write(self, erasures: list[Erasure]) -> None:
        content = _File(self._key, erasures)
        content.checksum = _checksum(content)
        try:
            beside = self.path.with_name(f".{self.path.name}.{os.getpid()}")
            replace_own(self.path, beside, msgspec.json.encode(content))
        except OSError as error:
            raise StorageError(f"{self.path} cannot be written: {error.strerror}") from None
        self.all = erasures
        self._index()

    # ---- asking ------------------------------------------------------------------------------------

    def find(self, ids: IdColumn, among: Iterable[int] | None = None) -> Int64:
        """Return the number of the last erasure of each id, -1 for an id that was not forgotten."""
        found = np.full(len(ids), -1, np.int64)
        if not len(ids) or not len(self._quick):
            return found
        quick = salted(keys_of(ids), self._salt)
        place = np.searchsorted(self._quick, quick)
        place[place == len(self._quick)] = 0
        likely = np.flatnonzero(self._quick[place] == quick)
        allowed = None if among is None else set(among)
        for row, strong in zip(likely.tolist(), self._strong(take(ids, likely)), strict=True):
            numbers = self._numbers.get(strong, ())
            found[row] = max((one for one in numbers if allowed is None or one in allowed), default=-1)
        return found

    def is_old(self, number: int, stream: str, offset: int, t: int | float | None) -> bool:
        """Return whether an event of a forgotten id predates the erasure, by its offset or its time."""
        limit = self.all[number].t
        if t is not None and limit is not None and t <= limit:
            return True
        known = self._by_stream.get(stream)
        if known is None or offset < 0:
            return False
        return offset <= _at(known, number)

    def are_old(self, values: Iterable[int | str], stream: str, offset: int, t: int | float | None) -> bool:
        """Return whether an event that names some values predates the erasure of any of them."""
        if not (0 <= offset <= self._last_offsets.get(stream, -1) or (t is not None and t <= self._last_t)):
            return False  # of no id: most events are new, and values need not be read
        return any(self.is_old(number, stream, offset, t) for number in self.numbers_of(values))

    def numbers_of(self, values: Iterable[int | str]) -> set[int]:
        """Return the numbers of the erasures of some values, each of which may be an id or anything else."""
        key = bytes.fromhex(self._key)
        kinds = (("int64" if isinstance(value, int) else "string", value) for value in set(values))
        found = (self._numbers.get(_strong(key, kind, value), ()) for kind, value in kinds)
        return {number for numbers in found for number in numbers}

    # ---- hashes ------------------------------------------------------------------------------------

    def _index(self) -> None:
        self._salt = int.from_bytes(bytes.fromhex(self._key)[:8], "little") >> 1
        self._numbers: dict[bytes, list[int]] = {}
        quick: set[int] = set()
        self._by_stream: dict[str, list[tuple[int, int]]] = {}  # number of an erasure, offset; in order
        for number, one in enumerate(self.all):
            for text in one.hashes:
                quick.add(int(text[: 2 * _QUICK], 16))
                self._numbers.setdefault(bytes.fromhex(text[2 * _QUICK :]), []).append(number)
            for stream, offset in one.offsets.items():
                self._by_stream.setdefault(stream, []).append((number, offset))
        self._last_offsets = {name: max(at for _, at in known) for name, known in self._by_stream.items()}
        self._last_t = max((one.t for one in self.all if one.t is not None), default=-math.inf)
        self.pending = [number for number, one in enumerate(self.all) if not one.done]  # may be in files
        self._quick: UInt64 = np.sort(np.fromiter(quick, np.uint64, len(quick)))

    def _offsets_at(self, number: int) -> dict[str, int]:
        """Return the offsets of streams at an erasure; for the next erasure, those at the last one."""
        found = ((stream, _at(known, number)) for stream, known in self._by_stream.items())
        return {stream: offset for stream, offset in found if offset >= 0}

    def _hashes(self, ids: IdColumn) -> tuple[list[int], list[bytes]]:
        return salted(keys_of(ids), self._salt).tolist(), self._strong(ids)

    def _strong(self, ids: IdColumn) -> list[bytes]:
        key, kind = bytes.fromhex(self._key), ids.kind
        return [_strong(key, kind, one) for one in python_ids(ids).tolist()]


def _strong(key: bytes, kind: str, one: int | str) -> bytes:
    text = f"{kind} {one}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=_STRONG, key=key).digest()


def _changed(known: Mapping[str, int], offsets: Mapping[str, int]) -> dict[str, int]:
    return {stream: offset for stream, offset in offsets.items() if known.get(stream) != offset}


def _at(known: list[tuple[int, int]], number: int) -> int:
    """Return a stream's offset at an erasure; -1 before the stream's first."""
    last = bisect_right(known, (number, 1 << 63)) - 1
    return known[last][1] if last >= 0 else -1


def _read(path: Path) -> _File | None:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}") from None
    try:
        found = msgspec.json.decode(content, type=_File)
        fits = found.checksum == _checksum(found) and len(bytes.fromhex(found.key)) == 32
        fits = fits and all(
            len(bytes.fromhex(h)) == _QUICK + _STRONG for e in found.erasures for h in e.hashes
        )
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError):
        fits = False
    if not fits or found.format != _FORMAT:
        raise DamagedFolder(f"{path} is not what was written; restore a copy, else forgotten ids may return")
    return found


def _checksum(content: _File) -> str:
    blank = replace(content, checksum="")
    return hashlib.blake2b(msgspec.json.encode(blank), digest_size=16).hexdigest()
