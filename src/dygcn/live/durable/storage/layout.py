"""Where the parts of a durable folder lie, and who may write to it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
from collections.abc import Collection
from pathlib import Path

import msgspec

from dygcn.engine._disk import lock, open_own, sync_names
from dygcn.errors import DamagedFolder, FolderError, FolderInUse, StorageError

LOG_FILE, LOCK_FILE, SNAPSHOTS, CURSORS = "log.sqlite3", "lock", "snapshots", "cursors"
CLUSTER_FILE = "cluster.json"  # says that the graph of a folder is divided among shards
KEPT = 2
DAMAGED = "damaged"  # the last snapshot that could not be used
_HALF_WRITTEN = "..redacted.", ".erasures.json."  # how names in the folder itself begin
_DIGITS = 20  # of a snapshot's name
_LONGEST_PLACE = 1 << 20  # bytes


class FolderLock:
    """Held while a folder is open for writing; the system lets go of it when a process dies."""

    def __init__(self, folder: Path) -> None:
        try:
            self._file: int | None = open_own(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise StorageError(f"{folder} cannot be written to: {error.strerror}") from None
        try:
            lock(self._file)
        except OSError:
            self.release()
            raise FolderInUse(
                f"{folder} is open already, in this process (live.close() ends it) or where it is served; "
                "to read it all the same: dygcn.open(folder, as_of='now'), or HTTP"
            ) from None

    def release(self) -> None:
        """Let go. Safe to call twice."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def check_undivided(folder: Path) -> None:
    """Refuse the folder of a cluster.

    Raises
    ------
    FolderError
        If its graph is divided among shards.
    """
    if os.path.exists(folder / CLUSTER_FILE):  # also where the name is too long to be one
        raise FolderError(
            f"the graph of {folder} is divided among shards, which one process cannot open; "
            "dygcn.cluster.start(folder) does, and its save(path) writes a copy for one process"
        )


def snapshot_path(folder: Path, seq: int) -> Path:
    """Return where the snapshot of a sequence lies."""
    return folder / SNAPSHOTS / f"{seq:0{_DIGITS}d}"


def list_snapshots(folder: Path) -> list[tuple[int, Path]]:
    """Return sequence and folder of every snapshot, newest first."""
    found = [
        (int(path.name), path)
        for path in _inside(folder / SNAPSHOTS)
        if path.name.isascii() and path.name.isdigit() and len(path.name) == _DIGITS and _is_own_folder(path)
    ]
    return sorted(found, reverse=True)


def _is_own_folder(path: Path) -> bool:
    """Say whether it is a folder, and not a link to one elsewhere."""
    return path.is_dir() and not path.is_symlink()


def _inside(part: Path) -> list[Path]:
    return list(part.iterdir()) if _is_own_folder(part) else []


def prepare_layout(folder: Path) -> None:
    """Make the folders of snapshots and cursors, so that they outlive a power cut; refuse links."""
    for name in (SNAPSHOTS, CURSORS):
        part = folder / name
        if part.is_symlink() or (part.exists() and not part.is_dir()):
            raise DamagedFolder(f"{part} is not a folder of this one; remove it, or restore a copy")
    try:
        (folder / SNAPSHOTS).mkdir(exist_ok=True)
        sync_names(folder / SNAPSHOTS)  # a process may have died between naming a snapshot and this
        sync_names(folder)
    except OSError as error:
        raise StorageError(f"{folder} cannot be written to: {error.strerror}") from None


def set_aside(path: Path) -> None:
    """Put a snapshot that cannot be used where it is in nobody's way; the last such one is kept."""
    aside = path.parent / DAMAGED
    if not path.exists():
        return
    shutil.rmtree(aside, ignore_errors=True)
    with contextlib.suppress(OSError):  # it is damaged, after all
        path.rename(aside)


def drop_old_snapshots(folder: Path, keep: int = KEPT, also: Collection[int] = ()) -> int | None:
    """Remove all but the newest snapshots, and some more; return the oldest that stays, if `keep` do.

    Each loses its name before its first file: nobody ever takes a half for a whole.

    Parameters
    ----------
    also
        Sequences of older ones that stay.

    Raises
    ------
    OSError
        If names cannot be changed on disk; what lost its name is left for `clear_leftovers`.
    """
    found = list_snapshots(folder)
    dropped = []
    for _, path in [one for one in found[keep:] if one[0] not in also]:
        dropped.append(path.rename(path.with_name(f".{path.name}.old")))
    if dropped:
        sync_names(folder / SNAPSHOTS)
    for aside in dropped:
        shutil.rmtree(aside, ignore_errors=True)
    return min((*also, found[keep - 1][0])) if len(found) >= keep else None


def own_bytes(snapshot: Path) -> int:
    """Return how many bytes go with a snapshot: its files, but for those that have another name."""
    try:
        files = [path.stat() for path in _inside(snapshot)]
    except OSError:
        return 0
    return sum(file.st_size for file in files if file.st_nlink == 1)


def clear_leftovers(folder: Path) -> None:
    """Remove what a process that died left half written."""
    own = (path for path in folder.iterdir() if path.name.startswith(_HALF_WRITTEN))
    for path in (*own, *_inside(folder / SNAPSHOTS), *_inside(folder / CURSORS)):
        if path.name.startswith(".") and _is_own_folder(path):
            shutil.rmtree(path, ignore_errors=True)
        elif path.name.startswith("."):
            path.unlink(missing_ok=True)


class _KeptCursor(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    cursor: str
    checksum: str = ""


def _checksum(cursor: _KeptCursor) -> str:
    return hashlib.blake2b(
        f"{len(cursor.name)} {cursor.name}{cursor.cursor}".encode(), digest_size=16
    ).hexdigest()


def read_cursor(folder: Path, name: str) -> str | None:
    """Return what was last kept under a name; None if nothing was, or if it is not what was written."""
    try:
        content = _read_file(_place_file(folder, name))
        cursor = msgspec.json.decode(content, type=_KeptCursor)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return cursor.cursor if cursor.name == name and cursor.checksum == _checksum(cursor) else None


def _read_file(path: Path) -> bytes:
    """Read a small file; anything else is an `OSError`."""
    handle = open_own(path, os.O_RDONLY)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(f"{path} is not a file")
        return file.read(_LONGEST_PLACE)


def keep_cursor(folder: Path, name: str, text: str) -> None:
    """Keep how far a reader of changes came. Losing it costs work, never a row: writes are idempotent."""
    cursor = _KeptCursor(name, text)
    cursor.checksum = _checksum(cursor)
    file = _place_file(folder, name)
    file.parent.mkdir(exist_ok=True)
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    beside.write_bytes(msgspec.json.encode(cursor))
    beside.replace(file)


def _place_file(folder: Path, name: str) -> Path:
    return folder / CURSORS / f"{hashlib.blake2b(name.encode(), digest_size=12).hexdigest()}.json"
