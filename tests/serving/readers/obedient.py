"""A process in the place of a reader: it says that it listens, and writes to a file what it is told."""

import os
import sys

if __name__ == "__main__":
    with open(os.environ["DYGCN_TOLD"], "a") as told:
        for line in sys.stdin:
            told.write(line)
            told.flush()
            sys.stdout.write("{}\n")
            sys.stdout.flush()
