"""Print how the cost of every decoder grows, at sizes that CI has no time for: `python -m tests.hostile`."""

import sys

from tests.hostile.decoders import CASES, DECODERS
from tests.hostile.growth import growth

GOAL = 1.1


def main(smallest=32 << 10):
    """Print a row for each decoder and input; fail where an exponent is beyond the goal."""
    found = {}
    for decoder, name in CASES:
        read, inputs = DECODERS[decoder]
        one = growth(read, inputs[name], smallest, repeats=9, enough=20)
        found[decoder, name] = one.exponent
        each = " ".join(f"{1e3 * seconds:9.3f}" for seconds in one.seconds)
        sys.stdout.write(f"{decoder:26} {name:34} {one.lengths[-1]:>9} {each} ms  {one.exponent:5.2f}\n")
        sys.stdout.flush()
    beyond = {case: exponent for case, exponent in found.items() if exponent > GOAL}
    sys.stdout.write(f"{len(found)} inputs, {len(beyond)} beyond {GOAL}: {beyond}\n")
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main(*(int(one) << 10 for one in sys.argv[1:])))
