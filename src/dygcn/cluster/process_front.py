"""The front of shards in other processes: who is who, the log that they fetch, and questions to them."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dygcn.cluster.certificates import made_in
from dygcn.cluster.flight import Post
from dygcn.cluster.members import Member, Members
from dygcn.cluster.protocol import SEQUENCER, Fetch
from dygcn.cluster.registry import Epochs, Registry
from dygcn.cluster.sequencer import Sequencer
from dygcn.cluster.store import leave_note
from dygcn.engine._disk import make_folder
from dygcn.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dygcn.cluster.certificates import Certificates
    from dygcn.cluster.protocol import Entries
    from dygcn.cluster.sequencer import EntryLog

_PAUSE = 0.05  # seconds, where nobody is there
_PATIENCE = 3.0, 60.0  # for an answer: at first, and in the end
_LONG = 300.0  # seconds without an answer, after which nobody waits any longer
_AT_ONCE = 64  # questions


class ProcessFront:
    """What processes of shards need of the one who writes the log; who starts them is left open.

    Parameters
    ----------
    folder
        Of the front alone: the last epoch, and the certificate of a cluster on one machine.
    store
        Of all: snapshots, and where the front is found. A local folder, or anything that fsspec knows.
    log
        Entries, read in other threads than the one that appends.
    shards
        Numbers of the shards that there are.
    host
        The address to listen at.
    certificates
        Of every process; None: one that is made here, and trusted by nobody else.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        store: str,
        log: EntryLog,
        shards: Iterable[int],
        host: str,
        certificates: Certificates | None = None,
    ) -> None:
        folder = Path(folder)
        make_folder(folder, parents=True)
        self.certificates, epochs = certificates or made_in(folder), Epochs(folder / "epoch")
        self._registry: Registry | None = None
        self.post = Post(SEQUENCER, self.certificates.read(), self._take, self._answer, host)
        self.post.epoch = epochs.next()
        self._sequencer = Sequencer(log, self.post)
        me = Member(SEQUENCER, self.post.epoch, self.post.location)
        self._registry = Registry(epochs, me, shards, self._tell_members)
        leave_note(store, self.post.location)
        self._asking = ThreadPoolExecutor(_AT_ONCE, "ask")
        self._ending = threading.Event()

    @property
    def registry(self) -> Registry:
        """Who is who."""
        assert self._registry is not None
        return self._registry

    # ---- in threads of the server ----------------------------------------------------------------------

    def _take(self, message: Any) -> None:
        if isinstance(message, Fetch):
            self._sequencer.receive(message)

    def _answer(self, question: Any) -> Any:
        return None if self._registry is None else self._registry.answer(question)

    def _tell_members(self, members: Members) -> None:
        self.post.connect(members)
        self.post.send_to_all([one.number for one in members.all if one.number != SEQUENCER], members)

    # ---- the log and questions -------------------------------------------------------------------------

    def announce(self, entries: Entries) -> None:
        """Tell all shards of entries that are in the log; any may miss it, and fetches them."""
        self.post.send_to_all(sorted(self.registry.wanted), entries)

    def ask(self, questions: Mapping[int, Any]) -> dict[int, Any]:
        """Ask several shards at once, and wait for all answers, through restarts.

        Raises
        ------
        ClusterError
            If a shard has not answered for a long time, or cannot answer this.
        """
        if len(questions) == 1:
            return {number: self._ask_one(number, question) for number, question in questions.items()}
        answers = {
            number: self._asking.submit(self._ask_one, number, question)
            for number, question in questions.items()
        }
        return {number: answer.result() for number, answer in answers.items()}

    def _ask_one(self, number: int, question: Any) -> Any:
        patience, most = _PATIENCE
        end = time.monotonic() + _LONG
        while time.monotonic() < end and not self._ending.is_set():
            location = self.registry.location(number)
            begun = time.monotonic()
            answer = None if location is None else self.post.ask(location, question, patience)
            if answer is not None:
                return answer
            if time.monotonic() - begun > patience:  # a large answer takes long, too
                patience = min(2 * patience, most)
            elif time.monotonic() - begun < _PAUSE:
                self._ending.wait(_PAUSE)
        reason = self.registry.failures.get(number, "it may still be starting, or have no room to")
        raise ClusterError(f"shard {number} has no answer for {_LONG:.0f} s; what is known of it: {reason}")

    def leave(self) -> None:
        """End the front, and leave the shards to the next one."""
        self._ending.set()
        self._asking.shutdown(wait=False)
        self.post.close()
