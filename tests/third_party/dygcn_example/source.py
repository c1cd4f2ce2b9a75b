"""Events from a list in this process."""

import time

from dygcn.engine.records import Message
from dygcn.serving.addresses import Settings
from dygcn.serving.sources import ReaderSource

LISTS = {}  # name: messages


class ListSettings(Settings, frozen=True, kw_only=True, tag="list"):
    """Which list is read."""

    name: str

    def make(self):
        """Return the source, not open yet."""
        return ReaderSource(ListReader(self))


class ListReader:
    """Messages of one list; the offset of a message is its index."""

    errors, secrets = (), ()

    def __init__(self, settings):
        self.name, self._stream = f"list://{settings.name}", f"list:{settings.name}"
        self._messages, self._next = LISTS.setdefault(settings.name, []), None

    def connect(self, after):
        self._next = after.get(self._stream, -1) + 1

    def disconnect(self):
        self._next = None

    def fetch(self, limit, timeout):
        until = time.monotonic() + timeout
        while self._next == len(self._messages) and time.monotonic() < until:
            time.sleep(0.01)
        begin, self._next = self._next, min(self._next + limit, len(self._messages))
        return [Message(self._stream, at, self._messages[at]) for at in range(begin, self._next)]

    def lag(self):
        return None if self._next is None else len(self._messages) - self._next
