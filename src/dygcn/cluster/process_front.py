"""The front of shards in other processes: which there are, the log that they fetch, and queries to them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from dygcn.cluster import messages as m
from dygcn.cluster.certificates import Certificates, made_in
from dygcn.cluster.flight import Post
from dygcn.cluster.logged_entries import LoggedEntries
from dygcn.cluster.queries import Query
from dygcn.cluster.store import leave_note
from dygcn.cluster.worker import send_entries
from dygcn.engine._disk import make_folder, replace_own
from dygcn.errors import ClusterError

_PAUSE = 0.05  # seconds, where there is no process
_PATIENCE = 3.0, 60.0  # seconds for a reply: at first, and at most
_LONG = 300.0  # seconds without a reply, after which a query fails
_AT_ONCE = 64  # queries
_STARTING = 60.0  # seconds that a process may take to start


class Epochs:
    """Epoch numbers, none given twice, even after a restart; the last one is in a file."""

    def __init__(self, file: Path) -> None:
        self._file, self._lock = file, threading.Lock()
        try:
            self._last = int(file.read_text()) if file.exists() else 0
        except ValueError:
            raise ClusterError(f"{file} is damaged: it should hold one number, the last epoch") from None

    def next(self) -> int:
        """Return the next number, once it is on disk."""
        with self._lock:
            self._last += 1
            replace_own(self._file, self._file.with_suffix(".part"), str(self._last).encode())
            return self._last


class Registry:
    """The known processes by number, that of the `front` included, and the `wanted` shards.

    `changed` is called with all members when one came, was replaced or left.
    """

    def __init__(
        self, epochs: Epochs, front: m.Member, wanted: Iterable[int], changed: Callable[[m.Members], None]
    ) -> None:
        self._epochs, self._changed, self._front = epochs, changed, front
        self._lock = threading.Lock()
        self._members = {m.SEQUENCER: front}
        self._version = 1
        self.wanted = set(wanted)
        self._last_beat = dict.fromkeys(self.wanted, time.monotonic() + _STARTING)
        self.failures: dict[int, str] = {}
        self.beats: dict[int, m.Beat] = {}

    def reply(self, message: Any) -> Any:
        """Return the reply to a process."""
        if isinstance(message, m.Register):
            return self._register(message)
        if isinstance(message, m.Beat):
            return self._take_beat(message)
        if isinstance(message, m.Failed):
            self.failures[message.number] = message.reason
            return m.Replaced()
        raise ClusterError(f"a {type(message).__name__} is no query to the front")

    def _register(self, request: m.Register) -> m.Welcome | m.Replaced:
        if request.number not in self.wanted:
            return m.Replaced()
        epoch = self._epochs.next()
        with self._lock:
            self._put(m.Member(request.number, epoch, request.location))
            members = self._all()
        self._changed(members)
        return m.Welcome(epoch, members)

    def _take_beat(self, beat: m.Beat) -> m.Members | m.Replaced:
        member = beat.member
        with self._lock:
            known = self._members.get(member.number)
            if member.number not in self.wanted or (known is not None and member.epoch < known.epoch):
                return m.Replaced()
            self._last_beat[member.number] = time.monotonic()
            self.beats[member.number] = beat
            new = known is None or member.epoch > known.epoch  # registered at an earlier front
            if new:
                self._put(member)
            members = self._all()
        if new:
            self._changed(members)
        return members

    def _put(self, member: m.Member) -> None:
        self._members[member.number] = member
        self._last_beat[member.number] = time.monotonic()
        self._version += 1

    def _all(self) -> m.Members:
        return m.Members(self._front.epoch, self._version, tuple(self._members.values()))

    def want(self, number: int) -> None:
        """Expect a process for a shard from now on."""
        with self._lock:
            self.wanted.add(number)
            self._last_beat[number] = time.monotonic() + _STARTING

    def forget(self, number: int) -> None:
        """Expect no process for a shard any more."""
        with self._lock:
            self.wanted.discard(number)
            self._members.pop(number, None)
            self._last_beat.pop(number, None)
            self._version += 1
            members = self._all()
        self._changed(members)

    def location(self, number: int) -> str | None:
        """Return the address of a shard's process, None if there is none yet."""
        member = self._members.get(number)
        return None if member is None else member.location

    def silent(self, seconds: float) -> list[int]:
        """Return the shards without a beat for so long, each once, since a successor needs time to start."""
        now = time.monotonic()
        with self._lock:
            late = [number for number, beat in self._last_beat.items() if now - beat > seconds]
            for number in late:
                self._last_beat[number] = now + _STARTING
        return late


class ProcessFront:
    """What processes of shards need of the one that writes the log; a subclass starts them.

    `folder` is of the front alone: the last epoch, and the certificate of a cluster on one machine. `store`
    is for all processes: snapshots, and the address of the front; a local folder, or anything that fsspec
    knows. The log is read in other threads than the one that appends. `shards` are the numbers of existing
    shards. Without `certificates`, one is made here, which no other cluster trusts.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        store: str,
        log: LoggedEntries,
        shards: Iterable[int],
        host: str,
        certificates: Certificates | None = None,
    ) -> None:
        folder = Path(folder)
        make_folder(folder, parents=True)
        self.certificates, epochs = certificates or made_in(folder), Epochs(folder / "epoch")
        self._registry: Registry | None = None
        self.post = Post(m.SEQUENCER, self.certificates.read(), self._take, self._reply, host)
        self.post.epoch = epochs.next()
        self._log = log
        me = m.Member(m.SEQUENCER, self.post.epoch, self.post.location)
        self._registry = Registry(epochs, me, shards, self._send_members)
        leave_note(store, self.post.location)
        self._querying = ThreadPoolExecutor(_AT_ONCE, "query")
        self._ending = threading.Event()

    @property
    def registry(self) -> Registry:
        """The known processes."""
        assert self._registry is not None
        return self._registry

    # ---- in threads of the server ----------------------------------------------------------------------

    def _take(self, message: Any) -> None:
        if isinstance(message, m.Fetch):
            send_entries(self._log, self.post, message)

    def _reply(self, message: Any) -> Any:
        return None if self._registry is None else self._registry.reply(message)

    def _send_members(self, members: m.Members) -> None:
        self.post.connect(members)
        self.post.send_to_all([one.number for one in members.all if one.number != m.SEQUENCER], members)

    # ---- the log and queries ---------------------------------------------------------------------------

    def announce(self, entries: m.Entries) -> None:
        """Send all shards entries that are in the log; a shard that misses them fetches them."""
        self.post.send_to_all(sorted(self.registry.wanted), entries)

    def query(self, queries: Mapping[int, Query]) -> dict[int, Any]:
        """Send queries to several shards at once, and wait for all replies; see `ShardProcesses`."""
        if len(queries) == 1:
            return {number: self._query_one(number, query) for number, query in queries.items()}
        sent = {
            number: self._querying.submit(self._query_one, number, query) for number, query in queries.items()
        }
        return {number: reply.result() for number, reply in sent.items()}

    def _query_one(self, number: int, query: Query) -> Any:
        patience, most = _PATIENCE
        end = time.monotonic() + _LONG
        while time.monotonic() < end and not self._ending.is_set():
            location = self.registry.location(number)
            begun = time.monotonic()
            reply = None if location is None else self.post.query(location, query, patience)
            if reply is not None:
                return reply
            if time.monotonic() - begun > patience:  # a large reply takes long, too
                patience = min(2 * patience, most)
            elif time.monotonic() - begun < _PAUSE:
                self._ending.wait(_PAUSE)
        reason = self.registry.failures.get(number, "it may still be starting, or have no room to")
        raise ClusterError(f"shard {number} has no answer for {_LONG:.0f} s; what is known of it: {reason}")

    def leave(self) -> None:
        """End the front, and leave the shards to the next one."""
        self._ending.set()
        self._querying.shutdown(wait=False)
        self.post.close()
