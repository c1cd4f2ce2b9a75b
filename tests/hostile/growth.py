"""How the cost of a decoder grows with the length of its input."""

import gc
import math
import time
from contextlib import suppress
from dataclasses import dataclass

from dygcn.errors import DygcnError

DOUBLINGS = 4
SMALLEST = 8 << 10  # bytes


@dataclass(frozen=True, slots=True)
class Growth:
    """What inputs of growing length cost."""

    lengths: tuple[int, ...]  # bytes
    seconds: tuple[float, ...]  # of the processor, in all threads: Arrow reads files in its own

    @property
    def exponent(self):
        """The power of its length by which the cost grows: 1 is linear, 2 quadratic."""
        return math.log(self.seconds[-1] / self.seconds[0]) / math.log(self.lengths[-1] / self.lengths[0])


def cost(decode, body):
    """Return the processor time that a decoder takes; an input that it refuses by name is answered, too."""
    begun = time.process_time()
    decode_once(decode, body)
    return max(time.process_time() - begun, 1e-9)


def growth(decode, make, smallest=SMALLEST, repeats=5, enough=0.15):
    """Measure a decoder on inputs that `make` makes, each twice as long as the one before.

    The least of `repeats` counts, or of as many as take `enough` seconds. All lengths take turns, so that a
    machine that becomes slower does so for each of them.
    """
    bodies = [make(smallest << doubling) for doubling in range(DOUBLINGS + 1)]
    decode_once(decode, bodies[0])  # imports, and what is compiled at first use
    rounds = []
    gc.disable()  # its cost depends on what else lives in this process
    try:
        while len(rounds) < repeats and sum(map(sum, rounds)) < enough:
            rounds.append([cost(decode, body) for body in bodies])
    finally:
        gc.enable()
    return Growth(tuple(map(len, bodies)), tuple(map(min, zip(*rounds, strict=True))))


def decode_once(decode, body):
    """Decode an input, and take a refusal by name for an answer."""
    with suppress(DygcnError):
        decode(body)
