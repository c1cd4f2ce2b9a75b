"""The watermark: how far a log reached, stored beside it, since a lost end would not show otherwise.

SQLite takes a damaged end of its journal for a transaction that was never committed, and drops it silently.
The watermark is written after every commit, without waiting for the disk: it is never ahead of what is
durable, and outlives the process. After a power cut it may be old, or gone; then nothing is compared.
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
from dataclasses import dataclass
from pathlib import Path

from dygcn.engine._disk import open_own
from dygcn.errors import StorageError

_FORM = struct.Struct("<16sq16sq")
_SIZE = _FORM.size + 16


@dataclass(frozen=True, slots=True)
class Reached:
    """The last entry that was known to be on disk."""

    genesis: bytes
    sequence: int
    chain: bytes
    saved: int  # the sequence of the newest snapshot


class Watermark:
    """A file of one record, written over in place."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            self._file: int | None = open_own(self.path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise StorageError(f"{self.path} cannot be opened: {error.strerror}") from None
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            self.close()
            raise StorageError(f"{self.path} is not a file")

    def read(self) -> Reached | None:
        """Return the last written record; None if the file is incomplete or damaged."""
        assert self._file is not None
        os.lseek(self._file, 0, os.SEEK_SET)
        content = os.read(self._file, _SIZE)
        if len(content) != _SIZE or content[_FORM.size :] != _checksum(content[: _FORM.size]):
            return None
        return Reached(*_FORM.unpack_from(content))

    def reach(self, reached: Reached) -> None:
        """Write how far the log reached; raise OSError if that fails."""
        assert self._file is not None
        record = _FORM.pack(reached.genesis, reached.sequence, reached.chain, reached.saved)
        os.lseek(self._file, 0, os.SEEK_SET)
        os.write(self._file, record + _checksum(record))

    def close(self) -> None:
        """Close the file. Safe to call twice."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _checksum(record: bytes) -> bytes:
    return hashlib.blake2b(record, digest_size=16, person=b"dygcn watermark").digest()
