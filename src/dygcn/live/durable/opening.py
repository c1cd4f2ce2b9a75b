"""Durable folders: opening one, and beginning a new epoch from a backup."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import overload

from dygcn.engine._disk import make_folder, sync_file, sync_names
from dygcn.engine.models.folder import check_target, read_manifest
from dygcn.engine.records import History
from dygcn.errors import DamagedLog, FolderError, MissingFolder, OptionError, StorageError, shown
from dygcn.live.durable.embedding import SNAPSHOT_EVERY, DurableEmbedding
from dygcn.live.durable.forgetting import complete_base
from dygcn.live.durable.past import AsOf, PastEmbedding, open_past
from dygcn.live.durable.recovery import newest_good
from dygcn.live.durable.snapshots import KEEP_LOG, KeepLog
from dygcn.live.durable.storage import layout
from dygcn.live.durable.storage.erasures import ERASURES_FILE, Erasures
from dygcn.live.durable.storage.log import EventLog
from dygcn.live.durable.write_ahead import WriteAhead
from dygcn.live.files import load_snapshot
from dygcn.live.finding import at_least
from dygcn.live.view import EmbeddingView


@overload
def open(
    path: str | os.PathLike[str],
    begin: EmbeddingView | None = None,
    *,
    snapshot_every: int = SNAPSHOT_EVERY,
    keep_log: str | timedelta | None = None,
    after: DurableEmbedding | None = None,
    as_of: None = None,
) -> DurableEmbedding: ...
@overload
def open(path: str | os.PathLike[str], *, as_of: AsOf) -> PastEmbedding: ...
def open(
    path: str | os.PathLike[str],
    begin: EmbeddingView | None = None,
    *,
    snapshot_every: int = SNAPSHOT_EVERY,
    keep_log: str | timedelta | None = None,
    after: DurableEmbedding | None = None,
    as_of: AsOf | None = None,
) -> DurableEmbedding | PastEmbedding:
    """Open a folder for durable updates: once `update` returns, its changes are on disk and survive a crash.

    Parameters
    ----------
    path
        A folder that `LiveEmbedding.save` wrote (it becomes durable), or that was opened before: then the
        newest good snapshot is loaded and the log behind it replayed.
    begin
        Where there is no folder yet: what to begin it with.
    snapshot_every
        Events between two snapshots, which are written in the background.
    keep_log
        How much of the past is kept for `as_of`: a span (``"7d"``, a timedelta), or a size (``"2GB"``) that
        log and snapshots may take beside what recovery needs. The folder remembers it; at first it is 256 MB.
    after
        Another durable embedding that the folder goes on from, after a refit for example: offsets of streams
        and forgotten ids of that one are taken over, so that sources do not bring back what they brought.
    as_of
        A moment: then the folder is only read, and what comes back is the embedding as it was. A sequence
        (`live.sequence`), or a time, for the state after the last batch that was logged by then: a datetime
        with a zone, seconds since 1970 as a float, or text such as ``"2026-11-10T12:00Z"``. It may be open
        elsewhere.

    Returns
    -------
    DurableEmbedding or PastEmbedding
        The second if there is a moment: it answers what the first answers, and cannot be changed.

    Raises
    ------
    FolderInUse
        If another process has it open.
    MissingFolder
        If there is none.
    NoSuchPast
        If the moment is still to come, or further back than is kept.
    DamagedFolder, DamagedLog
        If what was acknowledged cannot be had from it.

    Examples
    --------
    >>> import dygcn, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     live = dygcn.open(f"{folder}/friends", dygcn.fit([("ann", "bob"), ("bob", "cat")], dim=8))
    ...     change = live.update(add=[("cat", "dan")], stream="clicks", offset=7)
    ...     live.close()
    ...     with dygcn.open(f"{folder}/friends") as again:
    ...         "dan" in again, again.streams
    ...     "dan" in dygcn.open(f"{folder}/friends", as_of=0)
    (True, {'clicks': 7})
    False
    """
    folder = Path(path)
    layout.check_undivided(folder)
    if as_of is not None:
        if begin is not None or keep_log is not None or after is not None:
            raise OptionError("as_of reads the past of a folder; open it without begin, keep_log and after")
        return open_past(folder, as_of)
    wanted = None if keep_log is None else KeepLog.read(keep_log)
    at_least("snapshot_every", snapshot_every, 1)
    if after is not None and not isinstance(after, DurableEmbedding):
        raise OptionError(f"after is {shown(after)}; allowed is an embedding that dygcn.open returned")
    if begin is not None:
        if os.path.exists(folder) and not (folder.is_dir() and next(folder.iterdir(), None) is None):
            raise FolderError(f"{folder} exists; open it without begin, or choose another name")
        make_folder(check_target(folder))  # what replaces it is as private
        begin.save(folder)
    elif os.path.isfile(folder):
        raise FolderError(f"{folder} is not a folder; choose another name")
    elif not os.path.isdir(folder):
        raise MissingFolder(
            f"{folder} does not exist; check the name, or pass what to begin it with: dygcn.open(path, live)"
        )
    elif not layout.is_durable(folder):
        read_manifest(folder)  # a lock is not left in a folder of something else
    held = layout.FolderLock(folder)
    log = first = None
    try:
        layout.check_log(folder)
        if not (folder / layout.LOG_FILE).exists():
            first = load_snapshot(folder)  # nothing is put beside what cannot be used
        layout.prepare_layout(folder)
        layout.clear_leftovers(folder)
        complete_base(folder)
        log = EventLog(folder / layout.LOG_FILE, held)
        layout.mark_durable(folder)
        found = newest_good(folder, log, first)
        keeping = wanted or _remembered(log)
        live = DurableEmbedding(folder, held, WriteAhead(log, found), snapshot_every, keeping)
        if wanted is not None:
            log.remember_keep_log(str(wanted))
        for unusable in found.unusable:
            layout.set_aside(unusable)
        if after is not None:
            live._then_snapshot(lambda: live._forgetting.take_over(after._ahead))
        live._forgetting.complete()
        return live
    except BaseException:
        if log is not None:
            log.close()
        held.release()
        raise


def _remembered(log: EventLog) -> KeepLog:
    """Return the stored setting of how much past to keep, when `open` gets no keep_log."""
    try:
        return KeepLog.read(log.keep_log or KEEP_LOG)
    except OptionError as error:
        raise DamagedLog(
            f"{log.path} does not say how much is kept ({error}); open it with keep_log="
        ) from None


def restore(
    backup: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    forgets: str | os.PathLike[str] | None = None,
) -> History:
    """Copy a durable folder that no process has open to a new folder, and begin a new epoch there.

    Readers that saw more than the backup holds start over: readers of the feed get everything again, and
    sinks put the rows of the new epoch in the place of the old ones. Of two folders that were restored from
    one backup, the one that was restored last wins.

    Parameters
    ----------
    backup
        A folder that `dygcn.open` made, or a copy of one. It is checked, and left as it is.
    folder
        Where the copy is put; nothing may be there yet.
    forgets
        The folder that was backed up, or a newer copy of its ``erasures.json``: ids that were forgotten since
        the backup was made are forgotten in the copy, too. Without it they are back.

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
    ...         live.feed.confirms(position), sorted(live)
    (True, ['ann', 'bob', 'cat'])
    """
    source, target = Path(backup), Path(folder)
    if not source.is_dir():
        raise MissingFolder(f"{source} does not exist; name the folder of the backup")
    layout.check_undivided(source)
    layout.check_log(source)
    if not os.path.isfile(source / layout.LOG_FILE):
        raise FolderError(
            f"{source} has no {layout.LOG_FILE}, so it is not a durable folder; copy it, and open the copy"
        )
    if os.path.lexists(target):
        raise FolderError(f"{target} exists; remove it, or choose another name")
    if source.resolve() in target.resolve().parents:
        raise FolderError(f"{target} lies inside of {source}; choose a place outside")
    held = (
        layout.FolderLock(source) if os.access(source, os.W_OK) else None
    )  # without permission to write, no process writes
    try:
        return _copied(source, target, None if forgets is None else _erasures_of(Path(forgets)))
    except OSError as error:
        if isinstance(error, FolderError | StorageError):
            raise
        raise StorageError(f"{source} cannot be copied to {target}: {error}") from None
    finally:
        if held is not None:
            held.release()


class _CopyOnce:
    """Copies files; hard links to one file stay links in the copy."""

    def __init__(self) -> None:
        self._copies: dict[tuple[int, int], str] = {}

    def __call__(self, source: str, target: str, *, follow_symlinks: bool = False) -> str:
        about = os.stat(source, follow_symlinks=False)
        known = self._copies.setdefault((about.st_dev, about.st_ino), target)
        if known != target:
            with suppress(OSError):
                os.link(known, target)
                return target
        return str(shutil.copy2(source, target, follow_symlinks=follow_symlinks))


def _erasures_of(path: Path) -> Erasures:
    """Return the erasures of a folder, or of a copy of its file."""
    folder = path.parent if path.is_file() and path.name == ERASURES_FILE else path
    if not os.path.isfile(folder / ERASURES_FILE):
        raise MissingFolder(
            f"{path} has no {ERASURES_FILE}; name the folder that was backed up, or a copy of that file. "
            "Where nothing was forgotten there is none, and restore needs none"
        )
    return Erasures(folder)


def _copied(source: Path, target: Path, forgets: Erasures | None) -> History:
    """Copy to a temporary folder, begin its epoch, rename it: the copy appears complete or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    staged = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    left_out = shutil.ignore_patterns(layout.LOCK_FILE, "*-shm", layout.CURSORS)
    try:
        once = _CopyOnce()
        shutil.copytree(
            source, staged, symlinks=True, ignore=left_out, copy_function=once, dirs_exist_ok=True
        )
        staged.chmod(0o700)  # it was given the mode of the backup
        if forgets is not None:
            Erasures(staged).take_over(forgets)  # opening completes them
        with open(staged) as live:
            position = live.feed.begin_epoch()
        for inside, _, files in os.walk(staged):
            for name in files:
                sync_file(Path(inside) / name)
            sync_names(Path(inside))
        staged.rename(target)
        sync_names(target.parent)
        return position
    finally:
        shutil.rmtree(staged, ignore_errors=True)
