"""Arrays in memory that other processes of the same user can map, and the list of them. Linux only."""

from __future__ import annotations

import mmap
import os
import secrets
import weakref
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

_HEAD = 64  # bytes before an array: its serial number, and the rest of a cache line


class Place(msgspec.Struct, frozen=True):
    """Where another process finds an array: a file descriptor, and the serial number in that file."""

    fd: int  # -1: the array is empty
    serial: int
    kind: str
    shape: tuple[int, ...]


class Segments:
    """Allocates arrays, a memory file each. A file is closed when this process drops its array."""

    def __init__(self) -> None:
        self._files: dict[int, tuple[int, int]] = {}  # address of an array -> its file and serial number

    def zeros(self, shape: int | tuple[int, ...], kind: Any) -> NDArray[Any]:
        """Return an array of zeros, in a memory file of its own; replaces `numpy.zeros`."""
        count, kind = int(np.prod(shape)), np.dtype(kind)
        if count == 0:
            return np.zeros(shape, kind)
        fd, serial = os.memfd_create("dygcn"), secrets.randbits(62)
        os.ftruncate(fd, _HEAD + count * kind.itemsize)
        memory = mmap.mmap(fd, 0)
        np.frombuffer(memory, np.int64, 1)[0] = serial
        array = np.frombuffer(memory, kind, count, _HEAD).reshape(shape)
        address = array.ctypes.data
        self._files[address] = fd, serial
        weakref.finalize(memory, _forget, self._files, address)
        return array

    def place(self, array: NDArray[Any]) -> Place:
        """Return the place of an array that this object allocated."""
        fd, serial = self._files[array.ctypes.data] if array.size else (-1, 0)
        return Place(fd, serial, array.dtype.str, array.shape)

    def copied(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return a copy of an array, which other processes can map."""
        fresh = self.zeros(array.shape, array.dtype)
        fresh[...] = array
        return fresh


def _forget(files: dict[int, tuple[int, int]], address: int) -> None:
    fd, _ = files.pop(address)
    os.close(fd)


def attach(process: int, place: Place) -> NDArray[Any]:
    """Map an array of another process.

    What this process writes to it stays invisible to other processes.
    """
    if place.fd < 0:
        return np.zeros(place.shape, place.kind)
    fd = os.open(f"/proc/{process}/fd/{place.fd}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        # Private, yet pages that are not written here are those of the file, and show what is written there.
        memory = mmap.mmap(fd, 0, access=mmap.ACCESS_COPY)
    except ValueError as error:  # another file has the number by now
        raise OSError(str(error)) from None
    finally:
        os.close(fd)
    count, kind = int(np.prod(place.shape)), np.dtype(place.kind)
    if len(memory) != _HEAD + count * kind.itemsize:
        raise OSError("the array was replaced")
    if np.frombuffer(memory, np.int64, 1)[0] != place.serial:
        raise OSError("the array was replaced")
    return np.frombuffer(memory, kind, count, _HEAD).reshape(place.shape)


GENERATION = 0
"""Of the list of arrays; odd while it is written."""
TICK = 1
"""The last whole change of the state."""
LIST_BYTES = 2
"""Of the list of arrays."""
SEQUENCES = 64
"""From here on: the sequence of each of the last ticks, at the tick modulo `KEPT`."""
KEPT = 1024
WORDS = SEQUENCES + KEPT
LIST_ROOM = 1 << 18  # bytes


class Handle(msgspec.Struct, frozen=True):
    """The facts with which a process finds the rows of another."""

    process: int
    words: Place
    list: Place


class OrderArrays(msgspec.Struct, frozen=True):
    """The arrays with the sums of one order."""

    degree: NDArray[Any]
    slot: NDArray[Any]
    narrow: NDArray[Any]
    wide: NDArray[Any]
    stamps: NDArray[Any]
    scale: float
    limit: int


class PulledArrays(msgspec.Struct, frozen=True):
    """Arrays that readers add to the sums of the last order: arcs, heavy nodes' messages now and before."""

    arcs: list[NDArray[Any]]
    slot: NDArray[Any]
    rows: NDArray[Any]
    has: NDArray[Any]
    earlier: list[NDArray[Any]]
    stamps: NDArray[Any]
    shift: int


class SharedArrays(msgspec.Struct, frozen=True):
    """Every array that vectors are computed from (in JSON, its place), and the numbers of the model."""

    kind: str
    seed: int
    floor: float
    dim: int
    mixed: bool
    message_shift: int
    weights: list[NDArray[Any]]
    scales: NDArray[Any]
    secret: NDArray[Any]
    hashed: bool
    unit_seed: int
    units: list[NDArray[Any]]  # for looking up features, or for drawing them
    ids: dict[str, NDArray[Any]]
    active: NDArray[Any]
    stamps: NDArray[Any]
    orders: list[OrderArrays]
    pulled: PulledArrays | None
