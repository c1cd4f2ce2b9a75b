"""Durable folders: opening one, and beginning a new epoch from a backup."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from dygcn.engine._disk import sync_file, sync_names
from dygcn.engine.records import History
from dygcn.errors import DamagedFolder, DamagedLog, FolderError, OptionError, StorageError
from dygcn.live.durable.embedding import SNAPSHOT_EVERY, DurableEmbedding
from dygcn.live.durable.recovery import newest_good
from dygcn.live.durable.storage import (
    CURSORS,
    LOCK_FILE,
    LOG_FILE,
    EventLog,
    FolderLock,
    clear_leftovers,
    list_snapshots,
    prepare_layout,
    set_aside,
)
from dygcn.live.durable.write_ahead import WriteAhead
from dygcn.live.files import load_snapshot

if TYPE_CHECKING:
    from dygcn.live.view import EmbeddingView


def open(
    path: str | os.PathLike[str],
    begin: EmbeddingView | None = None,
    *,
    snapshot_every: int = SNAPSHOT_EVERY,
) -> DurableEmbedding:
    """Open a folder for durable updates: what `update` returned from is on disk and survives a crash.

    Parameters
    ----------
    path
        A folder that `LiveEmbedding.save` wrote (it becomes durable), or that was opened before: then the
        newest good snapshot is loaded and the log behind it replayed.
    begin
        Where there is no folder yet: what to begin it with.
    snapshot_every
        Events between two snapshots, which are written in the background.

    Raises
    ------
    FolderInUse
        If another process has it open.
    DamagedFolder, DamagedLog
        If what was acknowledged cannot be had from it.

    Examples
    --------
    >>> import dygcn, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     live = dygcn.open(f"{folder}/friends", dygcn.fit([("ann", "bob"), ("bob", "cat")], dim=8))
    ...     change = live.update(add=[("cat", "dan")], stream="clicks", position=7)
    ...     live.close()
    ...     with dygcn.open(f"{folder}/friends") as again:
    ...         "dan" in again, again.streams
    (True, {'clicks': 7})
    """
    folder = Path(path)
    if snapshot_every < 1:
        raise OptionError(f"snapshot_every is {snapshot_every}; allowed is a whole number, 1 or more")
    if begin is not None:
        if os.path.exists(folder) and not (folder.is_dir() and next(folder.iterdir(), None) is None):
            raise FolderError(f"{folder} exists; open it without begin, or choose another name")
        begin.save(folder)
    elif not os.path.isdir(folder):
        raise DamagedFolder(f"{folder} does not exist; pass what to begin it with: dygcn.open(path, live)")
    held = FolderLock(folder)
    log = first = None
    try:
        if not (folder / LOG_FILE).exists():
            if list_snapshots(folder):
                raise DamagedLog(f"{folder} has snapshots and no {LOG_FILE}, which they are of; restore it")
            first = load_snapshot(folder)  # nothing is put beside what cannot be used
        prepare_layout(folder)
        clear_leftovers(folder)
        log = EventLog(folder / LOG_FILE)
        found = newest_good(folder, log, first)
        live = DurableEmbedding(folder, held, WriteAhead(log, found), snapshot_every)
        for unusable in found.unusable:
            set_aside(unusable)
        return live
    except BaseException:
        if log is not None:
            log.close()
        held.release()
        raise


def restore(backup: str | os.PathLike[str], folder: str | os.PathLike[str]) -> History:
    """Copy a durable folder that nobody has open to a new place, and begin a new epoch there.

    Whoever was shown more than the backup holds starts anew: readers of the feed get everything again, and
    sinks put the rows of the new epoch in the place of the old ones. Of two folders that were restored from
    one backup, the one that was restored last wins.

    Parameters
    ----------
    backup
        A folder that `dygcn.open` made, or a copy of one. It is checked, and left as it is.
    folder
        Where the copy is put; nothing may be there yet.

    Returns
    -------
    History
        The first position of the new epoch.

    Examples
    --------
    >>> import dygcn, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dygcn.open(f"{folder}/friends", dygcn.fit([("ann", "bob"), ("bob", "cat")], dim=8)).close()
    ...     position = dygcn.restore(f"{folder}/friends", f"{folder}/again")
    ...     with dygcn.open(f"{folder}/again") as live:
    ...         live.confirms(position), sorted(live)
    (True, ['ann', 'bob', 'cat'])
    """
    source, target = Path(backup), Path(folder)
    if not os.path.isfile(source / LOG_FILE):
        raise FolderError(
            f"{source} has no {LOG_FILE}, so it is not a durable folder; copy it, and open the copy"
        )
    if os.path.lexists(target):
        raise FolderError(f"{target} exists; remove it, or choose another name")
    if source.resolve() in target.resolve().parents:
        raise FolderError(f"{target} lies inside of {source}; choose a place outside")
    held = FolderLock(source) if os.access(source, os.W_OK) else None  # nobody writes where nobody may
    try:
        return _copied(source, target)
    except OSError as error:
        if isinstance(error, FolderError | StorageError):
            raise
        raise StorageError(f"{source} cannot be copied to {target}: {error}") from None
    finally:
        if held is not None:
            held.release()


def _copied(source: Path, target: Path) -> History:
    """Make the copy beside its place: no folder is ever there without its new epoch."""
    target.parent.mkdir(parents=True, exist_ok=True)
    staged = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    left_out = shutil.ignore_patterns(LOCK_FILE, "*-shm", CURSORS)
    try:
        shutil.copytree(source, staged, symlinks=True, ignore=left_out, dirs_exist_ok=True)
        staged.chmod(0o755)
        with open(staged) as live:
            position = live.begin_epoch()
        for inside, _, files in os.walk(staged):
            for name in files:
                sync_file(Path(inside) / name)
            sync_names(Path(inside))
        staged.rename(target)
        sync_names(target.parent)
        return position
    finally:
        shutil.rmtree(staged, ignore_errors=True)
