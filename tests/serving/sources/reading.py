"""Reading as tests do: until it fails, until all is there, and from the wrong offset."""

import time

from dygcn.serving.sources import ReaderSource

PATIENCE = 10.0


def keep_reading(source, limit=5, timeout=0.1, found=None):
    """Read for so many seconds, or until something is raised; all that came is added to `found`."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        part = source.read(limit, timeout)
        if found is not None:
            found += part


def places_of(found):
    """Return the cursors reached by messages."""
    return {message.stream: message.offset for message in found}


def take(source, count):
    """Read as many messages, or fail."""
    found = []
    while len(found) < count:
        part = source.read(1000, 10.0)
        assert part, f"{len(found)} of {count} came"
        found += part
    return found


class Shifted(ReaderSource):
    """A seeded bug: a source that begins one message too far, or too early."""

    def __init__(self, reader, by):
        super().__init__(reader)
        self._by = by

    def open(self, after):
        super().open({stream: max(offset + self._by, 0) for stream, offset in after.items()})
