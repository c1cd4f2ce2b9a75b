import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dygcn.graph.adjacency import FEW, Adjacency

ARC = st.tuples(st.integers(0, 2), st.integers(0, 3 * FEW), st.integers(-1, 3))


def write(arcs, rows):
    node, other, weight = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    arcs.write(node.astype(np.int32), other.astype(np.int32), weight)


def check(arcs, model):
    owner, other, weight = arcs.arcs(np.arange(4, dtype=np.int32))
    found = {(a, b): w for a, b, w in zip(owner.tolist(), other.tolist(), weight.tolist(), strict=True)}
    assert found == model
    assert len(owner) == len(found)
    pairs = [(a, b) for a in range(3) for b in range(3 * FEW + 1)]
    looked = arcs.look_up(*(np.array(column, np.int32) for column in zip(*pairs, strict=True)))
    assert looked.tolist() == [model.get(pair, 0) for pair in pairs]


@settings(max_examples=80, deadline=None)
@given(batches=st.lists(st.lists(ARC, min_size=1, max_size=120, unique_by=lambda arc: arc[:2]), max_size=12))
def test_arcs_agree_with_a_dict(batches):
    """Nodes grow to hubs and shrink back; blocks are reused."""
    arcs, model = Adjacency(), {}
    arcs.make_room(4)
    for batch in batches:
        write(arcs, batch)
        for node, other, weight in batch:
            model.pop((node, other), None)
            if weight:
                model[node, other] = weight
        check(arcs, model)


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
