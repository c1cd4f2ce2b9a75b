import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dygcn.errors import EventError
from dygcn.events import id_column, python_ids
from dygcn.graph.ids import IdMap


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
