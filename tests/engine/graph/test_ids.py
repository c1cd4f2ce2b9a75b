import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dygcn.engine.events import id_column, python_ids
from dygcn.engine.graph.ids import IdMap
from dygcn.errors import EventError


@pytest.mark.parametrize("kind", ["int64", "string"])
@settings(max_examples=60, deadline=None)
@given(steps=st.lists(st.tuples(st.booleans(), st.lists(st.integers(-20, 40), max_size=30)), max_size=15))
def test_ids_agree_with_a_dict(kind, steps):
    """Interning and forgetting in any order; nodes are recycled, never shared."""
    named = (lambda i: i) if kind == "int64" else (lambda i: "x" * (i % 7) + str(i))
    ids, known = IdMap(kind), {}
    for forget, numbers in steps:
        names = [named(i) for i in numbers]
        if forget:
            gone = [name for name in dict.fromkeys(names) if name in known]
            ids.release(np.array([known.pop(name) for name in gone], np.int32))
        elif names:
            for name, node in zip(names, ids.intern(id_column(names)).tolist(), strict=True):
                assert known.setdefault(name, node) == node
        assert len(ids) == len(known)
        assert len(set(known.values())) == len(known)
        if known:
            nodes = np.array(list(known.values()), np.int32)
            assert python_ids(ids.names(nodes)).tolist() == list(known)
            assert ids.find(id_column(list(known))).tolist() == list(known.values())
            assert python_ids(ids.names(ids.sorted(nodes))).tolist() == sorted(known)
    assert ids.high <= 61


@pytest.mark.large
def test_many_ids_and_compaction():
    ids = IdMap("string")
    for turn in range(40):
        column = id_column([f"turn {turn} node {i} {'y' * 40}" for i in range(3000)])
        nodes = ids.intern(column)
        assert python_ids(ids.names(nodes)).tolist() == python_ids(column).tolist()
        ids.release(nodes[1:])
        assert ids.find(column)[0] == nodes[0]
    assert len(ids) == 40
    assert len(ids._arena) < 3 << 20
    assert ids.high < 3100


@pytest.mark.large
def test_bulk_interning_in_blocks():
    values = np.random.default_rng(0).integers(-(2**60), 2**60, 200_000)
    ids = IdMap("int64")
    nodes = ids.intern(id_column(values))
    assert (ids.find(id_column(values)) == nodes).all()
    text = id_column([str(v) for v in values[:150_000].tolist()])
    names = IdMap("string")
    assert (names.find(text) == -1).all()
    assert (names.intern(text) == names.find(text)).all()


def test_one_type_a_graph():
    with pytest.raises(EventError, match="one type a graph"):
        IdMap("string").intern(id_column([1]))


@pytest.mark.parametrize("kind", ["int64", "string"])
@settings(max_examples=60, deadline=None)
@given(
    batches=st.lists(
        st.lists(st.tuples(st.integers(-9, 30), st.integers(-9, 30), st.booleans()), max_size=40), max_size=8
    )
)
def test_ends_that_are_only_removed_get_no_node(kind, batches):
    """Adds come first: a remove may name what a later add brings."""
    named = (lambda i: i) if kind == "int64" else (lambda i: "x" * (i % 7) + str(i))
    ids, known = IdMap(kind), set()
    for batch in batches:
        if not batch:
            continue
        src, dst = ([named(event[end]) for event in batch] for end in (0, 1))
        op = np.array([1 if event[2] else -1 for event in batch], np.int8)
        both = ids.resolve(id_column(src), id_column(dst), op)
        known |= {name for ends in (src, dst) for name, one in zip(ends, op, strict=True) if one > 0}
        assert len(ids) == len(known)
        for names, nodes in zip((src, dst), both, strict=True):
            assert nodes.tolist() == ids.find(id_column(names)).tolist()
            assert [node >= 0 for node in nodes.tolist()] == [name in known for name in names]
        assert sorted(python_ids(ids.names(ids.given())).tolist()) == sorted(known)


@pytest.mark.parametrize("kind", ["int64", "string"])
def test_nodes_are_given_back_once(kind):
    ids = IdMap(kind)
    nodes = ids.intern(id_column([1, 2, 3] if kind == "int64" else ["a", "b", "c"]))
    ids.release(np.array([nodes[1], nodes[1]], np.int32))
    ids.release(nodes[1:2])
    assert (len(ids), ids.given().tolist()) == (2, [0, 2])
    for odd in (3, -1):
        with pytest.raises(IndexError):
            ids.release(np.array([0, odd], np.int32))
        with pytest.raises(IndexError):
            ids.names(np.array([0, odd + 100], np.int32))
    assert ids.given().tolist() == [0, 2]


def test_columns_of_different_lengths_are_refused():
    one, two = id_column([1]), id_column([1, 2])
    with pytest.raises(ValueError, match="different lengths"):
        IdMap("int64").resolve(one, two, np.ones(2, np.int8))
    with pytest.raises(ValueError, match="different lengths"):
        IdMap("string").resolve(id_column(["a"]), id_column(["a", "b"]), np.ones(1, np.int8))


@pytest.mark.large
def test_loops_have_the_arrays_that_are_used():
    ids = IdMap("string")
    for turn in range(30):
        nodes = ids.intern(id_column([f"{turn} {i} {'y' * 200}" for i in range(600)]))
        ids.release(nodes[1:])
        assert all(mine is used for mine, used in zip(ids.arrays.arrays, used_by(ids), strict=True))
    assert ids._wasted < 1 << 21, "the bytes of ids that left were never given back"


def used_by(ids):
    table = ids._table, ids.keys, ids.hashes, ids._values, ids._lengths, ids._arena
    return *table, ids._free, ids._counts, ids._alive, ids.secret
