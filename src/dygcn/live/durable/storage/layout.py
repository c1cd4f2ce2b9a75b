"""The layout of a durable folder, and the lock of its one writer."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Collection
from pathlib import Path
from weakref import WeakSet

import msgspec

from dygcn.engine import _disk as disk
from dygcn.errors import DamagedFolder, DamagedLog, FolderError, FolderInUse, StorageError

LOG_FILE, LOCK_FILE, SNAPSHOTS, CURSORS = "log.sqlite3", "lock", "snapshots", "cursors"
MARK_FILE = "durable"  # says that a folder has a log
_MARK = (
    f"This folder has a log, {LOG_FILE}. If that is missing, restore a copy: events are lost without it.\n"
)
CLUSTER_FILE = "cluster.json"  # says that the graph of a folder is divided among shards
KEPT = 2
DAMAGED = "damaged"  # the last snapshot that could not be used
_HALF_WRITTEN = "..redacted.", ".erasures.json."  # how names in the folder itself begin
_DIGITS = 20  # of a snapshot's name
_SNAPSHOT = re.compile(f"[0-9]{{{_DIGITS}}}")
_LONGEST_CURSOR = 1 << 20  # bytes


class FolderLock:
    """A lock on a folder that is open for writing; the system releases it when the process dies.

    A lock file can be removed and made anew, so the folder itself is locked, too, where the file system can.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._process = folder, os.getpid()
        self._handles: list[int] = []
        try:
            self._handles = [disk.open_own(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT)]
        except OSError as error:
            raise StorageError(f"{folder} cannot be written to: {error.strerror}") from None
        try:
            disk.lock(self._handles[0])
            whole = disk.lock_folder(folder)
        except OSError:
            self.release()
            raise FolderInUse(
                f"{folder} is open already, in this process (live.close() ends it) or where it is served; "
                "to read it all the same: dygcn.open(folder, as_of='now'), or HTTP"
            ) from None
        self._handles += [] if whole is None else [whole]
        self._locked = folder / LOCK_FILE if whole is None else folder
        self._identity = _identity(os.fstat(self._handles[-1]))
        _held.add(self)

    @property
    def inherited(self) -> bool:
        """Whether this process was forked from the one that opened the folder: then it does not write."""
        return os.getpid() != self._process

    def check_process(self) -> None:
        """Refuse what a forked process must not do."""
        if self.inherited:
            raise FolderInUse(
                f"{self._folder} is open in the process that this one was forked from, and only that one "
                "writes; vectors can be read here. Open the folder after the fork, in one process, or start "
                "processes by multiprocessing.get_context('spawn')"
            )

    def stands(self) -> bool:
        """Return whether the locked file still has its name; if not, another process may own the folder."""
        try:
            return _identity(os.stat(self._locked)) == self._identity
        except OSError:
            return False

    def release(self) -> None:
        """Release the lock, also if a signal interrupts it. Safe to call twice."""
        if self._handles:
            try:
                disk.unlock(self._handles.pop())
            finally:
                self.release()

    def __del__(self) -> None:
        """Release the lock of an embedding that was dropped without `close`."""
        if not self.inherited:
            self.release()

    def leave(self) -> None:
        """Close a forked process's copy of the lock; the lock stays with the process that took it."""
        while self._handles:
            os.close(self._handles.pop())


_held: WeakSet[FolderLock] = WeakSet()


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _leave_locks() -> None:
    for held in list(_held):
        held.leave()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_locks)


def is_durable(folder: str | os.PathLike[str]) -> bool:
    """Return whether a folder has a log, or had one."""
    return any(os.path.exists(Path(folder, name)) for name in (LOG_FILE, MARK_FILE))


def check_log(folder: Path) -> None:
    """Raise DamagedLog if a folder had a log and has none now."""
    log = folder / LOG_FILE
    if os.path.exists(log) and log.stat().st_size:
        return
    if os.path.exists(folder / MARK_FILE) or list_snapshots(folder):
        raise DamagedLog(
            f"{log} is missing or empty, and held events that were acknowledged; restore a copy. To begin "
            f"again without those events, remove {folder / MARK_FILE} and {folder / SNAPSHOTS}"
        )


def mark_durable(folder: Path) -> None:
    """Record that a folder has a log, so that a missing log is noticed."""
    mark = folder / MARK_FILE
    if os.path.exists(mark):
        return
    try:
        disk.replace_own(mark, folder / f".{MARK_FILE}.{os.getpid()}", _MARK.encode())
    except OSError as error:
        raise StorageError(f"{folder} cannot be written to: {error.strerror}") from None


def check_undivided(folder: Path) -> None:
    """Refuse the folder of a cluster."""
    if os.path.exists(folder / CLUSTER_FILE):  # also where the name is too long to be one
        raise FolderError(
            f"the graph of {folder} is divided among shards, which one process cannot open; "
            "dygcn.cluster.launch(folder) does, and its save(path) writes a copy for one process"
        )


def snapshot_path(folder: Path, seq: int) -> Path:
    """Return where the snapshot of a sequence lies."""
    return folder / SNAPSHOTS / f"{seq:0{_DIGITS}d}"


def list_snapshots(folder: Path) -> list[tuple[int, Path]]:
    """Return sequence and folder of every snapshot, newest first."""
    named = (path for path in _inside(folder / SNAPSHOTS) if _SNAPSHOT.fullmatch(path.name))
    return sorted(((int(path.name), path) for path in named if _is_own_folder(path)), reverse=True)


def _is_own_folder(path: Path) -> bool:
    """Return whether a path is a folder, and not a link to one elsewhere."""
    return os.path.isdir(path) and not path.is_symlink()  # False also where the name is too long to be one


def _inside(part: Path) -> list[Path]:
    return list(part.iterdir()) if _is_own_folder(part) else []


def prepare_layout(folder: Path) -> None:
    """Make the folder of snapshots, so that it outlives a power cut; refuse links, and all other users."""
    for name in (SNAPSHOTS, CURSORS):
        part = folder / name
        if part.is_symlink() or (part.exists() and not part.is_dir()):
            raise DamagedFolder(f"{part} is not a folder of this one; remove it, or restore a copy")
    try:
        disk.make_folder(folder / SNAPSHOTS)
        disk.sync_names(folder / SNAPSHOTS)  # a process may have died between naming a snapshot and this
        disk.sync_names(folder)
    except OSError as error:
        raise StorageError(f"{folder} cannot be written to: {error.strerror}") from None
    disk.keep_private(folder)


def set_aside(path: Path) -> None:
    """Rename a damaged snapshot so that it is not listed; the latest renamed one is kept."""
    aside = path.parent / DAMAGED
    if not path.exists():
        return
    shutil.rmtree(aside, ignore_errors=True)
    with contextlib.suppress(OSError):  # it is damaged, after all
        path.rename(aside)


def drop_old_snapshots(folder: Path, keep: int = KEPT, also: Collection[int] = ()) -> int | None:
    """Remove all but the newest snapshots, and some more; return the oldest that stays, if `keep` do.

    Each is renamed before its first file goes, so no partial snapshot is ever listed.
    """
    found = list_snapshots(folder)
    drop_snapshots(folder, [sequence for sequence, _ in found[keep:] if sequence not in also])
    return min((*also, found[keep - 1][0])) if len(found) >= keep else None


def drop_snapshots(folder: Path, sequences: Collection[int]) -> None:
    """Remove snapshots, each renamed first; see `drop_old_snapshots`."""
    places = [snapshot_path(folder, sequence) for sequence in sequences]
    dropped = [path.rename(path.with_name(f".{path.name}.old")) for path in places if path.exists()]
    if dropped:
        disk.sync_names(folder / SNAPSHOTS)
    for aside in dropped:
        shutil.rmtree(aside, ignore_errors=True)


def own_bytes(snapshot: Path) -> int:
    """Return the bytes that deleting a snapshot frees: its files without other hard links."""
    try:
        files = [path.stat() for path in _inside(snapshot)]
    except OSError:
        return 0
    return sum(file.st_size for file in files if file.st_nlink == 1)


def clear_leftovers(folder: Path) -> None:
    """Delete half-written files of a process that died."""
    own = (path for path in folder.iterdir() if path.name.startswith(_HALF_WRITTEN))
    for path in (*own, *_inside(folder / SNAPSHOTS), *_inside(folder / CURSORS)):
        if path.name.startswith(".") and _is_own_folder(path):
            shutil.rmtree(path, ignore_errors=True)
        elif path.name.startswith("."):
            path.unlink(missing_ok=True)


def read_cursor(folder: Path, name: str) -> str | None:
    """Return the cursor last stored under a name; None if there is none, or it is damaged."""
    try:
        handle = disk.open_own(_cursor_file(folder, name), os.O_RDONLY)
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return None
            content = file.read(_LONGEST_CURSOR)
        cursor = msgspec.json.decode(content, type=dict[str, str]).get("cursor", "")
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return cursor if content == _sealed(name, cursor) else None


def keep_cursor(folder: Path, name: str, text: str) -> None:
    """Store the cursor of a reader of changes. Losing it costs work, never a row: writes are idempotent."""
    file = _cursor_file(folder, name)
    disk.make_folder(file.parent)
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    disk.write_own(beside, _sealed(name, text))
    beside.replace(file)


def _sealed(name: str, cursor: str) -> bytes:
    checksum = hashlib.blake2b(f"{len(name)} {name}{cursor}".encode(), digest_size=16).hexdigest()
    return msgspec.json.encode({"name": name, "cursor": cursor, "checksum": checksum})


def _cursor_file(folder: Path, name: str) -> Path:
    return folder / CURSORS / f"{hashlib.blake2b(name.encode(), digest_size=12).hexdigest()}.json"
