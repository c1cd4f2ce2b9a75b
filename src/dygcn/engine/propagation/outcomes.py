"""Result codes of the exact rule's compiled loops, shared with Python."""

from __future__ import annotations

NARROW = -1
"""In the place of a wide row's number, where a row is narrow."""
NOT_DONE = -1  # in the place of how many nodes were reached: an order was left undone
ALL_DONE, NOT_BEGUN = 0, -1  # in the place of the order that an update in one call could not do
SPANS = 256
"""Spans of nodes that pushes are sorted by, at most."""
EVERYBODY = (1 << 30) - 1
"""All nodes, where threads have a part each: a bit for each of 30 blocks, after which these come again."""
CHANGED = -1
"""Of what a reader copies from another process: it was written meanwhile, try again."""
BUSY = 1 << 62
"""The stamp of a message whose earlier version is being written."""
