"""A process of one shard: one thread applies entries and replies to queries, one sends beats to the front.

The process requests its epoch from the front; it ends by itself when it has a successor, or cannot go on. Its
supervisor starts the next one.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

from dygcn.cluster.certificates import Credentials
from dygcn.cluster.flight import Post
from dygcn.cluster.messages import Beat, Failed, Member, Members, Register, Replaced, Welcome
from dygcn.cluster.query_handlers import QueryHandlers
from dygcn.cluster.store import SnapshotFolder
from dygcn.cluster.worker import Worker
from dygcn.engine.models.model import Model
from dygcn.errors import ClusterError, DygcnError

_LOG = logging.getLogger("dygcn.cluster")
_MOST_WAITING = 8_192  # messages and queries that wait for the thread of the shard
_AT_ONCE = 256  # of them before the next batch
_TICK = 0.2  # seconds between two requests of what is missing
_BEAT = 0.5
_PATIENCE = 1.0  # seconds that a query waits for its turn, before its sender has to send it again
_LONGEST = 60.0  # seconds that a reply may take: no sender waits longer


class ShardProcess:
    """Runs a shard (see `Worker`) in threads of this process.

    `find_front` returns the address of the front, None if there is none yet; it is called again whenever the
    front is silent. `end` is called, in one of the threads, when the process has to end.
    """

    def __init__(
        self,
        number: int,
        model: Model,
        snapshots: SnapshotFolder,
        credentials: Credentials,
        find_front: Callable[[], str | None],
        host: str = "127.0.0.1",
        every: int = 1_000,
        end: Callable[[int], None] = os._exit,
    ) -> None:
        self.number, self._model, self._snapshots, self._every = number, model, snapshots, every
        self._find_front, self._end = find_front, end
        self._incoming: queue.Queue[Any] = queue.Queue(_MOST_WAITING)
        self._registered, self._ending = threading.Event(), threading.Event()
        self.worker: Worker | None = None
        self.post = Post(number, credentials, self._take, self._reply, host)
        self._threads = [
            threading.Thread(target=self._guarded, args=(run,), name=name, daemon=True)
            for name, run in (("shard", self._work), ("beat", self._beat))
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End the threads, after the current batch."""
        self._ending.set()
        self._registered.set()
        for thread in self._threads:
            thread.join()
        self.post.close()

    def _guarded(self, run: Callable[[], None]) -> None:
        try:
            run()
        except Exception as error:
            _LOG.exception("shard %d ends", self.number)
            reason = f"{type(error).__name__}: {error}"
            front = self._find_front()
            if front is not None:
                self.post.query(front, Failed(self.number, reason))
            self._ending.set()
            self._end(1)

    # ---- in threads of the server ----------------------------------------------------------------------

    def _take(self, message: Any) -> None:
        if isinstance(message, Members):
            self.post.connect(message)
            return
        try:
            self._incoming.put_nowait(message)
        except queue.Full:  # requested again if it is needed
            self.post.dropped += 1

    def _reply(self, query: Any) -> Any:
        waiting: Future[Any] = Future()
        try:
            self._incoming.put_nowait((query, waiting))
            return waiting.result(_PATIENCE)
        except queue.Full:
            return None
        except TimeoutError:
            if waiting.cancel():  # it has not begun; one that has may take long, and is worth waiting for
                return None
        try:
            return waiting.result(_LONGEST)
        except TimeoutError:
            return None

    # ---- in the thread of the shard --------------------------------------------------------------------

    def _work(self) -> None:
        self._registered.wait()
        if self._ending.is_set():
            return
        about = self.number, self.post.epoch, self._model, self._snapshots, self.post, self._every
        worker = self.worker = Worker(*about)
        handlers = QueryHandlers(worker)
        waiting: list[tuple[Any, Future[Any]]] = []
        next_tick, more = 0.0, False
        while not self._ending.is_set():
            for item in self._next(0.0 if more else next_tick - time.monotonic()):
                if isinstance(item, tuple):
                    waiting.append(item)
                else:
                    worker.take(item)
            if time.monotonic() >= next_tick:
                worker.request_again()
                next_tick = time.monotonic() + _TICK
            more = worker.step()
            waiting = [one for one in waiting if not _try(*one, handlers, worker)]

    def _next(self, seconds: float) -> Iterator[Any]:
        """Yield waiting messages; block for the first one, if there is time."""
        try:
            yield self._incoming.get(timeout=seconds) if seconds > 0 else self._incoming.get_nowait()
            for _ in range(_AT_ONCE):
                yield self._incoming.get_nowait()
        except queue.Empty:
            return

    # ---- in the thread of beats ------------------------------------------------------------------------

    def _beat(self) -> None:
        front = None
        while not self._ending.is_set():
            if front is None:
                front = self._find_front()
            me, epoch = self.post.location, self.post.epoch
            beat = Beat(Member(self.number, epoch, me), os.getpid()) if epoch else Register(self.number, me)
            reply = None if front is None else self.post.query(front, beat, _PATIENCE)
            if isinstance(reply, Replaced):
                _LOG.warning("shard %d has a successor: epoch %d ends", self.number, epoch)
                self._ending.set()
                self._end(0)
                return
            if isinstance(reply, Welcome):
                self.post.connect(reply.members)
                self.post.epoch = reply.epoch
                self._registered.set()
            elif isinstance(reply, Members):
                self.post.connect(reply)
            else:
                front = None  # it may have another address by now
            self._ending.wait(_BEAT)


def _try(query: Any, waiting: Future[Any], handlers: QueryHandlers, worker: Worker) -> bool:
    """Reply to a query, if the shard has applied its batch; return whether the query is done waiting."""
    if not (worker.ready and worker.position >= getattr(query, "at", 0)):
        return waiting.cancelled()
    if waiting.set_running_or_notify_cancel():
        try:
            waiting.set_result(handlers.reply(query))
        except Exception as error:  # of the query, and not of the shard
            _LOG.exception("shard %d cannot answer", worker.number)
            text = f"{type(error).__name__}: {error}"
            waiting.set_exception(error if isinstance(error, DygcnError) else ClusterError(text))
    return True
