import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dygcn.graph import arcs as loops
from dygcn.graph.adjacency import Adjacency
from dygcn.graph.arcs import FEW
from dygcn.graph.ids import grown
from dygcn.graph.pairs import EMPTY
from tests.seeded import seed_bug

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
HUNT = settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    print_blob=False,
)


def write_arcs(arcs, nodes, other, new):
    """What `writing` does with one direction of a batch."""
    n = len(nodes)
    loops.count_new(n, nodes, new, arcs.arrays)
    arcs.make_room_for_arcs(*loops.needs(n, nodes, arcs.arrays))
    loops.reserve(n, nodes, arcs.arrays)
    loops.write(n, nodes, other, new, arcs.arrays)
    loops.give_back_empty(n, nodes, arcs.arrays)


def write(arcs, rows):
    node, other, weight = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    write_arcs(arcs, node.astype(np.int32), other.astype(np.int32), weight)


def check(arcs, model):
    owner, other, weight = arcs.arcs(np.arange(4, dtype=np.int32))
    found = {(a, b): w for a, b, w in zip(owner.tolist(), other.tolist(), weight.tolist(), strict=True)}
    assert found == model
    assert len(owner) == len(found)
    pairs = [(a, b) for a in range(3) for b in range(3 * FEW + 1)]
    looked = arcs.look_up(*(np.array(column, np.int32) for column in zip(*pairs, strict=True)))
    assert looked.tolist() == [model.get(pair, 0) for pair in pairs]


def agree_with_a_dict(batches):
    arcs, model = Adjacency(), {}
    arcs.make_room(4)
    for batch in batches:
        write(arcs, batch)
        for node, other, weight in batch:
            model.pop((node, other), None)
            if weight:
                model[node, other] = weight
        check(arcs, model)


@settings(max_examples=80, deadline=None)
@given(batches=BATCHES)
def test_arcs_agree_with_a_dict(batches):
    """Nodes grow to hubs and shrink back; blocks are reused."""
    agree_with_a_dict(batches)


def test_a_hub_is_searched_by_table_and_shrinks_back():
    arcs = Adjacency()
    arcs.make_room(5000)
    many = [(0, i, 1) for i in range(1, 5000)]
    write(arcs, many)
    assert arcs._hub[0] == 1
    assert arcs._table.used[0] == len(many)
    write(arcs, [(0, i, 0) for i in range(1, 5000)])
    assert arcs._hub[0] == 0
    assert arcs._table.used[0] == 0
    assert arcs.count[0] == 0


def test_churn_does_not_grow_the_pool():
    arcs = Adjacency()
    arcs.make_room(300)
    random = np.random.default_rng(0)
    sizes = []
    for _turn in range(60):
        pairs = np.unique(random.integers(0, 300, (4000, 2)), axis=0)
        rows = [(int(a), int(b), 1) for a, b in pairs]
        write(arcs, rows)
        write(arcs, [(a, b, 0) for a, b, _ in rows])
        sizes.append(arcs._tail[0])
    assert sizes[-1] == pytest.approx(sizes[20], rel=0.25)


def test_a_node_that_loses_all_arcs_and_gains_others_in_one_batch():
    """Its block must not be given away inside the batch: the pool was sized without it."""
    arcs = Adjacency()
    arcs.make_room(40)
    model = {}
    for v in range(16):
        write(arcs, [(v, 20 + i, 1) for i in range(5)])
    rows = [(v, 20 + i, 0 if i < 5 else 1) for v in range(16) for i in range(6)]
    write(arcs, rows)
    assert arcs._tail[0] <= len(arcs.others)
    model = {(v, 25): 1 for v in range(16)}
    owner, other, weight = arcs.arcs(np.arange(40, dtype=np.int32))
    found = {(a, b): w for a, b, w in zip(owner.tolist(), other.tolist(), weight.tolist(), strict=True)}
    assert found == model


def keys_of(node, others):
    return (np.int64(node) << np.int64(32)) | others.astype(np.int64)


def longest_run(keys):
    """How many places of the table a search may look at before it meets a free one."""
    free = np.flatnonzero(np.concatenate((keys, keys)) == EMPTY)
    return int(np.diff(free).max())


def check_table(arcs, node):
    """Every arc of a hub stands in the table, with its place in the block."""
    base, count = arcs.start[node], arcs.count[node]
    others = arcs.others[base : base + count]
    order = np.argsort(arcs._table.keys)
    at = order[np.searchsorted(arcs._table.keys, keys_of(node, others), sorter=order)]
    np.testing.assert_array_equal(arcs._table.keys[at], keys_of(node, others))
    np.testing.assert_array_equal(arcs._table.slots[at], np.arange(count))


def test_deleting_from_a_hub_touches_few_places():
    """A thousand arcs of a node with a million, and of one with ten thousand, in one batch."""
    sizes, gone = {0: 10**6, 1: 10**4}, 1000
    arcs = Adjacency()
    arcs.make_room(2)
    for node, size in sizes.items():
        write_arcs(
            arcs, np.full(size, node, np.int32), np.arange(size, dtype=np.int32), np.ones(size, np.int64)
        )
    random, used = np.random.default_rng(0), sum(sizes.values())
    before = {node: arcs.others[arcs.start[node] :][:size].copy() for node, size in sizes.items()}
    chosen = {node: random.choice(size, gone, replace=False).astype(np.int32) for node, size in sizes.items()}
    nodes, table = np.repeat(np.array(list(sizes), np.int32), gone), arcs._table.keys.copy()
    write_arcs(arcs, nodes, np.concatenate(list(chosen.values())), np.zeros(2 * gone, np.int64))
    assert arcs._hub[:2].tolist() == [1, 1]
    assert arcs._table.used[0] == used - 2 * gone
    assert longest_run(arcs._table.keys) < 200
    # What a search or a shift in the table may look at is short, and few places are another thing now.
    assert (arcs._table.keys != table).sum() < 20 * gone
    for node, size in sizes.items():
        base, count = arcs.start[node], arcs.count[node]
        assert count == size - gone
        after = arcs.others[base : base + count]
        assert (after != before[node][:count]).sum() <= gone
        assert set(np.setdiff1d(before[node], after).tolist()) == set(chosen[node].tolist())
        check_table(arcs, node)


def test_a_table_that_forgets_where_arcs_moved_would_be_noticed(monkeypatch):
    """The mutant: the arc that fills a gap is still looked for where it was."""
    name = "dygcn.graph.arcs"
    places = dict.fromkeys(("dygcn.graph.adjacency.loops", f"{__name__}.loops"), name)
    seed_bug(monkeypatch, name, "if slot != last:", "if False:", places=places)
    with pytest.raises(AssertionError):
        HUNT(given(batches=BATCHES)(agree_with_a_dict))()
    with pytest.raises(AssertionError):
        test_deleting_from_a_hub_touches_few_places()


def test_room_is_counted_in_the_shorter_of_two_arrays():
    arcs = Adjacency()
    arcs.make_room(2)
    arcs.make_room_for_arcs(100, 0)
    arcs.weights = arcs.weights[:50]
    arcs._replace()
    arcs._tail[0] = 40
    assert loops.fits(10, 0, arcs.arrays)
    assert not loops.fits(11, 0, arcs.arrays)


def test_arrays_that_belong_together_stay_of_one_length(monkeypatch):
    """Whatever they hold, and however they grow: a loop looks at the length of one of them alone."""
    monkeypatch.setattr("dygcn.graph.ids._FEW_ROWS", 100)
    kinds = [np.zeros(16, kind) for kind in (np.int8, np.int32, np.int64)]
    for size in (17, 40, 41, 300, 301, 5000):
        kinds = [grown(array, size) for array in kinds]
        assert len({len(array) for array in kinds}) == 1
        assert len(kinds[0]) >= size
