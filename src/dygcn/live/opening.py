"""Ways to a `LiveEmbedding` without fitting: from a model, or from a folder, durable or not."""

from __future__ import annotations

import os
from pathlib import Path

from dygcn.errors import DamagedFolder, DamagedLog, FolderError, OptionError
from dygcn.live.durable import SNAPSHOT_EVERY, DurableEmbedding
from dygcn.live.embedding import LiveEmbedding
from dygcn.live.files import load_state
from dygcn.live.recovery import newest_good
from dygcn.models import Model, State
from dygcn.storage import LOG_FILE, EventLog, FolderLock, clear_leftovers, list_snapshots, prepare_shelf


def start(model: Model) -> LiveEmbedding:
    """Return the model at work on an empty graph.

    A model that keeps an embedding fresh starts with the nodes of that embedding, without edges. One of the
    paper's rules has no vectors yet: give it a graph (`update`), then a base (`restart`).

    Examples
    --------
    >>> import dygcn
    >>> live = dygcn.fit([(1, 2), (2, 3)], dim=8)
    >>> again = dygcn.start(live.model)
    >>> _ = again.update(add=[(2, 3), (1, 2)])
    >>> again.digest() == live.digest()
    True
    """
    state = State(model)
    if model.baseline is not None:
        state.set_features(model.baseline.ids, model.baseline.vectors)
    return LiveEmbedding(state)


def load(path: str | os.PathLike[str]) -> LiveEmbedding:
    """Load what `LiveEmbedding.save` wrote. Every byte is checked before use; nothing is unpickled.

    Raises
    ------
    DamagedFolder
        If the folder is missing, truncated, altered or contradicts itself.
    UnsupportedFolder
        If it was written in another format version.

    Examples
    --------
    >>> import dygcn, tempfile
    >>> live = dygcn.fit([("ann", "bob"), ("bob", "cat")], dim=8)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     live.save(f"{folder}/friends.dygcn")
    ...     same = dygcn.load(f"{folder}/friends.dygcn")
    >>> same.digest() == live.digest()
    True
    """
    if os.path.exists(Path(path) / LOG_FILE):  # also where the name is too long to be one
        raise FolderError(f"{path} is durable: its log is newer than what is saved; use dygcn.open")
    return LiveEmbedding(*load_state(path))


def open(
    path: str | os.PathLike[str],
    begin: LiveEmbedding | None = None,
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
    log = None
    try:
        if not (folder / LOG_FILE).exists():
            if list_snapshots(folder):
                raise DamagedLog(f"{folder} has snapshots and no {LOG_FILE}, which they are of; restore it")
            load_state(folder)  # nothing is put beside what cannot be used
        prepare_shelf(folder)
        clear_leftovers(folder)
        log = EventLog(folder / LOG_FILE)
        return DurableEmbedding(folder, log, held, newest_good(folder, log), snapshot_every)
    except BaseException:
        if log is not None:
            log.close()
        held.release()
        raise
