"""Arrays in memory that other processes of the same user can map. Linux only."""

from __future__ import annotations

import mmap
import os
import secrets
import weakref
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HEAD = 64  # bytes before an array: its serial number, and the rest of a cache line


class Place(msgspec.Struct, frozen=True):
    """Where an array is: a file of a process, and what must stand at its beginning."""

    fd: int  # -1: the array is empty
    serial: int
    kind: str
    shape: tuple[int, ...]


class Segments:
    """Allocates arrays, a memory file each. A file is closed when nobody in this process has its array.

    Examples
    --------
    >>> import os
    >>> segments = Segments()
    >>> array = segments.zeros(3, np.int64)
    >>> array[1] = 7
    >>> attach(os.getpid(), segments.place(array)).tolist()
    [0, 7, 0]
    """

    def __init__(self) -> None:
        self._files: dict[int, tuple[int, int]] = {}  # address of an array -> its file and serial number

    def zeros(self, shape: int | tuple[int, ...], kind: Any) -> NDArray[Any]:
        """Return an array of zeros; in the place of `numpy.zeros`."""
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
        """Return where an array of this object is."""
        fd, serial = self._files[array.ctypes.data] if array.size else (-1, 0)
        return Place(fd, serial, array.dtype.str, array.shape)

    def copied(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return a copy that can be mapped."""
        fresh = self.zeros(array.shape, array.dtype)
        fresh[...] = array
        return fresh


def _forget(files: dict[int, tuple[int, int]], address: int) -> None:
    fd, _ = files.pop(address)
    os.close(fd)


def attach(process: int, place: Place) -> NDArray[Any]:
    """Map an array of another process.

    What this process writes to it stays with this process: nobody else sees it.

    Raises
    ------
    OSError
        If the array is no longer there, or the process is not.
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
