"""How the cost of a decoder grows with the length of its input."""

import gc
import math
import time
from contextlib import suppress
from dataclasses import dataclass

from dygcn.errors import DygcnError

DOUBLINGS = 4
SMALLEST = 8 << 10  # bytes
_ENOUGH = 0.03  # seconds, after which a decoder is not tried again


@dataclass(frozen=True, slots=True)
class Growth:
    """What inputs of growing length cost."""

    lengths: tuple[int, ...]  # bytes
    seconds: tuple[float, ...]  # of the processor, in all threads: Arrow reads files in its own

    @property
    def exponent(self):
        """The power of its length by which the cost grows: 1 is linear, 2 quadratic."""
        return math.log(self.seconds[-1] / self.seconds[0]) / math.log(self.lengths[-1] / self.lengths[0])


def cost(decode, body, repeats):
    """Return the least processor time that a decoder takes; what it refuses by name is answered, too."""
    least = spent = 0.0
    gc.disable()  # its cost depends on what else lives in this process
    try:
        while repeats and spent < _ENOUGH:
            begun = time.process_time()
            decode_once(decode, body)
            seconds = time.process_time() - begun
            least, spent, repeats = min(least or seconds, seconds), spent + seconds, repeats - 1
    finally:
        gc.enable()
    return max(least, 1e-9)


def growth(decode, make, smallest=SMALLEST, repeats=5):
    """Measure a decoder on inputs that `make` makes, each twice as long as the one before."""
    bodies = [make(smallest << doubling) for doubling in range(DOUBLINGS + 1)]
    decode_once(decode, bodies[0])  # imports, and what is compiled at first use
    return Growth(tuple(map(len, bodies)), tuple(cost(decode, body, repeats) for body in bodies))


def decode_once(decode, body):
    """Decode an input, and take a refusal by name for an answer."""
    with suppress(DygcnError):
        decode(body)
