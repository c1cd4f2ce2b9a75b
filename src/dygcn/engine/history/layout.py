"""What stands where in the arrays of a history, for its loops and for whoever allocates them."""

from math import inf

ANSWERS = 20  # destinations that a node remembers, the last ones
PARTNERS = 10  # partners in either direction that a walk can step to
FADE = 0.75  # how likely a walk steps to the partner before, of two
REPEATS = 0.2  # what one event changes in the habit of repeating
FAR = 15.0  # log age of what never happened
ANSWERED, PARTNERED = range(2)  # columns of `counts`
HABIT, FAST, SLOW, NEW = range(4)  # columns of `marks`
ASKED, MET, FIRST = range(3)  # columns of `times`
PAIRS, PLAYED, COUNTED = range(3)  # of `sizes`
WALK_SCALE = 1000.0  # of the chance of a walk, inside a logarithm
RAW_COLUMNS = 20  # see `columns.RAW`
MOST = 2147483647  # events of a pair that are counted: of more, as many
NEVER = -inf  # when what never happened did
