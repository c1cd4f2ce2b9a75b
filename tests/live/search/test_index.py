"""The index answers as if it looked at every vector as it is now, whatever happened before."""

import copy
import sys
import threading
from pathlib import Path
from types import ModuleType

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    precondition,
    rule,
    run_state_machine_as_test,
)

import dygcn
from dygcn.engine.models.links import cosines, norms
from dygcn.engine.models.model import Model
from dygcn.engine.training import Recipe
from dygcn.errors import IndexNotReady, OptionError
from dygcn.live.changed import ChangeRecord
from dygcn.live.search import backends
from dygcn.live.search import index as index_module
from dygcn.live.search import nearest as nearest_module
from dygcn.live.search.backends import Cancelled, InvertedLists, Upkeep
from dygcn.live.search.index import IndexStatus, NearestIndex
from dygcn.live.search.nearest import VectorCache, top_k
from tests.seeded import with_line

ALL = 1 << 20  # probes: more than there are lists
ids_of_nodes = st.integers(0, 25)
edges = st.lists(st.tuples(ids_of_nodes, ids_of_nodes), min_size=1, max_size=12)


def fresh(dim=4, width=6, kind="int64", features="hashed", seed=0, directed=False):
    random = np.random.default_rng(seed)
    weights = tuple(random.standard_normal((width, dim)).astype(np.float32) for _ in range(3))
    return dygcn.start(Model(weights, kind, features, np.ones(width), seed, directed))


def nearest(index, query, k, leave_out=-1):
    """Return (node, cosine) of the nearest, found as a service finds them."""
    found = index.candidates(query, k, leave_out)
    with index._guard:
        nodes, scores = nearest_module.top_k(index._cache, found, query, k)
    return list(zip(nodes.tolist(), scores.tolist(), strict=True))


def brute(live, query, k, leave_out=-1):
    """Return (node, cosine) of the nearest, by sorting everything, on vectors that nothing was kept of."""
    nodes = live._state.graph.nodes()  # by id, so equal ones stay in this order
    nodes = nodes[nodes != leave_out]
    vectors = live._vectors_of(nodes)
    scores = cosines(vectors, norms(vectors), query).tolist()
    return sorted(zip(nodes.tolist(), scores, strict=True), key=lambda answer: -answer[1])[:k]


def communities(nodes, groups, degree=10, inside=0.9, seed=0):
    """Edges of nodes, most of them inside their group: node i is of group i % groups."""
    random = np.random.default_rng(seed)
    a = np.repeat(np.arange(nodes), degree // 2)
    near = a % groups + groups * random.integers(0, nodes // groups, len(a))
    b = np.where(random.random(len(a)) < inside, near, random.integers(0, nodes, len(a)))
    return {"src": a, "dst": b}


def grouped(nodes, groups, dim=16, width=32, inside=0.9, seed=0):
    """An embedding whose vectors lie in groups: the node's own features count little."""
    random = np.random.default_rng(seed)
    scale = (0.1, 0.5, 2.0)
    weights = tuple(s * random.standard_normal((width, dim)).astype(np.float32) for s in scale)
    live = dygcn.start(Model(weights, "int64", "hashed", np.ones(width), seed))
    live.bulk([communities(nodes, groups, inside=inside, seed=seed)])
    return live


# ---- a state machine against looking at everything ---------------------------------------------------


class Moving(RuleBasedStateMachine):
    """Edges and nodes come and go, numbers are recycled; the index is asked in between, refreshed or not."""

    exact_up_to, probes = 10**6, None
    dim, width, features, kind = 3, 5, "hashed", "int64"

    def __init__(self):
        super().__init__()
        self.live = fresh(self.dim, self.width, self.kind, self.features)
        self.index = NearestIndex(
            self.live._cached(), exact_up_to=self.exact_up_to, probes=self.probes, seed=1
        )
        self.random = np.random.default_rng(0)

    def named(self, number):
        return number if self.kind == "int64" else f"n{number}"

    def pairs(self, numbers):
        return [(self.named(a), self.named(b)) for a, b in numbers]

    @rule(numbers=edges)
    def link(self, numbers):
        self.live.update(add=self.pairs(numbers))

    @rule(numbers=edges)
    def unlink(self, numbers):
        self.live.update(remove=self.pairs(numbers))

    @rule(share=st.floats(0, 1))
    def most_leave(self, share):
        ids = self.live.ids()
        self.live.update(remove_nodes=ids[: int(share * len(ids))])

    @rule(old=ids_of_nodes, new=st.integers(100, 130), other=ids_of_nodes)
    def one_takes_the_number_of_another(self, old, new, other):
        self.live.update(remove_nodes=[self.named(old)])
        self.live.update(add=self.pairs([(new, other)]))

    @precondition(lambda self: self.features == "given")
    @rule(number=ids_of_nodes, scale=st.sampled_from([0.0, 0.2, 0.7]))
    def describe(self, number, scale):
        row = scale * np.arange(1, self.width + 1, dtype=np.float32)[None]
        self.live.set_features([self.named(number)], row)

    @rule(limit=st.sampled_from([0, 1, 5, None]))
    def refresh(self, limit):
        before = self.index.status().pending
        # Nobody waits who left, and nobody is there twice or has left: `top_k` would hide it.
        assert self.live._state.graph.present(self.index._upkeep.dirty).all()
        rest = self.index.refresh(limit)
        if rest == 0 and self.index._upkeep.backend is not None:
            assert len(self.index._upkeep.backend) == len(self.live)
        assert rest == self.index.status().pending
        assert self.index.status().nodes == len(self.live)
        assert rest in (0, before - min(before, before if limit is None else limit))

    @precondition(lambda self: len(self.live))
    @rule(at=st.integers(0, 10**6), k=st.integers(1, 40))
    def ask_of_a_node(self, at, k):
        nodes = self.live._state.graph.nodes()
        node = nodes[at % len(nodes)]
        self.compare(self.live._vectors_of(nodes)[at % len(nodes)], k, int(node))

    @rule(k=st.integers(1, 6), zero=st.booleans())
    def ask(self, k, zero):
        query = self.random.standard_normal(self.dim).astype(np.float32)
        self.compare(query * (not zero), k)

    @rule(queries=st.integers(1, 5))
    def measure(self, queries):
        assert self.index.measure(queries) == 1.0

    def compare(self, query, k, leave_out=-1):
        assert nearest(self.index, query, k, leave_out) == brute(self.live, query, k, leave_out)


class MovingStrings(Moving):
    kind = "string"


class MovingLine(Moving):
    """One column: every cosine is 1, -1 or 0, and nothing but ids decides."""

    dim, width = 1, 2


class MovingGiven(Moving):
    """Who has no features and no neighbour with some has the vector zero."""

    features = "given"


class MovingLists(Moving):
    exact_up_to, probes = 4, ALL


class MovingListsOfLines(Moving):
    exact_up_to, probes = 4, ALL
    dim, width = 1, 2


class MovingListsOfGiven(Moving):
    exact_up_to, probes = 2, ALL
    features = "given"


MACHINES = [
    Moving,
    MovingStrings,
    MovingLine,
    MovingGiven,
    MovingLists,
    MovingListsOfLines,
    MovingListsOfGiven,
]


@pytest.mark.parametrize("machine", MACHINES)
def test_answers_are_those_of_looking_at_everything(machine):
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=20,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_few_that_wait_are_looked_at_beside_the_lists():
    live = grouped(500, 10)
    index = NearestIndex(live._cached(), exact_up_to=100, probes=ALL)
    index.refresh()
    live.update(add=[(0, 7)])
    before = index.status()
    assert 2 <= before.pending < 256
    for node in live._state.graph.nodes()[:20].tolist():
        query = live._vectors_of(np.array([node], np.int32))[0]
        assert nearest(index, query, 12, node) == brute(live, query, 12, node)
    assert index.status().pending == before.pending
    live._cached().changes.append(live._state.graph.nodes()[:400], live.version)
    nearest(index, query, 3)
    assert index.status().pending == 0  # too many to be looked at one by one


def test_who_leaves_without_anybody_moving_leaves_the_lists():
    live = fresh(3, 5, features="given")
    live.update(add=[(node, node + 1) for node in range(6)])
    live.set_features([*range(7), 20], np.eye(8, 5, dtype=np.float32) + 0.1)  # 20 has no edge
    index = NearestIndex(live._cached(), exact_up_to=2, probes=ALL)
    index.refresh()
    assert len(index._upkeep.backend) == len(live) == 8
    live.update(remove_nodes=[20])
    index.refresh()
    assert len(index._upkeep.backend) == len(live) == 7


# ---- seeded bugs -------------------------------------------------------------------------------------

HUNT = settings(
    max_examples=200,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
    derandomize=True,
    report_multiple_bugs=False,
    database=None,
    print_blob=False,
)


def old_vectors_stay_in_the_index(monkeypatch):
    monkeypatch.setattr(InvertedLists, "drop", lambda self, nodes: None)


def with_a_bug(module, line, wrong):
    """Return a copy of a module with another line in the place of one."""
    copied = ModuleType(module.__name__)
    exec(
        compile(with_line(Path(module.__file__).read_text(), line, wrong), module.__name__, "exec"),
        copied.__dict__,
    )
    return copied


def swap(monkeypatch, line, wrong):
    """Put another line in the place of one of the upkeep."""
    monkeypatch.setattr(backends, "Upkeep", with_a_bug(backends, line, wrong).Upkeep)


def the_dead_answer(monkeypatch):
    """Nobody looks for those who left."""
    swap(monkeypatch, "self._drop(np.flatnonzero(self._held[: len(now)] > now).astype(np.int32))", "pass")


def those_who_left_before_they_were_read_answer(monkeypatch):
    swap(
        monkeypatch,
        "here = np.flatnonzero(graph.present(moves.nodes))",
        "here = np.arange(len(moves.nodes))",
    )


UP_TO_DATE = "if self._position == self._changes.last and len(self.backend) == len(graph):"


def nobody_is_missed_where_nobody_moved(monkeypatch):
    """Who has no edge leaves without anybody else moving."""
    swap(monkeypatch, UP_TO_DATE, "if self._position == self._changes.last:")


def nobody_moves_where_nobody_came(monkeypatch):
    swap(monkeypatch, UP_TO_DATE, "if len(self.backend) == len(graph):")


def what_was_read_is_not_read_again(monkeypatch):
    whole = VectorCache._read

    def read(self, nodes):
        whole(self, nodes)
        self._read_at[nodes] = 1 << 60

    monkeypatch.setattr(VectorCache, "_read", read)


def a_recycled_number_answers_with_the_vector_of_the_dead(monkeypatch):
    what_was_read_is_not_read_again(monkeypatch)


def moved_nodes_do_not_wait(monkeypatch):
    whole = ChangeRecord.announce
    monkeypatch.setattr(
        ChangeRecord, "announce", lambda self, nodes, sequence, heavy: whole(self, nodes[:0], sequence)
    )


def those_who_wait_are_not_looked_at(monkeypatch):
    line = "return np.concatenate((near, upkeep.dirty[-_BESIDE:]))"
    copied = with_a_bug(index_module, line, "return near")
    monkeypatch.setattr(NearestIndex, "_near", copied.NearestIndex._near)


def ties_go_by_number(monkeypatch):
    swap_in_top_k(monkeypatch, *TOP_K_MUTANTS["ties go by number"])


def equals_are_cut_off(monkeypatch):
    """As if cosines in float32 were the last word."""
    line = "found: Nodes = nodes[scores >= bar - rounding(len(query))]"
    copied = with_a_bug(nearest_module, line, "found: Nodes = nodes[np.argsort(-scores)[:k]]")
    monkeypatch.setattr(index_module, "nearest_of_all", copied.nearest_of_all)


def nobody_new_is_read(monkeypatch):
    monkeypatch.setattr(nearest_module, "read_stale", lambda *_: None)


MUTANTS = [
    (old_vectors_stay_in_the_index, MovingLists),
    (the_dead_answer, MovingLists),
    (those_who_left_before_they_were_read_answer, MovingLists),
    (a_recycled_number_answers_with_the_vector_of_the_dead, Moving),
    (a_recycled_number_answers_with_the_vector_of_the_dead, MovingLists),
    (moved_nodes_do_not_wait, MovingLists),
    (those_who_wait_are_not_looked_at, MovingLists),
    (ties_go_by_number, MovingLine),
    (equals_are_cut_off, MovingLine),
    (nobody_new_is_read, Moving),
]


@pytest.mark.parametrize(("mutant", "machine"), MUTANTS, ids=lambda value: value.__name__)
def test_a_seeded_bug_would_be_noticed(mutant, machine, monkeypatch):
    mutant(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        run_state_machine_as_test(machine, settings=HUNT)


def test_who_is_not_missed_would_be_noticed(monkeypatch):
    nobody_is_missed_where_nobody_moved(monkeypatch)
    with pytest.raises(AssertionError):
        test_who_leaves_without_anybody_moving_leaves_the_lists()


def test_moves_that_are_missed_where_nobody_came_would_be_noticed(monkeypatch):
    nobody_moves_where_nobody_came(monkeypatch)
    with pytest.raises(AssertionError):
        test_few_that_wait_are_looked_at_beside_the_lists()


# ---- the top k of any candidates ------------------------------------------------------------------------


def test_the_top_k_is_that_of_sorting_everything():
    """Candidates come in any order, some twice, some that left."""
    random = np.random.default_rng(0)
    for live in (fresh(1, 2), fresh(3, 5), fresh(3, 5, "string")):
        named = int if live.model.ids == "int64" else str
        live.update(add=[(named(a), named(b)) for a, b in random.permutation(100).reshape(50, 2).tolist()])
        live.update(remove_nodes=[named(node) for node in range(30)])
        for _ in range(60):
            candidates = random.integers(0, 100, random.integers(0, 80)).astype(np.int32)
            query = random.standard_normal(live.model.dim).astype(np.float32)
            k = int(random.integers(1, 40))
            nodes, scores = nearest_module.top_k(live._cached(), candidates, query, k)
            true = [answer for answer in brute(live, query, 100) if answer[0] in candidates]
            assert list(zip(nodes.tolist(), scores.tolist(), strict=True)) == true[:k]


TOP_K_MUTANTS = {
    "ties go by number": (
        "by_id = np.searchsorted(nodes, graph.ids.sorted(nodes))",
        "by_id = np.arange(len(nodes))",
    ),
    "those who left are ranked": (
        "nodes = np.unique(candidates[graph.present(candidates)])",
        "nodes = np.unique(candidates)",
    ),
    "a candidate answers twice": (
        "nodes = np.unique(candidates[graph.present(candidates)])",
        "nodes = np.sort(candidates[graph.present(candidates)])",
    ),
    "equals are cut off before their ids are compared": (
        "good = scores >= np.partition(scores, -k)[-k]",
        "good = np.sort(np.argsort(-scores, kind='stable')[:k])",
    ),
}


def swap_in_top_k(monkeypatch, line, wrong):
    monkeypatch.setattr(nearest_module, "top_k", with_a_bug(nearest_module, line, wrong).top_k)


@pytest.mark.parametrize("mutant", TOP_K_MUTANTS)
def test_a_wrong_top_k_would_be_noticed(mutant, monkeypatch):
    swap_in_top_k(monkeypatch, *TOP_K_MUTANTS[mutant])
    with pytest.raises(AssertionError):
        test_the_top_k_is_that_of_sorting_everything()


# ---- as users would have it ----------------------------------------------------------------------------


def test_the_index_follows_a_fitted_embedding():
    """By ids, against `LiveEmbedding.nearest`, through real updates."""
    random = np.random.default_rng(3)
    events = [(f"p{a}", f"p{b}") for a, b in random.integers(0, 300, (900, 2)).tolist()]
    live = dygcn.fit(events, dim=12, recipe=Recipe(rounds=10))
    for options in ({}, {"exact_up_to": 50, "probes": ALL}):
        index = NearestIndex(live._cached(), **options)
        for step in range(6):
            new = [(f"p{a}", f"q{step}{b}") for a, b in random.integers(0, 300, (20, 2)).tolist()]
            live.update(add=new, remove=events[step * 30 : step * 30 + 30])
            live.update(remove_nodes=live.ids()[step::40])
            for name in live.ids()[::50].tolist():
                node = live._state.graph.find_one(name)
                found = nearest(index, live[name], 7, node)
                names = live._names(np.array([answer for answer, _ in found], np.int32))
                result = dygcn.engine.events.python_ids(names).tolist()
                assert list(zip(result, [score for _, score in found], strict=True)) == live.nearest(name, 7)
        assert index.status().kind == ("ivf" if options else "exact")


def test_the_kind_follows_the_number_of_nodes():
    live = fresh()
    index = NearestIndex(live._cached(), exact_up_to=100)
    query = np.ones(4, np.float32)
    assert nearest(index, query, 5) == []
    assert index.measure() == 1.0

    def grow(low, high):
        live.update(add=[(0, node) for node in range(low, high)])
        index.refresh()
        return index.status()

    small = grow(1, 90)
    assert (small.kind, small.nodes, small.lists, small.probes, small.rebuilds) == ("exact", 90, 0, 0, 0)
    large = grow(90, 150)
    assert (large.kind, large.trained_at_nodes, large.rebuilds, large.lists) == ("ivf", 150, 1, 24)
    same = grow(150, 290)
    assert (same.trained_at_nodes, same.rebuilds) == (150, 1)
    doubled = grow(290, 300)
    assert (doubled.trained_at_nodes, doubled.rebuilds) == (300, 2)
    live.update(remove_nodes=range(1, 160))
    index.refresh()
    halved = index.status()
    assert (halved.kind, halved.trained_at_nodes, halved.rebuilds) == ("ivf", 141, 3)
    live.update(remove_nodes=live.ids())
    assert nearest(index, query, 5) == []
    index.refresh()
    empty = index.status()
    assert (empty.kind, empty.nodes, empty.pending, empty.trained_at_nodes) == ("exact", 0, 0, 0)
    again = grow(1, 120)
    assert (again.kind, len(nearest(index, query, 500))) == ("ivf", 120)


def test_without_faiss_the_index_stays_exact_and_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    live = grouped(300, 10)
    index = NearestIndex(live._cached(), exact_up_to=100)
    query = live[5]
    assert nearest(index, query, 9) == brute(live, query, 9)
    status = index.status()
    assert (status.kind, status.nodes) == ("exact", 300)
    assert status.hint == (
        'every search looks at all vectors: faiss is not installed. Run: pip install "dygcn[ann]"'
    )
    small = NearestIndex(live._cached())
    small.refresh()
    assert small.status().hint == ""


def test_equal_calls_give_equal_answers():
    tables = []
    for _ in range(2):
        live = grouped(2000, 40)
        index = NearestIndex(live._cached(), exact_up_to=500, seed=5)
        live.update(add=[(0, 1), (5, 2)])
        index.refresh()
        live.update(remove_nodes=range(0, 2000, 7))
        found = [nearest(index, row, 10) for row in live.vectors(live.ids()[:40])]
        tables.append((found, index.measure(), index.status()))
    assert tables[0] == tables[1]
    assert tables[0][2].kind == "ivf"


def test_a_copy_goes_its_own_way():
    live = grouped(400, 10)
    for options in ({}, {"exact_up_to": 100, "probes": ALL}):
        index = NearestIndex(live._cached(), **options)
        index.refresh()
        there, other = copy.deepcopy((live, index))
        assert other._state is there._state
        there.update(remove_nodes=range(50))
        query = live[200]
        assert nearest(other, query, 9) == brute(there, query, 9)
        assert nearest(index, query, 9) == brute(live, query, 9)


def test_faiss_threads_are_given_back():
    faiss = pytest.importorskip("faiss")
    before = faiss.omp_get_max_threads()
    try:
        faiss.omp_set_num_threads(2)
        live = grouped(400, 10)
        index = NearestIndex(live._cached(), exact_up_to=100)
        nearest(index, live[3], 4)
        assert index.status().kind == "ivf"
        assert faiss.omp_get_max_threads() == 2
    finally:
        faiss.omp_set_num_threads(before)


def test_a_cache_may_be_shared():
    live = grouped(300, 10)
    cache = live._cached()
    index = NearestIndex(cache)
    index.refresh()
    assert (cache._read_at[:300] >= 0).all()
    live.update(add=[(0, 1), (0, 3)])
    query = live[0]
    assert (cache.one(live._state.graph.find_one(0)) == query).all()
    assert nearest(index, query, 5) == brute(live, query, 5)


def test_what_was_wrong_is_said():
    live = fresh()
    live.update(add=[(1, 2)])
    for option, value in (("exact_up_to", -1), ("probes", 0), ("probes", 1.5)):
        with pytest.raises(OptionError, match=rf"{option} is .*; allowed is a whole number"):
            NearestIndex(live._cached(), **{option: value})
    index = NearestIndex(live._cached())
    for k in (0, -1, 2.0, True):
        with pytest.raises(OptionError, match="k is"):
            index.candidates(np.ones(4, np.float32), k)
    for query in (np.ones(3), np.ones((1, 4)), [1, 2, np.nan, 4], [1, 2, 3, 1e300], None):
        with pytest.raises(OptionError, match="allowed are 4 finite ones"):
            index.checked(query)
    with pytest.raises(OptionError, match="limit is -1"):
        index.refresh(-1)
    with pytest.raises(OptionError, match="queries is 0"):
        index.measure(0)
    assert len(nearest(index, index.checked([1, 2, 3, 4]), np.int64(1))) == 1


def test_the_status_can_be_sent():
    live = fresh()
    live.update(add=[(1, 2)])
    status = NearestIndex(live._cached()).status()
    assert status.pending == 2
    assert msgspec.json.decode(msgspec.json.encode(status), type=IndexStatus) == status


# ---- beside a thread that writes -------------------------------------------------------------------------


def late_index(nodes=400, exact_up_to=50, seed=0):
    random = np.random.default_rng(seed)
    live = dygcn.fit([tuple(pair) for pair in random.integers(0, nodes, (4 * nodes, 2)).tolist()], dim=8)
    guard = threading.RLock()
    return live, NearestIndex(live._cached(), exact_up_to=exact_up_to, guard=guard), random, guard


def check_scores(live, query, found, leave_out):
    """Every answer is in the graph, once, with the cosine that it has now, best first."""
    nodes = np.array([node for node, _ in found], np.int32)
    assert live._state.graph.present(nodes).all()
    assert len(np.unique(nodes)) == len(nodes)
    assert leave_out not in nodes
    vectors = live._vectors_of(nodes)
    assert np.allclose(cosines(vectors, norms(vectors), query), [score for _, score in found])
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)


@pytest.mark.parametrize("exact_up_to", [50, 10_000])
def test_a_late_index_answers_with_what_is_true_now(exact_up_to):
    """Who moved is looked for where it was; what is answered is never stale."""
    live, index, random, _ = late_index(exact_up_to=exact_up_to)
    index.refresh()
    for _ in range(30):
        pairs = [tuple(pair) for pair in random.integers(0, 450, (40, 2)).tolist()]
        live.update(add=pairs[:25], remove=pairs[25:])
        node = int(random.choice(live._state.graph.nodes()))
        query = live._vectors_of(np.array([node], np.int32))[0]
        check_scores(live, query, nearest(index, query, 10, node), node)
    while index.refresh(100):
        pass
    assert index.measure(50) > 0.9


def test_a_late_index_and_a_thread_that_writes():
    live, index, random, guard = late_index()
    ended = threading.Event()

    def write():
        mine = np.random.default_rng(1)
        while not ended.wait(0.001):  # a lock goes to whoever asks first: let others ask
            pairs = [tuple(pair) for pair in mine.integers(0, 450, (20, 2)).tolist()]
            with guard:
                live.update(add=pairs[:12], remove=pairs[12:])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(50):
            with guard:
                node = int(random.choice(live._state.graph.nodes()))
                query = live._vectors_of(np.array([node], np.int32))[0]
            index.refresh(50)
            found = nearest(index, query, 5, node)
            assert len({number for number, _ in found}) == len(found)
    finally:
        ended.set()
        writer.join()
    while index.refresh():
        pass
    query = live._vectors_of(live._state.graph.nodes()[:1])[0]
    check_scores(live, query, nearest(index, query, 10), -1)
    assert index.status().pending == 0
    assert index.measure(50) > 0.9


class BusyGuard:
    """A guard that another thread takes as soon as it is free, and brings nodes to the graph."""

    def __init__(self):
        self.live, self.next_id, self.depth = None, 10_000, 0

    def __enter__(self):
        self.depth += 1

    def __exit__(self, *_):
        self.depth -= 1
        if self.live is not None and self.depth == 0:
            more = range(self.next_id, self.next_id + 700)  # more than arrays have to spare
            self.live.update(add=[(new, 0) for new in more])
            self.next_id += len(more)


@pytest.mark.parametrize("exact_up_to", [50, 10_000])
def test_nodes_that_come_while_the_index_is_built(exact_up_to):
    guard = BusyGuard()
    live = dygcn.fit([(i, i + 1) for i in range(200)], dim=8)
    index = NearestIndex(live._cached(), exact_up_to=exact_up_to, guard=guard)
    guard.live = live
    index.refresh()
    guard.live = None
    assert guard.next_id > 10_000
    while index.refresh(50):
        pass
    check_scores(live, live[0], nearest(index, live[0], 10), -1)
    assert index.status().pending == 0


class Watched:
    """A guard that knows whether it is held."""

    def __init__(self):
        self.depth = self.taken = 0

    def __enter__(self):
        self.depth += 1
        self.taken += 1

    def __exit__(self, *_):
        self.depth -= 1


def test_faiss_is_loaded_while_others_may_write(monkeypatch):
    """To load it takes as long as many updates."""
    held = []
    guard = Watched()
    whole = backends.load_faiss
    monkeypatch.setattr(backends, "load_faiss", lambda: (held.append(guard.depth), whole())[1])
    live = dygcn.fit([(i, i + 1) for i in range(200)], dim=8)
    index = NearestIndex(live._cached(), exact_up_to=50, guard=guard)
    index.refresh()
    assert held == [0]


def test_faiss_is_loaded_early_only_where_it_is_needed(monkeypatch):
    loaded = []
    monkeypatch.setattr(backends, "load_faiss", lambda: loaded.append(1) or (None, "missing"))
    live = dygcn.fit([(i, i + 1) for i in range(200)], dim=8)
    NearestIndex(live._cached()).load()
    assert loaded == []
    index = NearestIndex(live._cached(), exact_up_to=50)
    index.load()
    index.load()
    index.refresh()
    assert loaded == [1]


def test_whoever_waits_gets_the_lock_while_the_index_is_built(monkeypatch):
    """Between two blocks the lock is free as long as it was held: a lock goes to whoever asks first."""
    pauses = []
    guard = Watched()
    monkeypatch.setattr(backends.time, "sleep", lambda pause: pauses.append((guard.depth, pause)))
    live = dygcn.fit([(i, i + 1) for i in range(2_000)], dim=8)
    blocks = list(Upkeep(live._cached(), guard).everyone())
    assert len(blocks) == 4
    assert [depth for depth, _ in pauses] == [0] * 4
    assert pauses[0] == (0, 0.0)
    assert all(pause > 0 for _, pause in pauses[1:])
    list(Upkeep(live._cached()).everyone())
    assert len(pauses) == 4  # nobody waits for a lock that is not there


def test_room_made_before_others_come_would_be_noticed(monkeypatch):
    def fill(self, backend):
        with self.guard:
            held = np.zeros(self._state.graph.ids.high, np.int8)
        nodes = self.numbers()
        held[nodes] = 1
        return lambda: None

    monkeypatch.setattr(Upkeep, "fill", fill)
    with pytest.raises(IndexError):
        test_nodes_that_come_while_the_index_is_built(50)


def test_a_late_index_that_ranks_by_old_vectors_would_be_noticed(monkeypatch):
    what_was_read_is_not_read_again(monkeypatch)
    with pytest.raises(AssertionError):
        test_a_late_index_answers_with_what_is_true_now(50)


# ---- an index is built beside the one that is asked ----------------------------------------------------


def beside(monkeypatch, step):
    """An index whose lists are filled by another thread, which waits after a step until it may go on."""
    live = dygcn.fit([(i, (i * 7 + 1) % 700) for i in range(700)], dim=8)
    index = NearestIndex(live._cached(), exact_up_to=50, guard=threading.RLock())
    begun, may_go_on, ended = threading.Event(), threading.Event(), []
    whole = getattr(InvertedLists, step)

    def waits(self, *arguments):
        begun.set()
        assert may_go_on.wait(60)
        return whole(self, *arguments)

    monkeypatch.setattr(InvertedLists, step, waits)

    def build():
        try:
            ended.append(index.refresh())
        except Cancelled:
            ended.append("cancelled")

    thread = threading.Thread(target=build)
    thread.start()
    assert begun.wait(60)
    return live, index, may_go_on, thread, ended


@pytest.mark.parametrize("step", ["__init__", "put"])
def test_questions_are_answered_while_the_index_is_built(monkeypatch, step):
    """By all vectors, exactly, also of who comes and moves meanwhile."""
    live, index, may_go_on, thread, ended = beside(monkeypatch, step)
    live.update(add=[(3, 9_000), (4, 5)], remove=[(6, 43)])
    for node in (3, 5, 600, 9_000):
        query = live[node]
        found, _ = top_k(live._cached(), index.candidates(query, 10), query, 10)
        everyone = live._state.graph.nodes()
        assert found.tolist() == top_k(live._cached(), everyone, query, 10)[0].tolist()
    assert index.status().kind == "exact"
    may_go_on.set()
    thread.join()
    assert (ended, index.status().kind) == ([0], "ivf")
    index.refresh()
    assert index.measure(50) >= 0.95


def test_a_build_can_be_cancelled(monkeypatch):
    _, index, may_go_on, thread, ended = beside(monkeypatch, "put")
    index.cancel()
    may_go_on.set()
    thread.join()
    assert (ended, index.status().kind) == (["cancelled"], "exact")


def test_a_build_under_the_lock_would_be_noticed(monkeypatch):
    """A question would wait for it: here for ever, so it is asked with a limit."""
    whole = NearestIndex._build

    def build(self):
        with self.lock:
            whole(self)

    monkeypatch.setattr(NearestIndex, "_build", build)
    _, index, may_go_on, thread, _ = beside(monkeypatch, "put")
    assert not index.lock.acquire(timeout=0.2)
    may_go_on.set()
    thread.join()


def test_too_many_vectors_to_read_are_refused(monkeypatch):
    live = dygcn.fit([(i, i + 1) for i in range(200)], dim=8)
    index = NearestIndex(live._cached(), exact_up_to=50, guard=threading.RLock())
    monkeypatch.setattr(nearest_module, "MOST_UNREAD", 100)
    with pytest.raises(IndexNotReady, match="200 vectors are still to be read"):
        index.candidates(live[3], 5)
    index.refresh()
    assert len(index.candidates(live[3], 5)) >= 5
