"""What a reader copies of the arcs and messages of a process that may be writing them."""

import numpy as np

from dygcn.engine.graph.ticks import Ticks
from dygcn.engine.propagation.outcomes import BUSY
from dygcn.engine.propagation.pulling import (
    Earlier,
    HeavyRows,
    PulledArcs,
    PulledCopies,
    copy_pulled,
    keep_all,
)

NONE = np.empty(0, np.int32)


def shared(rows, has, since, stamps, slot):
    earlier = Earlier(np.zeros_like(rows), np.zeros_like(has), since, Ticks(stamps, np.array([1])))
    return HeavyRows(slot, rows, has, NONE, np.zeros(3, np.int64), NONE, earlier)


def test_a_message_is_copied_as_it_was_after_a_change():
    rows, stamps = np.full((1, 4), 7, np.int32), np.zeros(1, np.int64)
    heavy = shared(rows, np.ones(1, np.int64), np.zeros(1, np.int64), stamps, np.zeros(1, np.int32))
    now = heavy.arrays.earlier.arrays[3].arrays[1]
    arcs = PulledArcs(
        np.zeros(1, np.int64), np.ones(1, np.int32), np.zeros(4, np.int32), np.ones(4, np.int64)
    )
    nobody, copies, latest = np.zeros(1, np.int32), PulledCopies(1, 1, 4), np.zeros(1, np.int64)

    def copied(tick):
        if not copy_pulled(arcs, heavy, nobody, tick, copies, latest):
            return None
        held = copies.pulls(0).arrays[1]
        return int(held.arrays.rows[0, 0]), int(latest[0])

    assert copied(0) == (7, 0)
    for number in (1, 2, 3):
        now[0] = number
        keep_all(heavy, nobody)
        rows += 10
        keep_all(heavy, nobody)  # a second time in one change: nothing is kept
        rows += 1
        assert copied(number) == (7 + 11 * number, number)
        assert copied(number - 1) == (7 + 11 * (number - 1), number - 1)
        assert copied(number - 2) is None
    stamps[0] = BUSY
    assert copied(3) is None


def test_copying_believes_no_number_of_a_process_that_is_writing():
    arcs, messages = 6, 3
    random = np.random.default_rng(0)
    outcomes = set()
    for _ in range(3_000):
        garbage = [random.integers(-3, 12, 4), random.integers(-3, 8, 4), random.integers(-3, 9, arcs)]
        start, upper, others = (one.astype(kind) for one, kind in zip(garbage, "qii", strict=True))
        slot = random.integers(-2, 5, 4).astype(np.int32)
        stamps = np.where(random.random(messages) < 0.2, BUSY, random.integers(0, 4, messages))
        rows, has = np.ones((messages, 4), np.int32), np.ones(messages, np.int64)
        heavy = shared(rows, has, random.integers(0, 4, messages), stamps, slot)
        copies = PulledCopies(4, messages, 4)
        pulled = PulledArcs(start, upper, others, np.ones(arcs, np.int64))
        latest = np.zeros(2, np.int64)
        nodes = random.integers(0, 4, 2).astype(np.int32)
        outcomes.add(copy_pulled(pulled, heavy, nodes, 2, copies, latest))
        assert latest.max() <= 2
    assert outcomes == {True, False}
