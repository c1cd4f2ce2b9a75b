"""Who is who in a cluster: gives processes their epochs, and notices who is silent."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from dygcn.cluster.members import Beat, Failed, Member, Members, Register, Replaced, Welcome
from dygcn.cluster.protocol import SEQUENCER
from dygcn.engine._disk import replace_own
from dygcn.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

_STARTING = 60.0  # seconds that a process may take to start


class Epochs:
    """Numbers that were never given before, also not before a restart.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first = Epochs(Path(folder) / "epoch").next()
    ...     first, Epochs(Path(folder) / "epoch").next()
    (1, 2)
    """

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
    """The processes that are known, by number.

    Parameters
    ----------
    epochs
        Where epochs come from.
    front
        The process of this.
    wanted
        The shards for which there should be processes.
    changed
        Called with all members, when there are others.
    """

    def __init__(
        self, epochs: Epochs, front: Member, wanted: Iterable[int], changed: Callable[[Members], None]
    ) -> None:
        self._epochs, self._changed, self._front = epochs, changed, front
        self._lock = threading.Lock()
        self._members = {SEQUENCER: front}
        self._version = 1
        self.wanted = set(wanted)
        self._heard = dict.fromkeys(self.wanted, time.monotonic() + _STARTING)
        self.failures: dict[int, str] = {}
        self.beats: dict[int, Beat] = {}

    def answer(self, question: Any) -> Any:
        """Answer a process."""
        if isinstance(question, Register):
            return self._register(question)
        if isinstance(question, Beat):
            return self._hear(question)
        if isinstance(question, Failed):
            self.failures[question.number] = question.reason
            return Replaced()
        raise ClusterError(f"a {type(question).__name__} is no question to the front")

    def _register(self, asked: Register) -> Welcome | Replaced:
        if asked.number not in self.wanted:
            return Replaced()
        epoch = self._epochs.next()
        with self._lock:
            self._put(Member(asked.number, epoch, asked.location))
            members = self._all()
        self._changed(members)
        return Welcome(epoch, members)

    def _hear(self, beat: Beat) -> Members | Replaced:
        member = beat.member
        with self._lock:
            known = self._members.get(member.number)
            if member.number not in self.wanted or (known is not None and member.epoch < known.epoch):
                return Replaced()
            self._heard[member.number] = time.monotonic()
            self.beats[member.number] = beat
            new = known is None or member.epoch > known.epoch  # of a time before this front
            if new:
                self._put(member)
            members = self._all()
        if new:
            self._changed(members)
        return members

    def _put(self, member: Member) -> None:
        self._members[member.number] = member
        self._heard[member.number] = time.monotonic()
        self._version += 1

    def _all(self) -> Members:
        return Members(self._front.epoch, self._version, tuple(self._members.values()))

    def want(self, number: int) -> None:
        """Expect a process for a shard."""
        with self._lock:
            self.wanted.add(number)
            self._heard[number] = time.monotonic() + _STARTING

    def forget(self, number: int) -> None:
        """Expect none any more."""
        with self._lock:
            self.wanted.discard(number)
            self._members.pop(number, None)
            self._heard.pop(number, None)
            self._version += 1
            members = self._all()
        self._changed(members)

    def location(self, number: int) -> str | None:
        """Return where a shard is found, None if it is not there yet."""
        member = self._members.get(number)
        return None if member is None else member.location

    def silent(self, seconds: float) -> list[int]:
        """Return shards that were silent for so long, each once: a successor needs time to start."""
        now = time.monotonic()
        with self._lock:
            late = [number for number, heard in self._heard.items() if now - heard > seconds]
            for number in late:
                self._heard[number] = now + _STARTING
        return late
