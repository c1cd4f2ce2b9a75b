"""Shards in this process, for trying out a cluster and for tests."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from typing import Any

from dygcn.cluster.logged_entries import LoggedEntries
from dygcn.cluster.messages import SEQUENCER, Entries, Fetch, Message, ShardSnapshot
from dygcn.cluster.queries import Query
from dygcn.cluster.query_handlers import QueryHandlers
from dygcn.cluster.store import SnapshotFolder
from dygcn.cluster.worker import Worker, send_entries
from dygcn.engine.models.model import Model
from dygcn.errors import ClusterError

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
