"""Numbers that loops and plain Python share."""

from __future__ import annotations

FEW = 64
"""Up to here a node's arcs are scanned; a node with more of them is a hub."""
SMALLEST_BLOCK = 4
NEAR, FAR = 8, 16
"""Rounds ahead that a loop asks for what it will need."""
DEEPEST = 4
"""2^-4 is the last factor of a ghost that is not below 0.05."""

LOWER = 0xFFFFFFFF
"""Of a pair key, the bits of the second node."""
