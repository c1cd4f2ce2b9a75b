import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dygcn.engine._rows import cpu_level
from dygcn.engine.events import id_column
from dygcn.engine.graph import Graph
from dygcn.engine.graph.adjacency import Adjacency
from dygcn.engine.graph.arcs import fits
from dygcn.engine.graph.constants import FEW
from dygcn.engine.graph.ids import grown
from dygcn.engine.graph.staging import StagedPairs
from dygcn.engine.graph.transaction import Transaction
from tests.seeded import assert_noticed

COMPILED = cpu_level() != "none"
ARC = st.tuples(st.integers(0, 2), st.integers(0, 3 * FEW), st.integers(-1, 3))
RANGE = st.tuples(
    st.integers(0, 2), st.integers(0, 2 * FEW), st.integers(1, 2 * FEW), st.integers(1, 3), st.integers(-1, 3)
)


def many_arcs(row):
    """Enough of them to make a hub, or to end one."""
    node, start, count, step, weight = row
    return [(node, other, weight) for other in range(start, min(start + count * step, 3 * FEW + 1), step)]


BATCH = st.one_of(
    RANGE.map(many_arcs), st.lists(ARC, min_size=1, max_size=120, unique_by=lambda arc: arc[:2])
)
BATCHES = st.lists(BATCH, max_size=12)


def new_graph(nodes):
    """Return a directed graph whose nodes may have arcs, to themselves as well."""
    graph = Graph("int64", directed=True)
    graph.intern(id_column(range(nodes)))
    return graph


def write_arcs(graph, nodes, other, new):
    """Write arcs in both directions, as a batch writes them."""
    times, none = np.zeros(len(nodes)), (np.empty(0), np.empty(0, np.float32), nodes[:0], nodes[:0])
    staged = StagedPairs(nodes, other, new, *none, np.zeros_like(new), times, -np.inf)
    Transaction(graph).write_pairs(staged, graph.pull.look_up(nodes, other))


def write(graph, rows):
    node, other, weight = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    write_arcs(graph, node.astype(np.int32), other.astype(np.int32), weight)


def dict_of(nodes, other, weight):
    found = {(a, b): w for a, b, w in zip(nodes.tolist(), other.tolist(), weight.tolist(), strict=True)}
    assert len(nodes) == len(found)
    return found


def check(graph, model):
    everyone = np.arange(3 * FEW + 1, dtype=np.int32)
    assert dict_of(*graph.pull.arcs(everyone[:4])) == model
    receiver, sender, weight = graph.push.arcs(everyone)
    assert dict_of(sender, receiver, weight) == model
    pairs = [(a, b) for a in range(3) for b in range(3 * FEW + 1)]
    looked = graph.pull.look_up(*(np.array(column, np.int32) for column in zip(*pairs, strict=True)))
    assert looked.tolist() == [model.get(pair, 0) for pair in pairs]


def agree_with_a_dict(batches):
    graph, model = new_graph(3 * FEW + 1), {}
    for batch in batches:
        write(graph, batch)
        for node, other, weight in batch:
            model.pop((node, other), None)
            if weight:
                model[node, other] = weight
        check(graph, model)


@settings(max_examples=80, deadline=None)
@given(batches=BATCHES)
def test_arcs_agree_with_a_dict(batches):
    """Nodes grow to hubs and shrink back; blocks are reused."""
    agree_with_a_dict(batches)


def test_a_hub_is_searched_by_table_and_shrinks_back():
    graph = new_graph(5000)
    arcs = graph.pull
    many = [(0, i, 1) for i in range(1, 5000)]
    write(graph, many)
    assert arcs._hub[0] == 1
    assert len(arcs._table) == len(many)
    write(graph, [(0, i, 0) for i in range(1, 5000)])
    assert arcs._hub[0] == 0
    assert len(arcs._table) == 0
    assert arcs.count[0] == 0


@pytest.mark.large
def test_churn_does_not_grow_the_pool():
    graph = new_graph(300)
    random = np.random.default_rng(0)
    sizes = []
    for _turn in range(60):
        pairs = np.unique(random.integers(0, 300, (4000, 2)), axis=0)
        rows = [(int(a), int(b), 1) for a, b in pairs]
        write(graph, rows)
        write(graph, [(a, b, 0) for a, b, _ in rows])
        sizes.append(graph.pull._tail[0])
    assert sizes[-1] == pytest.approx(sizes[20], rel=0.25)


def test_a_node_that_loses_all_arcs_and_gains_others_in_one_batch():
    """Its block must not be given away inside the batch: the pool was sized without it."""
    graph = new_graph(40)
    for v in range(16):
        write(graph, [(v, 20 + i, 1) for i in range(5)])
    rows = [(v, 20 + i, 0 if i < 5 else 1) for v in range(16) for i in range(6)]
    write(graph, rows)
    assert graph.pull._tail[0] <= len(graph.pull.others)
    assert dict_of(*graph.pull.arcs(np.arange(40, dtype=np.int32))) == {(v, 25): 1 for v in range(16)}


def keys_of(node, others):
    return (np.int64(node) << np.int64(32)) | others.astype(np.int64)


def longest_run(keys):
    """How many places of the table a search may look at before it meets a free one."""
    free = np.flatnonzero(np.concatenate((keys, keys)) < 0)
    return int(np.diff(free).max())


def check_table(arcs, node):
    """Every arc of a hub stands in the table, with its place in the block."""
    base, count = arcs.start[node], arcs.count[node]
    others = arcs.others[base : base + count]
    keys, slots, _ = arcs._table.arrays
    order = np.argsort(keys)
    at = order[np.searchsorted(keys, keys_of(node, others), sorter=order)]
    np.testing.assert_array_equal(keys[at], keys_of(node, others))
    np.testing.assert_array_equal(slots[at], np.arange(count))


def delete_from_hubs(sizes, gone):
    graph = new_graph(max(sizes))
    arcs = graph.pull
    for node, size in enumerate(sizes):
        write_arcs(
            graph, np.full(size, node, np.int32), np.arange(size, dtype=np.int32), np.ones(size, np.int64)
        )
    random = np.random.default_rng(0)
    before = [arcs.others[arcs.start[node] :][:size].copy() for node, size in enumerate(sizes)]
    chosen = [random.choice(size, gone, replace=False).astype(np.int32) for size in sizes]
    nodes, table = np.repeat(np.arange(len(sizes), dtype=np.int32), gone), arcs._table.arrays[0].copy()
    write_arcs(graph, nodes, np.concatenate(chosen), np.zeros(len(nodes), np.int64))
    assert arcs._hub[: len(sizes)].all()
    assert len(arcs._table) == sum(sizes) - len(nodes)
    keys = arcs._table.arrays[0]
    assert longest_run(keys) < 200
    # What a search or a shift in the table may look at is short, and few places are another thing now.
    assert (keys != table).sum() < 20 * gone
    for node, size in enumerate(sizes):
        base, count = arcs.start[node], arcs.count[node]
        assert count == size - gone
        after = arcs.others[base : base + count]
        assert (after != before[node][:count]).sum() <= gone
        assert set(np.setdiff1d(before[node], after).tolist()) == set(chosen[node].tolist())
        check_table(arcs, node)


def test_deleting_from_a_hub_touches_few_places():
    """A thousand arcs of a node with a million, and of one with ten thousand, in one batch."""
    delete_from_hubs([10**6, 10**4] if COMPILED else [10**4, 3000], 1000)


def shrink_a_hub():
    agree_with_a_dict([[(0, other, 1) for other in range(FEW + 9)], [(0, 3, 0)], [(0, FEW + 8, 2)]])


@pytest.mark.parametrize(
    ("search", "arguments"), [(shrink_a_hub, ()), (delete_from_hubs, ([3000, 1000], 300))]
)
def test_a_table_that_forgets_where_arcs_moved_would_be_noticed(tmp_path, search, arguments):
    """The mutant: the arc that fills a gap is still looked for where it was."""
    assert_noticed(tmp_path, "dygcn.engine.graph.arcs", "if slot != last:", "if False:", search, *arguments)


def test_room_is_counted_in_the_shorter_of_two_arrays():
    arcs = Adjacency()
    arcs.reserve(2, np.zeros(16, np.int8))
    arcs.reserve_arcs(100, 0)
    arcs.weights = arcs.weights[:50]
    arcs._replace()
    arcs._tail[0] = 40
    assert fits(arcs.arrays, 10, 0)
    assert not fits(arcs.arrays, 11, 0)


def test_arrays_that_belong_together_stay_of_one_length(monkeypatch):
    """Whatever they hold, and however they grow: a loop looks at the length of one of them alone."""
    monkeypatch.setattr("dygcn.engine.graph.ids._FEW_ROWS", 100)
    kinds = [np.zeros(16, kind) for kind in (np.int8, np.int32, np.int64)]
    for size in (17, 40, 41, 300, 301, 5000):
        kinds = [grown(array, size) for array in kinds]
        assert len({len(array) for array in kinds}) == 1
        assert len(kinds[0]) >= size
