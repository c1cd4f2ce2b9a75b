"""Launches a cluster from a folder."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dygcn._extras import late
from dygcn.cluster.certificates import given
from dygcn.cluster.embedding import (
    ClusterEmbedding,
    ShardsAhead,
    divide_folder,
    read_cluster_file,
    shards_needed,
    snapshots_of,
    write_cluster_file,
)
from dygcn.cluster.front import FrontState
from dygcn.cluster.logged_entries import LoggedEntries, ShardLog
from dygcn.cluster.messages import SEQUENCER, Entries, Fetch, Message, ShardSnapshot
from dygcn.cluster.queries import Query, ShardProcesses
from dygcn.cluster.query_handlers import QueryHandlers
from dygcn.cluster.slots import check_shards
from dygcn.cluster.store import SnapshotFolder
from dygcn.cluster.worker import Worker, send_entries
from dygcn.engine.models.model import Model
from dygcn.errors import ClusterError, MissingFolder, OptionError
from dygcn.live.durable.embedding import SNAPSHOT_EVERY
from dygcn.live.durable.recovery import newest_good
from dygcn.live.durable.snapshots import KEEP_LOG, KeepLog
from dygcn.live.durable.storage import layout

if TYPE_CHECKING:
    from dygcn.cluster import ray_shards
else:
    ray_shards = late("dygcn.cluster.ray_shards")

BATCHES = 1_000  # between two snapshots of a shard


def launch(
    path: str | os.PathLike[str],
    shards: int | None = None,
    *,
    on: Literal["ray", "here"] = "ray",
    snapshots: str | None = None,
    snapshot_every: int = SNAPSHOT_EVERY,
    keep_log: str | None = None,
    batches: int = BATCHES,
    certificate: str | os.PathLike[str] | None = None,
    key: str | os.PathLike[str] | None = None,
    ca: str | os.PathLike[str] | None = None,
) -> ClusterEmbedding:
    """Start the shards of a folder; return an embedding used like any durable one.

    The first time, the folder is one that `dygcn fit`, ``save`` or `dygcn.open` made: its graph is divided,
    and from then on only this function opens it.

    Parameters
    ----------
    path
        The folder.
    shards
        How many; by default 2 the first time, and later as many as there are. See `ClusterEmbedding.resize`.
    on
        ``"ray"``: a process for each shard, on the Ray cluster that is named by the environment
        (``RAY_ADDRESS``), or on a new one on this machine; extra ``ray``. ``"here"``: all in this process.
    snapshots
        Where shards keep their snapshots, for all machines to reach: a folder, or anything that fsspec knows
        (``s3://bucket/folder``). By default inside the folder; said once.
    snapshot_every, keep_log
        As in `dygcn.open`.
    batches
        Between two snapshots of a shard.
    certificate, key, ca
        Files in PEM that every machine has under these names: processes on Ray show each other the
        certificate, and let in whoever has one that the ca signed. By default one is made, which is enough on
        one machine.

    Examples
    --------
    >>> import dygcn, tempfile
    >>> from dygcn import cluster
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dygcn.fit([("ann", "bob"), ("bob", "cat")], dim=8).save(f"{folder}/friends")
    ...     with cluster.launch(f"{folder}/friends", shards=2, on="here") as live:
    ...         change = live.update(add=[("cat", "dan")])
    ...         live.shards, len(live), live["dan"].shape
    (2, 4, (8,))
    """
    folder = Path(path)
    if not folder.is_dir():
        raise MissingFolder(
            f"{folder} does not exist; fit a model first, and save it: dygcn fit, or live.save"
        )
    if shards is not None:
        check_shards(shards)
    certificates = given((certificate, key, ca))
    if on == "ray":
        _ = ray_shards.RayShards  # before anything is divided: it may not be installed
    elif on != "here":
        raise OptionError(f"on is {on!r}; allowed are 'ray' and 'here'")
    about = read_cluster_file(folder)
    if about is None:
        about = divide_folder(folder, 2 if shards is None else shards, snapshots)
    elif snapshots not in (None, about.snapshots):
        raise OptionError(f"snapshots of {folder} lie in {about.snapshots}; start it without snapshots=")
    with ExitStack() as undo:
        held = layout.FolderLock(folder)
        undo.callback(held.release)
        about = read_cluster_file(folder) or about  # no other process changes it from now on
        layout.check_log(folder)
        layout.prepare_layout(folder)
        layout.clear_leftovers(folder)
        log = ShardLog(folder / layout.LOG_FILE, held)
        undo.callback(log.close)
        layout.mark_durable(folder)
        begin, entries, count = newest_good(folder, log), LoggedEntries(log), shards_needed(about, log)
        model, store = begin.state.model, snapshots_of(folder, about)
        begin.state.graph = model.new_graph()  # shards have theirs, and a first snapshot may hold all of it
        processes: ShardProcesses
        if on == "here":
            processes = local = LocalShards(model, entries, store, batches)
            for number in range(count):
                local.restart(number)
        else:  # Ray knows machines by their addresses; a Ray that is started for this is on loopback
            host = "" if os.environ.get("RAY_ADDRESS") else "127.0.0.1"
            how: dict[str, Any] = {"name": folder.name, "host": host, "every": batches}
            about_ray = folder / "front", store, model, entries, range(count)
            processes = ray_shards.RayShards(*about_ray, certificates=certificates, **how)
        undo.callback(processes.close)
        entries.processes = processes
        front = FrontState(model, processes, entries.commit, log.last_batch_id)
        for number in range(front.queries.shards, count):
            processes.retire(number)
        begin.state, begin.feed = front, None
        log.needed = lambda: front.kept
        keeping = KeepLog.read(keep_log or log.keep_log or KEEP_LOG)
        ahead = ShardsAhead(log, begin)
        if keep_log is not None:
            log.remember_keep_log(keep_log)
        about.shards, about.batch = front.queries.shards, log.last_batch_id
        write_cluster_file(folder, about)
        durable = folder, held, ahead, snapshot_every, keeping
        live = ClusterEmbedding(*durable, about=about, logged=entries)
        undo.pop_all()
        undo.callback(live.close)
        if shards not in (None, live.shards):
            live.resize(shards)
        undo.pop_all()
    return live


# ---- shards in this process -------------------------------------------------------------------------

_ROUNDS = 100  # of requesting again, after which no reply will come


class LocalShards:
    """Workers that hand each other messages, with snapshots in a folder."""

    def __init__(self, model: Model, log: LoggedEntries, folder: str, every: int) -> None:
        self._model, self._folder, self._every = model, folder, every
        self._log = log
        self.workers: dict[int, Worker] = {}
        self._handlers: dict[int, QueryHandlers] = {}
        self._waiting: deque[tuple[int, Message]] = deque()
        self._one_at_a_time = threading.RLock()
        self._epoch = 0

    def _store(self, number: int) -> SnapshotFolder:
        return SnapshotFolder(self._folder, number)

    def add(self, number: int, snapshot: ShardSnapshot) -> None:
        """Begin a shard."""
        self._store(number).begin(snapshot)
        self.restart(number)

    def restart(self, number: int) -> None:
        """Replace a worker by a new one, which begins with its snapshots."""
        self._epoch += 1
        about = number, self._epoch, self._model, self._store(number), self, self._every
        worker = self.workers[number] = Worker(*about)
        self._handlers[number] = QueryHandlers(worker)

    def retire(self, number: int) -> None:
        """End a shard."""
        del self.workers[number], self._handlers[number]

    def announce(self, entries: Entries) -> None:
        """Send all shards entries."""
        self._waiting.extend((number, entries) for number in self.workers)

    def send(self, to: int, message: Message) -> None:
        """Keep a message until the next query."""
        self._waiting.append((to, message))

    def query(self, queries: Mapping[int, Query]) -> dict[int, Any]:
        """Send queries to shards; all messages are delivered first."""
        replies: dict[int, Any] = {}
        with self._one_at_a_time:
            for _ in range(_ROUNDS):
                while self._waiting:
                    to, message = self._waiting.popleft()
                    if to == SEQUENCER:
                        assert isinstance(message, Fetch)
                        send_entries(self._log, self, message)
                    elif to in self.workers:
                        self.workers[to].take(message)
                        while self.workers[to].step():
                            pass
                for number, query in queries.items():
                    worker = self.workers.get(number)
                    if number not in replies and worker and worker.ready and worker.position >= query.at:
                        replies[number] = self._handlers[number].reply(query)
                if len(replies) == len(queries):
                    return replies
                for worker in list(self.workers.values()):
                    worker.request_again()
                    while worker.step():
                        pass
        missing = sorted(set(queries) - set(replies))
        raise ClusterError(f"shards {missing} have no answer; start the cluster again")

    def close(self) -> None:
        """End all."""
        self.workers.clear()
