"""A process of one shard: one thread that works and answers, one that says that it lives.

The process asks the front for its epoch, and everybody else for everything else; it ends by itself when it
has a successor, or cannot go on. Whoever supervises it starts the next one.
"""

from __future__ import annotations

import logging
import os
import queue
import socket
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dygcn.cluster.answering import Answering
from dygcn.cluster.flight import Post
from dygcn.cluster.members import Beat, Failed, Member, Members, Register, Replaced, Welcome
from dygcn.cluster.worker import Worker
from dygcn.errors import ClusterError, DygcnError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dygcn.cluster.certificates import Credentials
    from dygcn.cluster.protocol import SnapshotStore
    from dygcn.engine.models import Model

_LOG = logging.getLogger("dygcn.cluster")
_MOST_WAITING = 8_192  # messages and questions that nobody took yet
_AT_ONCE = 256  # of them before the next batch
_TICK = 0.2  # seconds between two times of asking again
_BEAT = 0.5
_PATIENCE = 1.0  # seconds that a question waits for its turn, before whoever asked asks again
_LONGEST = 60.0  # that an answer may take: nobody who asks waits longer


@dataclass(slots=True)
class _Waiting:
    """A question that waits for its answer."""

    question: Any
    answer: Any = None
    failure: DygcnError | None = None
    done: threading.Event = field(default_factory=threading.Event)
    begun: bool = False  # to be answered: this may take long, and is worth waiting for
    given_up: bool = False


class ShardProcess:
    """Runs a shard in threads of this process.

    Parameters
    ----------
    number, model, snapshots, every
        As in `Worker`.
    credentials, host
        As in `Post`.
    find_front
        Returns the location of the front, None if there is none yet; asked again whenever it is silent.
    end
        Called, from one of the threads, when the process has to end.
    """

    def __init__(
        self,
        number: int,
        model: Model,
        snapshots: SnapshotStore,
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
        self.post = Post(number, credentials, self._take, self._ask, host)
        self._threads = [
            threading.Thread(target=self._guarded, args=(run,), name=name, daemon=True)
            for name, run in (("shard", self._work), ("life", self._live))
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End the threads, after the batch that they are at."""
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
                self.post.ask(front, Failed(self.number, reason))
            self._ending.set()
            self._end(1)

    # ---- in threads of the server ----------------------------------------------------------------------

    def _take(self, message: Any) -> None:
        if isinstance(message, Members):
            self.post.connect(message)
            return
        try:
            self._incoming.put_nowait(message)
        except queue.Full:  # whoever needs it asks again
            self.post.dropped += 1

    def _ask(self, question: Any) -> Any:
        waiting = _Waiting(question)
        try:
            self._incoming.put_nowait(waiting)
        except queue.Full:
            return None
        if not waiting.done.wait(_PATIENCE):
            waiting.given_up = True
            if waiting.begun:
                waiting.done.wait(_LONGEST)
        if waiting.failure is not None:
            raise waiting.failure
        return waiting.answer

    # ---- in the thread of the shard --------------------------------------------------------------------

    def _work(self) -> None:
        self._registered.wait()
        if self._ending.is_set():
            return
        answering = Answering()
        worker = self.worker = Worker(
            self.number,
            self.post.epoch,
            self._model,
            self._snapshots,
            self.post,
            self._every,
            lambda sequence, spread: answering.note(sequence, spread, worker),
        )
        waiting: list[_Waiting] = []
        next_tick, more = 0.0, False
        while not self._ending.is_set():
            for item in self._next(0.0 if more else next_tick - time.monotonic()):
                if isinstance(item, _Waiting):
                    waiting.append(item)
                else:
                    worker.take(item)
            if time.monotonic() >= next_tick:
                worker.ask_again()
                next_tick = time.monotonic() + _TICK
            more = worker.step()
            waiting = [one for one in waiting if not _try(one, answering, worker)]

    def _next(self, seconds: float) -> Iterator[Any]:
        """Return what came in; wait for the first, if there is time."""
        try:
            yield self._incoming.get(timeout=seconds) if seconds > 0 else self._incoming.get_nowait()
            for _ in range(_AT_ONCE):
                yield self._incoming.get_nowait()
        except queue.Empty:
            return

    # ---- in the thread of the heart --------------------------------------------------------------------

    def _live(self) -> None:
        front = None
        while not self._ending.is_set():
            if front is None:
                front = self._find_front()
            answer = None if front is None else self.post.ask(front, self._sign_of_life(), _PATIENCE)
            if isinstance(answer, Replaced):
                _LOG.warning("shard %d has a successor: epoch %d ends", self.number, self.post.epoch)
                self._ending.set()
                self._end(0)
                return
            if isinstance(answer, Welcome):
                self.post.connect(answer.members)
                self.post.epoch = answer.epoch
                self._registered.set()
            elif isinstance(answer, Members):
                self.post.connect(answer)
            else:
                front = None  # perhaps it is elsewhere by now
            self._ending.wait(_BEAT)

    def _sign_of_life(self) -> Register | Beat:
        number, location, host, pid = self.number, self.post.location, socket.gethostname(), os.getpid()
        if not self.post.epoch:
            return Register(number, location, host, pid)
        post, worker = self.post, self.worker
        me, sent = (
            Member(number, post.epoch, location),
            (post.sent, post.sent_bytes, post.dropped, post.refused),
        )
        if worker is None:
            return Beat(me, host, pid, -1, False, *sent, 0, 0)
        told = worker.changes, worker.first_rows
        return Beat(me, host, pid, worker.position, worker.whole, *sent, *told)


def _try(waiting: _Waiting, answering: Answering, worker: Worker) -> bool:
    """Answer a question; say whether it need not wait any longer."""
    waiting.begun = True  # first: whoever gives up looks at it after that
    if waiting.given_up:
        waiting.done.set()
        return True
    try:
        waiting.answer = answering.answer(worker, waiting.question)
    except Exception as error:  # of the question, and not of the shard
        _LOG.exception("shard %d cannot answer", worker.number)
        text = f"{type(error).__name__}: {error}"
        waiting.failure = error if isinstance(error, DygcnError) else ClusterError(text)
    if waiting.answer is None and waiting.failure is None:
        waiting.begun = False
        return False
    waiting.done.set()
    return True
