"""What events, pairs and updates turned out to be: numbers that loops write and plain Python reads."""

from __future__ import annotations

DONE, SMALL_POOL, OVERWEIGHT = range(3)
"""How the writing of a batch ended. It wrote everything, or nothing."""
CAME, WENT, IDLE, TOUCHED, MOVED, EDGES, UNCHANGED, MISSING, LOOPS, FOUND = range(10)
"""Places in `BatchArrays.sizes`: nodes that came, went, never were there, were touched; pairs that weigh
another thing now; edges gained; adds of an edge that had that weight, removes of an edge that was not there,
self loops; pairs that the batch speaks of."""
AGE = 0
"""Beside +1 and -1: the events were silent about the pair, but time has passed."""
LAPSE = -2
"""Likewise: the edge leaves by the clock (see `expiry`), with all that relations add to it."""
UNKNOWN, LOOP = -1, -2
"""In the place of the pair of an event: it speaks of none."""
NO_CONTACT, PARTED, LINKED, MET, LAPSED = range(5)
"""What an event was: no contact; a contact that parted the pair, found it linked, or linked it; the end of an
edge that is nobody's contact."""
