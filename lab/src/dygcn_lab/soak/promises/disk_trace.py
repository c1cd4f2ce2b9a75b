"""A library that records what a process does to the files of a folder, compiled when it is needed."""

from __future__ import annotations

import ctypes
import importlib.resources
import shutil
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dygcn.errors import MissingExtra

ONCE, FULL, SHORT, DIE, DIE_BEFORE_SYNC = "error", "disk full", "short write", "die", "die before sync"
FAULTS = {ONCE: 1, FULL: 2, SHORT: 3, DIE: 4, DIE_BEFORE_SYNC: 5}  # as in disk_trace.c
_HEAD = struct.Struct("=IiqqII")
_SOURCE = "disk_trace.c"


def compile_trace(folder: Path) -> Path:
    """Compile the library into a folder; return its path, for LD_PRELOAD.

    Raises `MissingExtra` if there is no C compiler.
    """
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise MissingExtra(
            "the program gcc is not installed, and what a process does to its disk is recorded by a small "
            "library in C; install gcc with your system's packages"
        )
    source = importlib.resources.files("dygcn_lab.soak.promises") / _SOURCE
    library = folder / "disk_trace.so"
    with importlib.resources.as_file(source) as file:
        command = [compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(file), "-ldl", "-lpthread"]
        built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode:
        raise MissingExtra(f"{_SOURCE} cannot be compiled: {built.stderr[-500:]}")
    return library


@dataclass(frozen=True, slots=True)
class Fault:
    """The operation that was made to fail."""

    on: str  # "fdatasync log.sqlite3-wal"
    at: float  # on the monotonic clock


class DiskTrace:
    """The library, seen from a process that was started with it."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        try:
            self._library.disk_trace_watch.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
        except AttributeError:
            raise MissingExtra("this process was not started with LD_PRELOAD=disk_trace.so") from None
        self._library.disk_trace_note.argtypes = [ctypes.c_char_p]
        self._library.disk_trace_fail.argtypes = [ctypes.c_long, ctypes.c_int]
        self._library.disk_trace_operations.restype = ctypes.c_long

    def watch(self, folder: str, trace: str = "") -> None:
        """Record what happens below a folder from now on; `trace` is appended to, "": only faults."""
        if self._library.disk_trace_watch(folder.encode(), trace.encode()):
            raise OSError(f"{trace} cannot be written")

    def note(self, text: str) -> None:
        """Put a remark between what was recorded before it and what comes after it."""
        self._library.disk_trace_note(text.encode())

    def fail(self, nth: int, kind: str) -> None:
        """Let the n-th operation from now on fail; or kill the process before it."""
        self._library.disk_trace_fail(nth, FAULTS[kind])

    @property
    def operations(self) -> int:
        """How many operations there were that could fail."""
        return int(self._library.disk_trace_operations())

    def fault(self) -> Fault | None:
        """Return the fault, once it has come."""
        text, when = ctypes.create_string_buffer(5000), ctypes.c_double()
        found = self._library.disk_trace_fault(text, ctypes.c_size_t(len(text)), ctypes.byref(when))
        return Fault(text.value.decode(), when.value) if found else None

    def die(self) -> None:
        """Kill this process, between two operations."""
        self._library.disk_trace_die()


@dataclass(frozen=True, slots=True)
class Call:
    """One call, as it was recorded."""

    kind: str  # open, close, write, truncate, sync, rename, unlink, rmdir, mkdir, note, process or fault
    fd: int
    first: int  # offset, size, or whether it worked
    second: int  # inode
    path: str
    data: bytes


_KINDS = {
    "o": "open",
    "c": "close",
    "w": "write",
    "t": "truncate",
    "s": "sync",
    "r": "rename",
    "u": "unlink",
    "d": "rmdir",
    "m": "mkdir",
    "n": "note",
    "p": "process",
    "f": "fault",
}


def read_trace(file: Path) -> Iterator[Call]:
    """Yield what was recorded, in order."""
    content, at = file.read_bytes(), 0
    while at < len(content):
        kind, fd, first, second, name, length = _HEAD.unpack_from(content, at)
        at += _HEAD.size
        path = content[at : at + name].decode()
        yield Call(_KINDS[chr(kind)], fd, first, second, path, content[at + name : at + name + length])
        at += name + length
