"""Events from files that grow: a message a line."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Literal

from dygcn.engine.records import Message
from dygcn.errors import SourceError
from dygcn.serving.addresses import Settings, check_name, failure
from dygcn.serving.sources.source import ReaderSource

LONGEST_LINE = 16 << 20
_PAUSE = 0.05  # seconds between two looks


class FileSettings(Settings, frozen=True, tag="file"):
    """Which files are read.

    >>> FileSettings(path="events.ndjson")
    FileSettings(path='events.ndjson', pattern='*.ndjson', form='ndjson')
    """

    path: str  # of a file, or of a folder of files
    pattern: str = "*.ndjson"  # which files of a folder; folders below it are not read
    form: Literal["ndjson", "json"] = "ndjson"

    def __post_init__(self) -> None:
        check_name("pattern", self.pattern, r"[^/\\]+", "the name of a file, in which * stands for anything")

    def make(self) -> ReaderSource:
        return ReaderSource(FileReader(self))


class FileReader:
    """Lines of one file, or of each file of a folder, in the order in which they were appended.

    The stream of a file is ``file:<its name>`` (so no two that one service reads may have the same), an
    offset the byte after a line. A last line without its end waits until it has one. New files of a folder
    are found while it is read. A file may be deleted once it was read; it must not be shortened, replaced, or
    renamed to another name that the pattern fits. Lines longer than 16 MiB are cut.
    """

    errors: tuple[type[BaseException], ...] = ()

    def __init__(self, settings: FileSettings) -> None:
        self.name, self.secrets = f"file:{settings.path}", list[str]()
        self._settings, self._path = settings, Path(settings.path)
        self._after: dict[str, int] = {}
        self._files: dict[str, _GrowingFile] = {}
        self._waiting: int | None = None

    def connect(self, after: Mapping[str, int]) -> None:
        if not self._path.exists():
            raise SourceError(f"{self.name}: there is no such file or folder; an empty one will do")
        self._after = dict(after)
        self._find()

    def disconnect(self) -> None:
        files, self._files, self._waiting = self._files, {}, None
        for file in files.values():
            file.close()

    def fetch(self, limit: int, timeout: float) -> Sequence[Message]:
        until = time.monotonic() + timeout
        while True:
            self._find()
            messages: list[Message] = []
            for stream, file in list(self._files.items()):
                for offset, line in file.lines(limit - len(messages)):
                    messages.append(Message(stream, offset, line, self._settings.form))
                if len(messages) >= limit:
                    self._files[stream] = self._files.pop(stream)  # the others come first next time
                    break
            self._waiting = sum(file.waiting for file in self._files.values())
            left = until - time.monotonic()
            if messages or left <= 0:
                return messages
            time.sleep(min(_PAUSE, left))

    def lag(self) -> int | None:
        """Return how many bytes waited at the last read."""
        return self._waiting

    def _find(self) -> None:
        """Open new files, and close those that were read and deleted."""
        paths = sorted(self._path.glob(self._settings.pattern)) if self._path.is_dir() else [self._path]
        for path in paths:
            stream = f"file:{path.name}"
            if stream not in self._files and path.is_file():
                self._files[stream] = _GrowingFile(path, self._after.get(stream, 0))
        for stream, file in list(self._files.items()):
            if file.ended(gone_is_an_end=self._path.is_dir()):
                self._after[stream] = file.offset
                self._files.pop(stream).close()


class _GrowingFile:
    """One file, read from a byte on."""

    def __init__(self, path: Path, offset: int) -> None:
        self.path, self.offset = path, offset
        self.waiting = 0
        try:
            self._file: BinaryIO = path.open("rb")
        except OSError as error:
            raise failure(SourceError, str(path), error) from None
        try:
            self._check(path)
        except SourceError:
            self._file.close()
            raise
        self._file.seek(offset)

    def ended(self, gone_is_an_end: bool) -> bool:
        """Check that it is still the same file; return whether it is gone and was read to its end."""
        try:
            self._check(self.path)
        except FileNotFoundError:
            if gone_is_an_end and self._size() == self.offset:
                return True
            raise SourceError(
                f"{self.path} was deleted before its end was read; bring it back, or take it as lost"
            ) from None
        return False

    def lines(self, limit: int) -> list[tuple[int, bytes]]:
        """Return further complete lines with the offset after each; empty ones are left out."""
        found: list[tuple[int, bytes]] = []
        offset = self.offset
        while len(found) < limit:
            line = self._file.readline(LONGEST_LINE)
            length, end = len(line), line
            while end and not end.endswith(b"\n"):  # the line is longer, or not finished
                end = self._file.readline(LONGEST_LINE)
                length += len(end)
            if not end:
                self._file.seek(offset)
                break
            offset += length
            if line.strip():
                found.append((offset, line.rstrip(b"\r\n")))
        self.offset = offset
        self.waiting = max(self._size() - offset, 0)
        return found

    def close(self) -> None:
        self._file.close()

    def _size(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    def _byte_before(self) -> bytes:
        self._file.seek(self.offset - 1)
        return self._file.read(1)

    def _check(self, path: Path) -> None:
        ours = os.fstat(self._file.fileno())
        if not os.path.samestat(os.stat(path), ours):
            raise SourceError(f"{path} was replaced by another file; give every file a name of its own")
        if ours.st_size < self.offset:
            raise SourceError(
                f"{path} has {ours.st_size} bytes, {self.offset} of which were read: it was shortened or "
                "replaced, and what it held may be lost; files may only grow"
            )
        if self.offset and self._byte_before() != b"\n":
            raise SourceError(
                f"{path} has no end of a line at byte {self.offset}, up to which it was read: it was "
                "rewritten; files may only grow"
            )
