"""The parameters of a filter, set by `fit`: rows of answers, column weights, ageing of edges.

The score of answer i for an asking node u is ``z_u . diag(1 / (s^2 + lambda)) . y_i * d_i^-c * trend_i``: z_u
sums the rows of u's answers, y_i the messages of all that have i, newer edges more. At the end of fit ``y_i =
s^2 V_i``, so that this is the ridge filter of EASE (Steck 2019), cut at some rank; afterwards y follows every
event, and an answer that is born later has a y at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from dygcn.engine.events import take
from dygcn.engine.records import Float32, IdColumn, Int8, Int64

# What a node does, as bits: it asks for recommendations, it is recommended.
ASKS, ANSWERS = 1, 2
# Octaves that count: the faintest edge that counts weighs 2^-16 of the newest.
WINDOW = 16
# From the time zero to the furthest octave, to either side.
MOST_OCTAVES = 2.0**52
# A node that asks and has more edges than these tells others nothing: one event writes no more rows.
MOST_EDGES = 4096
# A message is sixteen times what a node has, over the root of its edges, rounded to 16 bits.
MESSAGE_SCALE, GREATEST_MESSAGE = 16.0, 32767
# Which ages: those that weigh messages in the sums, and those that are counted for the trend.
SUMS, TREND = 0, 1
# Places in `sizes`: who has something new to say, sums that moved since they were prepared, all counts of
# the trend together, rows that were ever written.
DIRTY, TOUCHED, COUNTED, ROWS = range(4)
# A path goes on over nodes that have at most so many edges; what a path of one edge each weighs.
MOST_ON_PATHS, PATH_UNIT = 512, 2.0**20
# Where paths reach more answers, and few are wanted, these are the ones that paths weigh most.
CANDIDATES = 1000


@dataclass(frozen=True, eq=False)
class FilterHead:
    """The rows and settings of a filter."""

    ids: IdColumn = field(repr=False)
    rows: Int8 = field(repr=False)  # of these ids, 8 bits a number
    weights: Float32 = field(repr=False)  # of the product of each column, steps of the rounding included
    ridge: float = 3.0  # how much singular values were damped, in squares of the last: it made `weights`
    half_life: float = 0.0  # of an edge in sums of messages, in units of t; 0: edges do not age
    trend_half_life: float = 0.0  # of an edge in the count of an answer's latest edges
    trend: float = 0.0  # the power of that count in the score
    profile_half_life: float = 0.0  # of the edges of a node that asks, in its query; 0: all count alike
    degree: float = 0.0  # the power of an answer's number of edges that its score is divided by
    paths: float = 0.0  # the weight of paths over three edges beside the product, which has few columns
    asks: tuple[str, ...] = ()  # the kinds that ask; empty where nodes have no kinds: all do both
    answers: tuple[str, ...] = ()  # the kinds that are recommended

    def __deepcopy__(self, memo: object) -> FilterHead:
        return self

    def some(self, keep: Int64) -> FilterHead:
        """Return the head with only some of its rows."""
        return replace(self, ids=take(self.ids, keep), rows=np.ascontiguousarray(self.rows[keep]))
