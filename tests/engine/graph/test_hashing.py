"""Positions in tables are keyed: crafted ids and pairs of nodes probe no further than ordinary ones."""

import copy
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dygcn.engine.events import id_column, read_events
from dygcn.engine.graph import Graph, apply_batch
from dygcn.engine.graph.hashing import hash_of_bytes, hash_of_pair, hash_of_word, new_secret
from dygcn.engine.graph.ids import IdMap
from dygcn.engine.graph.pairs import PairTable, table_with_capacity
from dygcn_lab.testbed.crafted import (
    fnv_1a,
    ids_of_one_place,
    longest_probe,
    names_of_one_key,
    pairs_of_one_place,
)
from tests.seeded import assert_noticed

MASK = (1 << 64) - 1
MOST = 64  # steps; a table of ordinary ids that is half full has some 20 at most
MOST_OF_PAIRS = 300  # these tables are up to two thirds full


def siphash(data, secret):
    return hash_of_bytes(data, 0, len(data), *secret.tolist())


def siphash_of_word(value, secret):
    return hash_of_word(value, *secret.tolist())


def plain_siphash(data, key, rounds, last_rounds):
    """SipHash as its authors wrote it down, one byte after the other."""

    def turned(x, bits):
        return (x << bits | x >> 64 - bits) & MASK

    def sip_rounds(v, times):
        v0, v1, v2, v3 = v
        for _ in range(times):
            v0, v2 = (v0 + v1) & MASK, (v2 + v3) & MASK
            v1, v3 = turned(v1, 13) ^ v0, turned(v3, 16) ^ v2
            v0 = turned(v0, 32)
            v2, v0 = (v2 + v1) & MASK, (v0 + v3) & MASK
            v1, v3 = turned(v1, 17) ^ v2, turned(v3, 21) ^ v0
            v2 = turned(v2, 32)
        return v0, v1, v2, v3

    k0, k1 = (int.from_bytes(key[i : i + 8], "little") for i in (0, 8))
    v = tuple(
        k ^ int.from_bytes(c, "big")
        for k, c in zip((k0, k1) * 2, (b"somepseu", b"dorandom", b"lygenera", b"tedbytes"), strict=True)
    )
    padded = data + bytes(-(len(data) + 1) % 8) + bytes([len(data) & 255])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v = sip_rounds((*v[:3], v[3] ^ word), rounds)
        v = (v[0] ^ word, *v[1:])
    v = sip_rounds((v[0], v[1], v[2] ^ 255, v[3]), last_rounds)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def as_array(data):
    return np.frombuffer(data, np.uint8)


def test_the_plain_siphash_gives_the_number_of_its_paper():
    assert plain_siphash(bytes(range(15)), bytes(range(16)), 2, 4) == 0xA129CA6149BE45E5


@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=60), key=st.binary(min_size=16, max_size=16))
def test_the_compiled_siphash_is_the_plain_one(data, key):
    secret = np.frombuffer(key, np.uint64)
    assert int(siphash(as_array(data), secret)) == plain_siphash(data, key, 1, 3)


@settings(max_examples=100, deadline=None)
@given(value=st.integers(-(2**63), 2**63 - 1), key=st.binary(min_size=16, max_size=16))
def test_a_word_is_hashed_as_its_eight_bytes(value, key):
    secret = np.frombuffer(key, np.uint64)
    data = as_array(np.int64(value).tobytes())
    assert siphash_of_word(value, secret) == siphash(data, secret)


@pytest.mark.skipif(sys.hash_info.algorithm != "siphash13", reason="this Python hashes bytes in another way")
def test_the_compiled_siphash_is_that_of_python_itself():
    """With PYTHONHASHSEED=0 Python's own secret is zero."""
    said = subprocess.run(
        [sys.executable, "-c", "print([hash(bytes(range(n))) for n in range(1, 100)])"],
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    known = [int(number) & MASK for number in said.strip("[]\n").split(",")]
    zero = np.zeros(2, np.uint64)
    assert [int(siphash(as_array(bytes(range(n))), zero)) for n in range(1, 100)] == known


def test_secrets_differ():
    assert len({new_secret().tobytes() for _ in range(50)}) == 50
    assert (IdMap("int64").secret != IdMap("int64").secret).any()


# ---- ids ---------------------------------------------------------------------------------------------


def through_pickle(one):
    return pickle.loads(pickle.dumps(one))  # noqa: S301 - our own bytes


def crafted(kind, count=3000):
    return ids_of_one_place(count) if kind == "int64" else names_of_one_key(count)


def test_crafted_strings_have_one_public_key():
    ids = IdMap("string")
    ids.intern(id_column(names_of_one_key(2000)))
    assert len(set(ids.keys[:2000].tolist())) == 1
    assert fnv_1a(b"a") == 0xAF63DC4C8601EC8C


@pytest.mark.parametrize("kind", ["int64", "string"])
def test_crafted_ids_probe_no_further_than_others(kind):
    names = crafted(kind)
    ids = IdMap(kind)
    nodes = ids.intern(id_column(names))
    assert longest_probe(ids) <= MOST
    assert (ids.find(id_column(names)) == nodes).all()
    ids.release(nodes[::2])
    assert longest_probe(ids) <= MOST
    assert (ids.find(id_column(names))[::2] == -1).all()
    assert (ids.find(id_column(names))[1::2] == nodes[1::2]).all()
    assert ids.find_one(names[1]) == nodes[1]


@pytest.mark.parametrize("kind", ["int64", "string"])
@pytest.mark.parametrize("copied", [copy.deepcopy, through_pickle])
def test_a_copy_finds_what_the_original_holds(kind, copied):
    names = crafted(kind, 500)
    ids = IdMap(kind)
    nodes = ids.intern(id_column(names))
    other = copied(ids)
    ids.release(nodes)
    assert (other.find(id_column(names)) == nodes).all()
    other.release(nodes[:100])
    assert other.intern(id_column(names)).tolist()[100:] == nodes.tolist()[100:]
    assert len(ids) == 0


def test_ids_of_resolved_events_are_where_find_looks_for_them():
    names = np.array(crafted("int64", 2000))
    ids = IdMap("int64")
    src, dst = id_column(names[:1000]), id_column(names[1000:])
    a, b = ids.resolve(src, dst, np.ones(1000, np.int8))
    assert (ids.find(src) == a).all()
    assert (ids.find(dst) == b).all()
    assert longest_probe(ids) <= MOST


UNKEYED = "from dygcn.engine.events.keys import mix\nreturn mix({})"
UNKEYED_BYTES = """\
from dygcn.engine.events.keys import key_of_string
return key_of_string(data, start, start + size)"""


def probe_ids(kind):
    ids = IdMap(kind)
    ids.intern(id_column(crafted(kind, 800)))
    assert longest_probe(ids) <= 10 * MOST


@pytest.mark.parametrize(
    ("kind", "line", "wrong"),
    [
        ("int64", "k0, k1, text = word(first), word(second), word(value)", UNKEYED.format("word(value)")),
        ("string", "whole = size // 8", UNKEYED_BYTES),
    ],
)
def test_an_unkeyed_table_would_be_noticed(tmp_path, kind, line, wrong):
    assert_noticed(tmp_path, "dygcn.engine.graph.hashing", line, wrong, probe_ids, kind)


# ---- pairs of nodes --------------------------------------------------------------------------------


def pair_families():
    """Pairs that a sender of events can choose: nodes are numbered as they come."""
    n = np.arange(4000)
    yield "crafted", *pairs_of_one_place(4096, 12).T[:, :4000]
    yield "a star", np.zeros_like(n), n + 1
    yield "a star the other way", n, np.full_like(n, 4001)
    yield "a path", n, n + 1
    yield "a grid", n % 63, 64 + n // 63
    yield "alike", n, n
    for shift in (4, 8, 12, 16):
        yield f"steps of 2^{shift}", n << shift >> 1, (n << shift) + 1
        yield f"one end in steps of 2^{shift}", np.zeros_like(n), n << shift


def longest_pair_probe(a, b):
    loose = PairTable(a << 32 | b, np.arange(len(a), dtype=np.int32), np.array([len(a), 0, 0]))
    table = table_with_capacity(loose, 0)
    keys, _, used = table.arrays
    assert len(table) == len(a)
    secret = used[1:].view(np.uint64).tolist()
    at = np.flatnonzero(keys >= 0)
    home = [hash_of_pair(key, *secret) & (len(keys) - 1) for key in keys[at].tolist()]
    return int(((at - np.array(home)) & (len(keys) - 1)).max())


@pytest.mark.large
@pytest.mark.parametrize(("name", "a", "b"), [pytest.param(*one, id=one[0]) for one in pair_families()])
def test_chosen_pairs_probe_no_further_than_others(name, a, b):
    for _ in range(5):
        assert longest_pair_probe(a, b) <= MOST_OF_PAIRS


def probe_crafted_pairs():
    _, a, b = next(pair_families())
    assert longest_pair_probe(a, b) <= 3 * MOST_OF_PAIRS


def test_an_unkeyed_table_of_pairs_would_be_noticed(tmp_path):
    line = "return folded(folded(word(key) ^ k0, k1) ^ k1, k0)"
    wrong = UNKEYED.format("word(key)")
    assert_noticed(tmp_path, "dygcn.engine.graph.hashing", line, wrong, probe_crafted_pairs)


def test_copies_of_graphs_with_hubs_and_ghosts_go_on():
    graph = Graph("int64", half_life=10.0)
    apply_batch(graph, read_events([(0, spoke, 1.0, 1) for spoke in range(1, 200)]))
    apply_batch(graph, read_events([(0, spoke, 2.0, -1) for spoke in range(1, 50)]))
    for other in (copy.deepcopy(graph), through_pickle(graph)):
        assert len(other.memory) == 49
        apply_batch(other, read_events([(0, spoke, 3.0, 1) for spoke in range(1, 50)]))
        assert len(other.memory) == 0
        assert other.edge_count == 199
