"""Reading until it fails, as tests of failures do."""

import time

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
