"""Numbers that the loops of a filter and plain Python share."""

from __future__ import annotations

ASKS, ANSWERS = 1, 2
"""What a node does, as bits: it asks for recommendations, it is recommended."""
WINDOW = 16
"""Octaves that count: the faintest edge that counts weighs 2^-16 of the newest."""
MOST_OCTAVES = 2.0**52
"""From the time zero to the furthest octave, to either side."""
MOST_EDGES = 4096
"""A node that asks and has more edges than these tells others nothing: one event writes no more rows."""
MESSAGE_SCALE, GREATEST_MESSAGE = 16.0, 32767
"""A message is sixteen times what a node has, over the root of its edges, rounded to 16 bits."""
SUMS, TREND = 0, 1
"""Which ages: those that weigh messages in the sums, and those that are counted for the trend."""
DIRTY, TOUCHED, COUNTED, ROWS = range(4)
"""Places in `sizes`: who has something new to say, sums that moved since they were prepared, all counts of
the trend together, rows that were ever written."""
MOST_ON_PATHS, PATH_UNIT = 512, 2.0**20
"""A path goes on over nodes that have at most so many edges; what a path of one edge each weighs."""
CANDIDATES = 1000
"""Where paths reach more answers, and few are wanted, these are the ones that paths weigh most."""
