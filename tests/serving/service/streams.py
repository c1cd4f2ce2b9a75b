"""A source and a sink in memory, which fail when they are told to."""

import threading
import time

import numpy as np

from dygcn.engine.records import Message
from dygcn.errors import SinkError, SourceError
from dygcn.testing.sink_model import SinkModel


class Listed:
    """A source that is a list of messages; whoever appends to it publishes."""

    name = "list://messages"

    def __init__(self, messages=(), *, at_once=1_000):
        self.messages = list(messages)
        self.at_once = at_once
        self.opened, self.closed = [], 0
        self.errors = []  # raised by the next reads
        self._next = 0

    def open(self, after):
        self.opened.append(dict(after))
        self._next = 0
        while self._next < len(self.messages) and self._is_done(self.messages[self._next], after):
            self._next += 1

    @staticmethod
    def _is_done(message, after):
        return message.offset <= after.get(message.stream, -1)

    def read(self, limit, timeout):
        if self.errors:
            raise self.errors.pop(0)
        found = self.messages[self._next : self._next + min(limit, self.at_once)]
        self._next += len(found)
        if not found:
            time.sleep(min(timeout, 0.01))
        return found

    def lag(self):
        return len(self.messages) - self._next

    def close(self):
        self.closed += 1


class Forgetful(Listed):
    """A source that begins anew whatever place it is given, and delivers much twice."""

    def open(self, after):
        super().open({})

    def read(self, limit, timeout):
        found = super().read(limit, timeout)
        self._next = max(self._next - 1, 0) if len(found) > 1 else self._next
        return found


class Kept:
    """A sink that is a dict; older versions do not overwrite newer ones, and stale writers are refused."""

    name = "dict://vectors"

    def __init__(self):
        self.model = SinkModel()
        self.writes, self.deleted_below = [], []
        self.opened, self.closed = [], 0
        self.errors = []  # raised by the next writes
        self.go = threading.Event()
        self.go.set()

    @property
    def rows(self):
        """The version and the vector of each node."""
        return {one: (at.sequence, vector) for one, (at, vector) in self.model.held().items()}

    @property
    def epochs(self):
        """The epochs of which there are rows."""
        return {at.epoch for at, _ in self.model.held().values()}

    def open(self, kind, dim):
        self.opened.append((kind, dim))
        return self.model.newest

    def write(self, rows):
        assert self.go.wait(20)
        if self.errors:
            raise self.errors.pop(0)
        ids, left = rows.ids.tolist(), rows.left.tolist()
        assert len(set(ids)) == len(ids)
        assert not set(ids) & set(left)
        self.model.write(rows)
        self.writes.append(ids)

    def delete_below(self, floor, history):
        self.model.delete_below(floor, history)
        self.deleted_below.append(floor)

    def close(self):
        self.closed += 1

    def equals(self, live):
        with live.lock:
            ids, rows = list(live), self.rows
            return set(ids) == set(rows) and all(
                np.array_equal(rows[one][1], vector)
                for one, vector in zip(ids, live.vectors(ids), strict=True)
            )


def message(position, body, stream="clicks", form="json"):
    return Message(stream, position, body, form)


PATIENCE = 60.0
LOST = SourceError("list://messages: the connection is lost")
FULL_DISK = SinkError("dict://vectors: there is no room")


def until(ready):
    """Wait for something that another thread does."""
    end = time.monotonic() + PATIENCE
    while not ready():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)
