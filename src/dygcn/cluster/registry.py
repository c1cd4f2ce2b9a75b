"""The registry of processes: gives each its epoch, and notices silent ones."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from dygcn.cluster.messages import SEQUENCER, Beat, Failed, Member, Members, Register, Replaced, Welcome
from dygcn.engine._disk import replace_own
from dygcn.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

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
        self, epochs: Epochs, front: Member, wanted: Iterable[int], changed: Callable[[Members], None]
    ) -> None:
        self._epochs, self._changed, self._front = epochs, changed, front
        self._lock = threading.Lock()
        self._members = {SEQUENCER: front}
        self._version = 1
        self.wanted = set(wanted)
        self._last_beat = dict.fromkeys(self.wanted, time.monotonic() + _STARTING)
        self.failures: dict[int, str] = {}
        self.beats: dict[int, Beat] = {}

    def reply(self, message: Any) -> Any:
        """Return the reply to a process."""
        if isinstance(message, Register):
            return self._register(message)
        if isinstance(message, Beat):
            return self._take_beat(message)
        if isinstance(message, Failed):
            self.failures[message.number] = message.reason
            return Replaced()
        raise ClusterError(f"a {type(message).__name__} is no query to the front")

    def _register(self, request: Register) -> Welcome | Replaced:
        if request.number not in self.wanted:
            return Replaced()
        epoch = self._epochs.next()
        with self._lock:
            self._put(Member(request.number, epoch, request.location))
            members = self._all()
        self._changed(members)
        return Welcome(epoch, members)

    def _take_beat(self, beat: Beat) -> Members | Replaced:
        member = beat.member
        with self._lock:
            known = self._members.get(member.number)
            if member.number not in self.wanted or (known is not None and member.epoch < known.epoch):
                return Replaced()
            self._last_beat[member.number] = time.monotonic()
            self.beats[member.number] = beat
            new = known is None or member.epoch > known.epoch  # registered at an earlier front
            if new:
                self._put(member)
            members = self._all()
        if new:
            self._changed(members)
        return members

    def _put(self, member: Member) -> None:
        self._members[member.number] = member
        self._last_beat[member.number] = time.monotonic()
        self._version += 1

    def _all(self) -> Members:
        return Members(self._front.epoch, self._version, tuple(self._members.values()))

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
