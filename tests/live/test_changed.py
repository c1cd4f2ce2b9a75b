"""The record of who moved: behind its position a reader finds what a slow twin finds."""

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from dygcn.live import changed as module
from tests.seeded import with_line

NODES = 12
HUBS = {0: [1, 2, 3, 4], 5: [6, 7], 6: [0, 5, 8]}  # who listens to heavy nodes


class Graph:
    """As much of a graph as the record asks."""

    divided = 0

    def __init__(self):
        self.push = self.pull = self
        listeners = [node for one in HUBS.values() for node in one]
        self.upper = np.isin(np.arange(NODES + 1), listeners).astype(np.int32)

    def arcs(self, nodes):
        pairs = [(hub, node) for hub in nodes.tolist() for node in HUBS[hub]]
        owner, other = np.array(pairs, np.int32).reshape(-1, 2).T
        return owner, other, np.ones(len(owner), np.int64)


class Dense:
    """The slow twin: when each node moved last, in a list that is sorted for every question."""

    def __init__(self, nodes, sequence):
        self.moved = {node: (sequence, node) for node in range(nodes)}

    def append(self, nodes, sequence):
        self.moved |= {node: (sequence, node) for node in nodes}

    def append_heavy(self, nodes, sequence):
        self.append([listener for hub in nodes for listener in HUBS[hub]], sequence)

    def behind(self, place):
        """Return (sequence, node) of all that moved behind such a pair."""
        return sorted(pair for pair in self.moved.values() if pair > place)


class Recording(RuleBasedStateMachine):
    """Nodes move, at new sequences and again at the same; readers read some, at places of their own."""

    record = module.ChangeRecord

    @initialize(nodes=st.integers(0, NODES), sequence=st.integers(0, 3))
    def begin(self, nodes, sequence):
        self.changes, self.twin = self.record(nodes, sequence, Graph()), Dense(nodes, sequence)
        self.changes.reserve(NODES + 1)
        self.sequence, self.lazy = sequence, False
        self.read_at = np.full(NODES + 1, -1)
        self.dirty = set(range(NODES + 1))  # who moved since
        self.readers = {"a": (0, {}), "b": (0, {})}  # the position, and who was seen moving at which sequence

    @rule(nodes=st.lists(st.integers(0, NODES), max_size=9), later=st.sampled_from([0, 1, 1, 1, 3]))
    def move(self, nodes, later):
        self.sequence += later
        self.lazy = False
        self.dirty |= set(nodes)
        self.changes.append(np.array(nodes, np.int32), self.sequence)
        self.twin.append(nodes, self.sequence)

    @rule(
        nodes=st.lists(st.integers(0, NODES), max_size=3),
        heavy=st.lists(st.sampled_from(sorted(HUBS)), max_size=2, unique=True),
        later=st.sampled_from([0, 1, 1, 3]),
        lazy=st.booleans(),
    )
    def hubs_move(self, nodes, heavy, later, lazy):
        """Perhaps several times, before anybody reads."""
        self.sequence += later
        self.lazy = lazy
        self.changes.append(np.array(nodes, np.int32), self.sequence, np.array(heavy, np.int32))
        self.twin.append(nodes, self.sequence)
        self.twin.append_heavy(heavy, self.sequence)
        self.dirty |= {*nodes, *(listener for hub in heavy for listener in HUBS[hub])}

    @rule()
    def keep_vectors(self):
        """A vector that was read is fresh until it moves; it may be read again earlier."""
        fresh = self.changes.is_fresh(np.arange(NODES + 1), self.read_at)
        assert not self.dirty & set(np.flatnonzero(fresh).tolist())
        for node in range(NODES + 1):
            assert self.changes.one_is_fresh(node, self.read_at[node]) == fresh[node]
        self.read_at[:], self.dirty = self.changes.tick, set()
        assert self.changes.is_fresh(np.arange(NODES + 1), self.read_at).all()

    @rule(nodes=st.lists(st.integers(0, 3), min_size=1, max_size=2), times=st.integers(1, 40))
    def a_few_move_often(self, nodes, times):
        """Until void entries are taken out."""
        for _ in range(times):
            self.move(nodes, 1)

    @rule(name=st.sampled_from("ab"), most=st.sampled_from([1, 2, 5, None]))
    def read(self, name, most):
        position, seen = self.readers[name]
        moves = self.changes.behind(position, most)
        assert (np.diff(moves.positions) > 0).all()
        assert len(moves.nodes) <= (len(self.twin.moved) if most is None else most)
        seen |= dict(zip(moves.nodes.tolist(), moves.sequences.tolist(), strict=True))
        if len(moves.nodes):
            position = int(moves.positions[-1])
        elif most is None:
            assert {node: pair[0] for node, pair in self.twin.moved.items()} == seen
        self.readers[name] = position, seen

    @rule(sequence=st.integers(-1, 60), node=st.integers(-1, NODES), most=st.integers(0, NODES))
    def pages(self, sequence, node, most):
        """As the feed asks: behind a sequence and a node, some of those that are wanted, and no more."""
        wanted = [pair for pair in self.twin.behind((sequence, node)) if pair[1] % 3]
        moves = self.changes.behind(
            self.changes.position_at(sequence, node), most, lambda nodes: nodes % 3 > 0
        )
        assert list(zip(moves.sequences.tolist(), moves.nodes.tolist(), strict=True)) == wanted[:most]

    @invariant()
    def all_is_there_in_order(self):
        if self.lazy:
            return
        moves = self.changes.behind(0)
        found = list(zip(moves.sequences.tolist(), moves.nodes.tolist(), strict=True))
        assert found == self.twin.behind((-1, -1))
        assert self.changes.last >= max(moves.positions.tolist(), default=0)
        assert len(self.changes.behind(self.changes.last).nodes) == 0

    @invariant()
    def memory_is_that_of_the_nodes(self):
        assert len(self.changes._nodes) <= 4 * (NODES + 9)
        assert len(self.changes._waiting) <= 100

    def teardown(self):
        self.lazy = False
        self.all_is_there_in_order()
        for name in "ab":
            self.read(name, None)
            self.read(name, None)


RUN = settings(
    max_examples=100, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
HUNT = settings(
    RUN,
    phases=[Phase.generate],
    derandomize=True,
    database=None,
    report_multiple_bugs=False,
    print_blob=False,
)


def test_readers_find_what_the_twin_finds():
    run_state_machine_as_test(Recording, settings=RUN)


def with_a_bug(line, wrong):
    """Return the record of a copy of the module with another line in the place of one."""
    copied = ModuleType("changed_with_a_seeded_bug")
    sys.modules[copied.__name__] = copied  # data classes look for it
    source = with_line(Path(module.__file__).read_text(), line, wrong)
    exec(compile(source, "<changed>", "exec"), copied.__dict__)
    return copied.ChangeRecord


MUTANTS = {
    "an entry whose node moved again is shown": (
        "current = self._moved_at[self._nodes[start:end]] == self._positions[start:end]",
        "current = self._moved_at[self._nodes[start:end]] >= self._positions[start:end]",
    ),
    "numbers do not grow inside a sequence": (
        "order = np.lexsort((sequences, nodes))",
        "order = np.lexsort((sequences, -nodes))",
    ),
    "an older move counts": (
        "order = order[np.append(ranked[1:] != ranked[:-1], True)]",
        "order = order[np.append(True, ranked[1:] != ranked[:-1])]",
    ),
    "listeners of a heavy node are not looked up": (
        "if heavies and self._graph is not None:",
        "if False:",
    ),
    "a heavy node moved when it did so first": (
        "heavy, at = _latest(heavy, at)",
        "heavy, at = _latest(heavy, -at); at = -at",
    ),
    "what is read at one tick stays fresh": (
        "fresh &= (self._graph.pull.upper[nodes] == 0) | (self._pulled_tick <= read_at)",
        "fresh &= (self._graph.pull.upper[nodes] == 0) | (self._pulled_tick <= read_at + 1)",
    ),
    "what moved before at the same sequence stays where it was": (
        "if start and self._sequences[start - 1] == sequences[0]:  # numbers shall grow inside it",
        "if False:",
    ),
    "what moved before at the same sequence is lost": (
        "others = self._nodes[self._current(start, self._count)]",
        "others = _NOBODY",
    ),
    "positions begin anew when void entries are taken out": (
        "replace_together(self, **fresh, _count=len(kept))",
        "replace_together(self, **fresh, _count=len(kept), _last=len(kept))",
    ),
    "the entry at the position is shown again": (
        'start, count = int(np.searchsorted(self._positions[: self._count], position, "right")), self._count',
        "start, count = int(np.searchsorted(self._positions[: self._count], position)), self._count",
    ),
    "a page ends where it looked first": ("start, look = end, 2 * look", "break"),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_seeded_bug_would_be_noticed(mutant, monkeypatch):
    monkeypatch.setattr(Recording, "record", with_a_bug(*MUTANTS[mutant]))
    with pytest.raises(AssertionError):
        run_state_machine_as_test(Recording, settings=HUNT)


def test_a_page_costs_its_rows(monkeypatch):
    """Not the nodes: rows that are looked at are counted, over all pages and for one."""
    changes, looked = module.ChangeRecord(100_000), []
    whole = module.ChangeRecord._current
    monkeypatch.setattr(
        module.ChangeRecord, "_current", lambda *rows: looked.append(rows[2] - rows[1]) or whole(*rows)
    )
    position = changes.last
    random = np.random.default_rng(0)
    for sequence in range(1, 101):
        changes.append(random.choice(100_000, 100, replace=False).astype(np.int32), sequence)
    assert changes.last > position  # now they are in order
    looked.clear()
    assert len(changes.behind(position, 10).nodes) == 10
    assert sum(looked) < 100
    looked.clear()
    pages = 0
    while True:
        moves = changes.behind(position, 100)
        if not len(moves.nodes):
            break
        pages += 1
        position = int(moves.positions[-1])
    assert pages > 90
    assert sum(looked) < 3 * 100 * 100


def test_appending_costs_its_rows(monkeypatch):
    """Void entries are taken out so seldom that a row is copied a few times in all."""
    changes, looked = module.ChangeRecord(1_000), []
    whole = module.ChangeRecord._current
    monkeypatch.setattr(
        module.ChangeRecord, "_current", lambda *rows: looked.append(rows[2] - rows[1]) or whole(*rows)
    )
    for sequence in range(1, 20_001):
        changes.append(np.array([sequence % 10, 500], np.int32), sequence)
    assert sum(looked) < 4 * 40_000
    assert len(changes._nodes) <= 2_100


def recorded(sequences):
    changes = module.ChangeRecord(NODES, 0, Graph())
    for at, sequence in enumerate(sequences):
        heavy = np.array([0] if at % 3 == 0 else [], np.int32)
        changes.append(np.array([at % NODES, (5 * at + 2) % NODES], np.int32), sequence, heavy)
        if at % 2:
            assert changes.last
    return changes


@pytest.mark.parametrize("sequences", [(1, 2, 3, 4, 5), (1, 1, 1, 1, 2), (1, 2, 2, 2, 2), (1, 1, 2, 2, 2)])
def test_a_read_that_is_interrupted_at_any_line_loses_nothing(sequences):
    expected = recorded(sequences).behind(0)
    line = 0
    while True:
        line, count = line + 1, 0
        changes = recorded(sequences)

        def trace(frame, event, _, line=line):
            nonlocal count
            if frame.f_code.co_filename != module.__file__:
                return None
            count += event == "line"
            if event == "line" and count == line:
                raise KeyboardInterrupt
            return trace

        sys.settrace(trace)
        try:
            changes.behind(0)
            break
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        found = changes.behind(0)
        assert found.nodes.tolist() == expected.nodes.tolist(), line
        assert found.sequences.tolist() == expected.sequences.tolist()
        assert (np.diff(found.positions) > 0).all()
        later = changes.behind(changes.position_at(sequences[-1] - 1, NODES))
        assert set(later.nodes.tolist()) == {
            node for node, at in zip(expected.nodes, expected.sequences, strict=True) if at >= sequences[-1]
        }
    assert line > 20
