"""Rows that are drawn from keys, and rows that are looked up by hashes, against plain Python."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dygcn.engine.events import id_column
from dygcn.engine.features.inputs import Hashed, RowTable, Walks
from dygcn.engine.features.units import hashed_table, row_table, units_of
from dygcn.engine.graph.ids import IdMap
from tests.engine.events.test_keys import MASK, mixed

RANDOM = np.random.default_rng(0)
KEYS = RANDOM.integers(0, 2**64, 40, np.uint64)


def plain_signs(key, seed, width):
    """Column c is bit ``c % 64`` of the key's word ``c // 64``."""
    state = mixed(key ^ seed)
    words = [mixed(state + 0x9E3779B97F4A7C15 * (n + 1) & MASK) for n in range(width // 64 + 1)]
    return [1 if words[c // 64] >> c % 64 & 1 else -1 for c in range(width)]


@pytest.mark.parametrize("width", [1, 2, 7, 8, 9, 63, 64, 65, 100, 128, 130])
@pytest.mark.parametrize("seed", [0, 7, 2**63 + 11, MASK])
def test_hashed_rows_are_the_bits_of_words(width, seed):
    rows, has = units_of(hashed_table(seed, width), KEYS)
    assert rows.tolist() == [plain_signs(key, seed, width) for key in KEYS.tolist()]
    assert (rows.dtype, has.tolist()) == (np.int8, [1] * len(KEYS))


@settings(max_examples=40, deadline=None)
@given(
    hashes=st.lists(st.integers(0, 30), max_size=30),
    wanted=st.lists(st.integers(0, 40), max_size=60),
    apart=st.sampled_from([1, 1 << 32, 0x9E3779B97F4A7C15]),
    width=st.sampled_from([1, 5, 64]),
)
def test_rows_are_found_where_a_dict_has_them(hashes, wanted, apart, width):
    """Of two rows with one hash the first counts."""
    rows = RANDOM.integers(-127, 128, (len(hashes), width)).astype(np.int8)
    rows.flags.writeable = False
    table = row_table(np.array([h * apart & MASK for h in hashes], np.uint64), rows)
    known = dict(reversed(list(zip(hashes, rows.tolist(), strict=True))))
    found, has = units_of(table, np.array([h * apart & MASK for h in wanted], np.uint64))
    assert found.tolist() == [known.get(h, [0] * width) for h in wanted]
    assert has.tolist() == [int(h in known) for h in wanted]


def through_pickle(one):
    return pickle.loads(pickle.dumps(one))  # noqa: S301 - our own bytes


@pytest.mark.parametrize("copied", [copy.deepcopy, through_pickle])
@pytest.mark.parametrize("table", [hashed_table(3, 10), row_table(KEYS[:20], np.ones((20, 10), np.int8))])
def test_a_copy_has_the_same_rows(table, copied):
    for mine, its in zip(units_of(table, KEYS), units_of(copied(table), KEYS), strict=True):
        assert (mine == its).all()


@pytest.mark.parametrize("kind", ["int64", "string"])
def test_features_of_nodes_follow_their_ids(kind):
    """Nodes are recycled, and rows go with the ids."""
    named = (lambda n: n) if kind == "int64" else (lambda n: f"name {n}")
    names, every = IdMap(kind), [named(n) for n in range(100)]
    table = RowTable.of(id_column(every[:50]), RANDOM.normal(size=(50, 9)).astype(np.float32))
    for features in (Hashed(9, 1), Walks(table)):
        before = features.units(names.intern(id_column(every)), names)
        names.release(names.find(id_column(every[10:60])))
        after = features.units(names.intern(id_column(every[::-1])), names)
        for old, new in zip(before, after, strict=True):
            assert (old == new[::-1]).all()
    assert before[1].tolist() == [1] * 50 + [0] * 50
    assert (before[0][:50] == table.rows).all()
    assert not before[0][50:].any()
