"""A durable embedding whose calls are interrupted: acknowledged events are there, others all or none.

`python -m tests.attacks.interrupted_life SEED COUNT` is a process of its own; a timer sends the signals.
"""

import random
import signal
import sys
from contextlib import contextmanager, nullcontext

import dygcn
from dygcn.errors import DygcnError
from dygcn_lab.testbed.seeding import small_model
from tests.live.crashing import many_folders

LONGEST = 3e-3  # seconds until a signal comes; an update of 30 edges takes about as long
_MANY = 16  # graphs that may be; then the folder has to say which one it is


class Interrupted(KeyboardInterrupt):
    """Raised by the handler of the signal."""


@contextmanager
def by_timer(seconds):
    """Raise inside the block after a time, unless the block ends before it."""

    def handler(*_):
        raise Interrupted

    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 0)


class Life:
    """Calls of a durable embedding, and the graphs that it may have after each.

    Parameters
    ----------
    interrupt
        Takes a number of seconds and returns a context, in which a call is interrupted, or not.
    """

    def __init__(self, folder, seed, interrupt):
        self.folder, self.random, self.interrupt = folder, random.Random(seed), interrupt
        self.live = dygcn.open(folder, dygcn.start(small_model()), snapshot_every=200)
        self.possible = [frozenset()]  # graphs: one, or after an interrupt some
        self.interrupts = self.reopened = 0

    def run(self, interrupts):
        """Make calls until so many were interrupted, some that are not, and open the folder again."""
        while self.interrupts < interrupts:
            self.call()
        self.interrupt = nullcontext
        for _ in range(5):
            self.call()
        self.reopen()
        assert self.live.digest() == self.live.recompute().digest()
        self.live.close()

    def call(self):
        """Make one call, and compare."""
        batch = self.batch()
        act = self.random.choice([self.update] * 8 + [self.snapshot, self.read])
        after = [graph.union(batch) for graph in self.possible] if act == self.update else self.possible
        try:
            with self.interrupt(self.random.random() * LONGEST + 1e-5):
                act(batch)
        except (KeyboardInterrupt, SystemError):  # the second: inside of a compiled loop
            self.interrupts += 1
            self.possible = list(dict.fromkeys([*self.possible, *after]))
            self.look()
        except DygcnError:  # nothing was acknowledged; what the last interrupt left is told by the folder
            self.possible = list(dict.fromkeys([*self.possible, *after]))
            self.reopen()
        else:
            self.possible = after
            self.look(settles=act == self.update)

    def batch(self):
        count = self.random.choice([1, 30])
        return {(self.random.randrange(50), 1_000 + self.random.randrange(300)) for _ in range(count)}

    def update(self, batch):
        self.live.update(add=sorted(batch))

    def snapshot(self, batch):
        self.live.snapshot()

    def read(self, batch):
        if len(self.live):
            self.live.nearest(self.live.ids().tolist()[0], 3)

    def look(self, settles=False):
        """Compare what is read with what may be; a torn state is opened again."""
        try:
            found = self.edges()
        except DygcnError:
            self.reopen()
            return
        assert found in self.possible, self.differences(found)
        if settles:  # it was acknowledged after the interrupt, so that the log has the same
            self.possible = [found]
        elif len(self.possible) > _MANY:
            self.reopen()

    def reopen(self):
        self.reopened += 1
        self.live._let_go()
        self.live = dygcn.open(self.folder, snapshot_every=200)
        found = self.edges()
        assert found in self.possible, self.differences(found)
        self.possible = [found]

    def edges(self):
        table = self.live.edges()
        ends = zip(table["src"].to_pylist(), table["dst"].to_pylist(), strict=True)
        return frozenset((min(pair), max(pair)) for pair in ends)

    def differences(self, found):
        shown = [(len(graph - found), len(found - graph)) for graph in self.possible]
        return f"edges that are lost, and too many, by what may be: {shown}"


def main(seed, interrupts):
    """Interrupt so many calls; print how often the folder was opened again."""
    with many_folders() as new_folder:
        life = Life(new_folder(), seed, by_timer)
        life.run(interrupts)
    sys.stdout.write(f"{life.reopened}\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
