"""Numbers that compiled loops and plain Python share."""

from math import inf

FEW = 64  # up to here a node's arcs are scanned; a node with more of them is a hub
SMALLEST_BLOCK = 4
NEAR, FAR = 8, 16  # rounds ahead that a loop prefetches what it will need
DEEPEST = 4  # 2^-4 is the last factor of a ghost that is not below 0.05
LOWER = 0xFFFFFFFF  # of a pair key, the bits of the second node

# How the writing of a batch ended. It wrote everything, or nothing.
DONE, SMALL_POOL, OVERWEIGHT = range(3)
# Indices of `BatchArrays.sizes`: nodes that came, went, never were there, were touched; pairs whose weight
# changed; edges gained; adds without effect, removes without an edge, self loops; pairs that the batch names.
CAME, WENT, IDLE, TOUCHED, MOVED, EDGES, UNCHANGED, MISSING, LOOPS, FOUND = range(10)
# Operations beside +1 and -1: the pair only ages; the edge leaves by the clock, with all that relations add.
AGE, LAPSE = 0, -2
# Instead of the pair of an event that names none.
UNKNOWN, LOOP = -1, -2
NEVER = -inf  # the time of a contact of which no time is known, and of none
