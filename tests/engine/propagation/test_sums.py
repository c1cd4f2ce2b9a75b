"""Every width of narrow rows, against plain Python integers, while a hub outgrows it and shrinks back."""

import copy
import mmap
from itertools import pairwise

import numpy as np
import pytest

from dygcn.engine.events import read_events
from dygcn.engine.events.keys import keys_of_ints
from dygcn.engine.features.inputs import Hashed
from dygcn.engine.features.units import units_of
from dygcn.engine.graph import Graph, apply_batch
from dygcn.engine.graph.transaction import Transaction
from dygcn.engine.propagation import ExactRule
from dygcn.engine.propagation import sums as sums_module
from dygcn.engine.propagation.sums import Sums
from tests.engine.propagation.test_exact import python_sums

FEATURES = Hashed(4, seed=2)
SPOKES = 150
CANDIDATES = np.arange(1, 1000)
ALIKE = units_of(FEATURES.unit_table(None), keys_of_ints(CANDIDATES))[0][:, 0] > 0
LEAVES = CANDIDATES[ALIKE][:SPOKES].tolist()  # the first column of the hub's sum is its degree
CASES = {  # weight of a spoke (some 128 are more than a narrow row holds), half-life, kinds of both orders
    "unweighted": (1.0, None, ("int8", "int32")),
    "memory": (17.0, 1.0, ("int16", "int32")),
    "fine": (2.0**14 + 2.0**-10, None, ("int32", "all wide")),
    "very fine": (2.0**8 + 2.0**-16, None, ("int32", "all wide")),
}


def kinds(rule):
    return tuple(sums.narrow.dtype.name if sums.limit else "all wide" for sums in rule.sums)


def check(graph, rule):
    for k, (sums, degree) in enumerate(python_sums(graph, rule)):
        nodes = np.array(list(sums), np.int32)
        degrees, rows = rule.whole_sums(graph, nodes, k + 1)
        np.testing.assert_array_equal(rows, list(sums.values()))
        np.testing.assert_array_equal(degrees, list(degree.values()))


def batches(weight):
    """A wheel whose hub gains its spokes, loses most of them, and gains some again; at last finer weights."""
    clock = 0.0
    yield [(a, b, clock, 1, 1.0) for a, b in pairwise(LEAVES)]
    for op, leaves in ((1, LEAVES), (-1, LEAVES[7:]), (1, LEAVES[7:12])):
        for start in range(0, len(leaves), 50):
            clock += 10.0  # whatever is remembered is forgotten by the next batch
            yield [(0, leaf, clock, op, weight) for leaf in leaves[start : start + 50]]
    yield [(LEAVES[3], LEAVES[4], clock + 10.0, 1, 0.5), (0, LEAVES[20], clock + 10.0, 1, weight)]
    yield [(LEAVES[3], LEAVES[4], clock + 20.0, 1, 1.0 + 2.0**-16), (0, LEAVES[0], clock + 20.0, -1, 1.0)]


def written_at_once(graph, rule, batch):
    transaction = Transaction(graph)
    transaction.stage(batch)
    rule.reserve(graph)
    return rule.write(transaction)[0]


def follow(case, at_once=True):
    """Play a case, checking every value; return the kinds of rows, and when the hub's rows were wide."""
    weight, half_life, _ = CASES[case]
    graph, rule = Graph("int64", half_life=half_life), ExactRule(FEATURES, orders=2)
    met, wide = [], []
    for events in batches(weight):
        batch = read_events(events)
        if at_once:
            delta = written_at_once(graph, rule, batch)
        else:
            delta = apply_batch(graph, batch)
            rule.apply(graph, delta)
        graph.release(delta.left)
        check(graph, rule)
        hub = graph.ids.find(read_events([(0, 1)]).src)
        met.append(kinds(rule))
        wide.append(tuple(bool(sums.slot[hub[0]] >= 0) if hub[0] >= 0 else False for sums in rule.sums))
    return met, wide


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "order by order"])
@pytest.mark.parametrize("case", sorted(CASES))
def test_every_kind_of_rows_holds_the_same_values(case, at_once):
    met, wide = follow(case, at_once)
    expected = CASES[case][2]
    assert met[1:8] == [expected] * 7  # after the spokes came, before the finer weights
    assert [first for first, _ in wide[:4]] == [False, False, False, True]  # over the limit
    assert wide[7][0] is False  # and well below it
    assert met[-1] == ("int32", "all wide")


def test_all_kinds_are_met():
    assert {kind for _, _, both in CASES.values() for kind in both} == {"int8", "int16", "int32", "all wide"}


def test_rows_that_stay_narrow_would_be_noticed(monkeypatch):
    monkeypatch.setattr(Sums, "place", lambda self, nodes, degree: None)
    for case in ("unweighted", "memory"):
        with pytest.raises(AssertionError):
            follow(case)


def test_rows_in_units_of_another_layout_would_be_noticed(monkeypatch):
    whole = Sums._refill

    def refill(self, old):
        wrong = copy.copy(old)
        wrong.weight_shift = self.weight_shift
        whole(self, wrong)

    monkeypatch.setattr(Sums, "_refill", refill)
    for case in CASES:
        with pytest.raises(AssertionError):
            follow(case)


def test_one_neighbour_after_the_other_up_to_the_limit_and_back():
    """An int8 holds 127 neighbours; a row comes back only when half as many are left."""
    graph, rule = Graph("int64"), ExactRule(FEATURES, orders=2)
    rule.apply(graph, apply_batch(graph, read_events([(0, leaf) for leaf in LEAVES[:120]])))
    ways = [(1, leaf) for leaf in LEAVES[120:132]] + [(-1, leaf) for leaf in LEAVES[131:50:-1]]
    wide = []
    for op, leaf in ways:
        delta = written_at_once(graph, rule, read_events([(0, leaf, 0, op)]))
        graph.release(delta.left)
        check(graph, rule)
        hub = int(graph.ids.find(read_events([(0, 1)]).src)[0])
        wide.append((int(rule.sums[0].degree[hub]) // graph.one, bool(rule.sums[0].slot[hub] >= 0)))
    assert {degree for degree, is_wide in wide[:12] if is_wide} == {128, 129, 130, 131, 132}
    assert {degree for degree, is_wide in wide[12:] if not is_wide} == set(range(51, 63))


class Shared:
    """Allocates where another process could read: anonymous memory that is mapped as shared."""

    def __init__(self):
        self.made = []

    def __call__(self, shape, kind):
        size = int(np.prod(shape)) * np.dtype(kind).itemsize
        memory = mmap.mmap(-1, max(size, 1))
        self.made.append(np.frombuffer(memory, np.uint8))
        return np.frombuffer(memory, kind, int(np.prod(shape))).reshape(shape)

    def holds(self, array):
        return any(np.shares_memory(array, one) for one in self.made)


@pytest.mark.parametrize("case", sorted(CASES))
def test_rows_lie_where_the_allocator_put_them(case):
    weight, half_life, _ = CASES[case]
    shared = Shared()
    graph, rule = Graph("int64", half_life=half_life), ExactRule(FEATURES, orders=2)
    rule.share(shared, np.ones(1, np.int64))
    for events in batches(weight):
        graph.release(written_at_once(graph, rule, read_events(events)).left)
        check(graph, rule)
        for sums in rule.sums:
            rows = [array for array in (sums.narrow, sums.wide) if array.size]
            assert rows
            assert all(shared.holds(array) for array in (*rows, sums.degree, sums.slot))


def pooled_differ(seed):
    """Say whether pooled rows ever hold other values than rows that lie where their nodes do."""
    random = np.random.default_rng(seed)
    both = [Sums(3, message_bits=24, message_shift=0, pooled=pooled) for pooled in (False, True)]
    shift = 16
    for sums in both:
        sums.layout(shift, 1 << 16)
        sums.reserve(12)
    for _ in range(120):
        nodes = random.choice(12, random.integers(1, 6), replace=False).astype(np.int32)
        what = random.choice(["put", "put", "clear", "finer"], p=[0.4, 0.25, 0.3, 0.05])
        degree = random.integers(1, 400, len(nodes)) << 16
        rows = random.integers(-(1 << 24), 1 << 24, (len(nodes), 3)) << 16
        shift -= what == "finer"
        for sums in both:
            if what == "put":
                sums.put(nodes, degree, rows)
            elif what == "clear":
                sums.clear(nodes)
            else:
                sums.layout(shift, 1 << 16)
        here = np.arange(12, dtype=np.int32)
        if (both[0].rows(here) != both[1].rows(here)).any() or (
            both[0].degree[:12] != both[1].degree[:12]
        ).any():
            return True
        taken = both[1].slot[:12][both[1].slot[:12] != -1].tolist()
        if not len(set(taken)) == len(taken) == np.count_nonzero(both[1].degree[:12]):
            return True
    assert len(both[1].narrow) <= 16  # rows that were given up were used again
    return False


@pytest.mark.parametrize("seed", range(5))
def test_pooled_rows_hold_what_others_hold(seed):
    assert not pooled_differ(seed)


def test_a_row_that_two_nodes_have_would_be_noticed(monkeypatch):
    whole = sums_module.drop_rows

    def kept(arrays, nodes):
        slot = arrays.arrays[1]
        before = slot[nodes]
        whole(arrays, nodes)
        slot[nodes] = before

    monkeypatch.setattr(sums_module, "drop_rows", kept)
    assert pooled_differ(0)
