"""Vectors by id: the bits of `LiveEmbedding.vectors`, one at a time, kept until they move."""

import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

import dygcn
from dygcn.engine.events import id_column
from dygcn.engine.features.inputs import RowTable
from dygcn.engine.graph import Graph
from dygcn.engine.graph.ids import IdMap
from dygcn.engine.models.model import Model
from dygcn.engine.models.readout import Readout, read_vectors
from dygcn.engine.models.state import State
from dygcn.engine.training import Recipe
from dygcn.errors import OptionError, UnknownNode
from dygcn.live.changed import ChangeRecord
from dygcn.live.finding import find_nodes
from dygcn.live.search.nearest import VectorCache
from dygcn.paper import RollingSpec
from tests.seeded import assert_noticed

WIDTH, DIM = 6, 5
numbers = st.integers(0, 20)
edges = st.lists(st.tuples(numbers, numbers), min_size=1, max_size=8)


def matrices(width, dim, count=3, seed=0):
    random = np.random.default_rng(seed)
    return tuple(random.standard_normal((width, dim)).astype(np.float32) for _ in range(count))


def hashed(kind="int64", **options):
    return dygcn.start(Model(matrices(WIDTH, DIM), kind, "hashed", np.ones(WIDTH), **options))


def given_some():
    return dygcn.start(Model(matrices(WIDTH, DIM), "int64", "given", np.ones(WIDTH)))


def rolled():
    weights = tuple(0.4 * matrix for matrix in matrices(DIM, DIM))
    live = dygcn.start(Model(weights, "int64", "none", np.ones(DIM), spec=RollingSpec()))
    live.restart(dygcn.Embedding(list(range(9)), np.abs(matrices(9, DIM, 1)[0])))
    return live


def kept_fresh():
    base = dygcn.Embedding(list(range(12)), matrices(12, DIM, 1)[0])
    return dygcn.fit([(i, (i * 5 + 1) % 14) for i in range(12)], features=base, recipe=Recipe(rounds=2))


def same_bits(a, b):
    return a.dtype == b.dtype == np.float32 and a.shape == b.shape and a.tobytes() == b.tobytes()


class Reader:
    """Reads by ids what an embedding keeps, as the service does."""

    def __init__(self, live):
        self.live, self.cache = live, live._cached()

    def vector(self, name):
        node = self.live._state.graph.find_one(name)
        return self.cache.one(node) if node >= 0 else None

    def vectors(self, ids):
        return self.cache.refresh(find_nodes(self.live._state, ids))[0]


# ---- whatever happens ----------------------------------------------------------------------------------


class Reading(RuleBasedStateMachine):
    """Updates, removals and reads in any order; vectors that were given away may be overwritten."""

    start = staticmethod(hashed)

    def __init__(self):
        super().__init__()
        self.live = self.start()
        self.reader = Reader(self.live)

    def named(self, number):
        return number if self.live.model.ids == "int64" else f"n{number}"

    @rule(add=edges, remove=edges)
    def update(self, add, remove):
        pairs = [[(self.named(a), self.named(b)) for a, b in some] for some in (add, remove)]
        self.live.update(add=pairs[0], remove=pairs[1])

    @rule(number=numbers, new=st.integers(100, 120), other=numbers)
    def one_takes_the_number_of_another(self, number, new, other):
        self.live.update(remove_nodes=[self.named(number)])
        self.live.update(add=[(self.named(new), self.named(other))])

    @rule(number=numbers)
    def read_one_and_spoil_it(self, number):
        name = self.named(number)
        row = self.reader.vector(name)
        assert (row is not None) == (name in self.live)
        if row is not None:
            assert same_bits(row, self.live.vectors([name])[0])
            row[:] = np.nan

    @rule(share=st.floats(0, 1))
    def read_many_and_spoil_them(self, share):
        ids = self.live.ids()[: int(share * len(self.live))]
        rows = self.reader.vectors(ids)
        assert same_bits(rows, self.live.vectors(ids))
        rows[:] = np.nan

    @invariant()
    def everyone_is_found(self):
        for name in self.live.ids().tolist():
            assert same_bits(self.reader.vector(name), self.live.vectors([name])[0])
        for number in range(130):
            assert (self.reader.vector(self.named(number)) is None) == (self.named(number) not in self.live)


class ReadingStrings(Reading):
    start = staticmethod(lambda: hashed("string"))


class ReadingDirected(Reading):
    start = staticmethod(lambda: hashed(directed=True))


class ReadingGiven(Reading):
    start = staticmethod(given_some)

    @rule(number=numbers, scale=st.sampled_from([0.0, 0.5]))
    def describe(self, number, scale):
        self.live.set_features([number], np.full((1, WIDTH), scale, np.float32))


class ReadingRolled(Reading):
    start = staticmethod(rolled)

    @rule(seed=st.integers(0, 99))
    def restart(self, seed):
        base = dygcn.Embedding(list(range(7)), matrices(7, DIM, 1, seed)[0])
        self.live.restart(base)


class ReadingKeptFresh(Reading):
    start = staticmethod(kept_fresh)


MACHINES = [Reading, ReadingStrings, ReadingDirected, ReadingGiven, ReadingRolled, ReadingKeptFresh]


@pytest.mark.parametrize("machine", MACHINES)
def test_what_is_read_has_the_bits_of_the_embedding(machine):
    examples = settings(
        max_examples=15, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
    )
    run_state_machine_as_test(machine, settings=examples)


def changes_are_ignored(monkeypatch):
    monkeypatch.setattr(ChangeRecord, "note", lambda self, nodes, heavy, turned: None)


def the_first_of_what_moved_is_not_written_down(monkeypatch):
    whole = ChangeRecord.note
    monkeypatch.setattr(
        ChangeRecord, "note", lambda self, nodes, heavy, turned: whole(self, nodes[1:], heavy, turned)
    )


def what_is_kept_is_given_away(monkeypatch):
    def one(self, node):
        self.refresh(np.array([node], np.int32))
        return self._vectors[node]

    monkeypatch.setattr(VectorCache, "one", one)


def hunt():
    enough = settings(
        max_examples=60,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
        derandomize=True,
        database=None,
        print_blob=False,
        report_multiple_bugs=False,
    )
    run_state_machine_as_test(Reading, settings=enough)


MUTANTS = [
    changes_are_ignored,
    the_first_of_what_moved_is_not_written_down,
    what_is_kept_is_given_away,
]


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_seeded_bug_would_be_noticed(mutant, monkeypatch):
    mutant(monkeypatch)
    with pytest.raises((AssertionError, UnknownNode, Flaky, pytest.fail.Exception)):
        hunt()


def test_ids_that_are_found_by_their_hash_alone_would_be_noticed(tmp_path):
    """The mutant: the place where an id would stand is taken for the place where it stands."""
    line = "return int(_find_int(ids, value))"
    wrong = "return int(ids.table[_hash_int(ids, value) & (len(ids.table) - 1)])"
    assert_noticed(tmp_path, "dygcn.engine.graph.ids_kernels", line, wrong, hunt)


# ---- one id --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["int64", "string"])
@settings(max_examples=60, deadline=None)
@given(steps=st.lists(st.tuples(st.booleans(), st.lists(st.integers(-20, 40), max_size=30)), max_size=12))
def test_one_id_is_found_where_many_are(kind, steps):
    named = (lambda i: i) if kind == "int64" else (lambda i: "é" * (i % 4) + "x" * (i % 7) + str(i))
    ids = IdMap(kind)
    every = [named(i) for i in range(-21, 42)]
    for forget, some in steps:
        if some and forget:
            nodes = ids.find(id_column([named(i) for i in some]))
            ids.release(np.unique(nodes[nodes >= 0]))
        elif some:
            ids.intern(id_column([named(i) for i in some]))
        assert [ids.find_one(name) for name in every] == ids.find(id_column(every)).tolist()


def test_one_id_is_found_after_the_bytes_of_others_were_given_back():
    ids = IdMap("string")
    for turn in range(30):
        column = id_column([f"turn {turn} node {i} {'y' * 60}" for i in range(2000)])
        nodes = ids.intern(column)
        ids.release(nodes[1:])
        assert ids.find_one(f"turn {turn} node 0 {'y' * 60}") == nodes[0]
        assert ids.find_one(f"turn {turn} node 1 {'y' * 60}") == -1


@pytest.mark.parametrize("kind", ["int64", "string"])
def test_what_cannot_be_an_id_is_not_found(kind):
    live = hashed(kind)
    live.update(add=[(1, 0), (2**63 - 1, -(2**63))] if kind == "int64" else [("1", ""), ("ab", "ü")])
    reader = Reader(live)
    odd = [1, 0, True, False, 1.0, 2**63 - 1, -(2**63), 2**63, -(2**63) - 1, 10**30, None, b"1", [1], (1,)]
    odd += [
        "1",
        "",
        "ab",
        "ü",
        "\ud800",
        "x" * 300,
        np.int8(1),
        np.uint64(2**63),
        np.float32(1),
        np.str_("1"),
    ]
    odd += [np.bool_(True), np.array(1), np.array([1]), {1: 2}]
    for name in odd:
        if isinstance(name, np.ndarray):
            assert reader.vector(name) is None
            continue
        found = reader.vector(name)
        assert (found is not None) == (name in live), name
        if found is not None:
            assert same_bits(found, live.vectors([name])[0])


def test_a_node_without_an_edge_is_not_found_though_its_id_is_known():
    graph = Graph("int64")
    graph.intern(id_column([7]))
    assert graph.ids.find_one(7) == 0
    assert graph.find_one(7) == -1 == graph.find(id_column([7]))[0]


def test_many_ids_are_read_as_the_embedding_reads_them():
    live = hashed()
    live.update(add=[(1, 2), (2, 3)])
    reader = Reader(live)
    for ids in ([3, 1, 3], np.array([2, 1]), (1,), [], live.ids()):
        assert same_bits(reader.vectors(ids), live.vectors(ids))
    for ids in ([1, 9, 8], ["a"], [1.5], [[1]]):
        with pytest.raises(UnknownNode) as here:
            reader.vectors(ids)
        with pytest.raises(UnknownNode) as there:
            live.vectors(ids)
        if ids == [1, 9, 8]:
            assert str(here.value) == str(there.value)
    with pytest.raises(OptionError, match="one id; pass a list"):
        reader.vectors("1")


def test_two_may_read_what_moved():
    live = hashed()
    live.update(add=[(1, 2), (2, 3)])
    one, other = (
        VectorCache(live._state, live._change_record()),
        VectorCache(live._state, live._change_record()),
    )
    node = live._state.graph.find_one(1)
    assert same_bits(one.one(node), other.one(node))
    live.update(add=[(1, 3)])
    assert same_bits(one.one(node), live[1])
    assert same_bits(other.one(node), live[1])


def test_lengths_are_kept_for_vectors_that_were_read_alone():
    live = hashed()
    live.update(add=[(1, 2), (2, 3)])
    cache, plain = (VectorCache(live._state, live._change_record()) for _ in range(2))
    nodes = live._state.graph.nodes()
    for node in nodes.tolist():
        cache.one(node)
    for mine, theirs in zip(cache.refresh(nodes), plain.refresh(nodes), strict=True):
        assert (mine == theirs).all()


def test_a_fresh_base_may_bring_another_model():
    live = rolled()
    reader = Reader(live)
    reader.vector(1)
    live._state.model = Model(**vars(live.model))
    live._change_record().append(live._state.graph.nodes(), live.version)
    assert same_bits(reader.vector(1), live[1])


# ---- how a vector is summed --------------------------------------------------------------------------


def summed_by_hand(state, nodes):
    """One column of the input after the other, in float32: what the readout promises."""
    model = state.model
    out = np.zeros((len(nodes), model.dim), np.float32)
    for order, matrix in enumerate(model.weights):
        rows, _ = state.rule.messages(state.graph, nodes, order)
        for i, row in enumerate(rows * (model.scales * 2.0**-24)):
            square = 0.0
            for value in row.tolist():
                square += value * value
            unit = (row * (1.0 / max(np.sqrt(square), model.floor))).astype(np.float32)
            for column, value in enumerate(unit):
                out[i] += value * matrix[column]
    return out


@pytest.mark.parametrize("width", [1, 3, 8, 11, 64])
@pytest.mark.parametrize("dim", [7, 16, 37, 150])
@pytest.mark.parametrize("features", ["hashed", "given"])
def test_a_vector_is_summed_in_one_order(width, dim, features):
    """Alone, among few, among many; for dimensions that are whole tiles of registers, and not."""
    random = np.random.default_rng(width)
    scales = 2.0 ** random.integers(-2, 3, width) if features == "given" else np.ones(width)
    live = dygcn.start(Model(matrices(width, dim, seed=width), "int64", features, scales))
    live.update(add=random.integers(0, 40, (90, 2)).tolist())
    if features == "given":
        live.set_features(range(0, 40, 2), (scales * random.uniform(-2, 2, (20, width))).astype(np.float32))
    nodes = live._state.graph.nodes()
    expected = summed_by_hand(live._state, nodes)
    assert same_bits(live._vectors_of(nodes), expected)
    for start in range(len(nodes)):
        assert same_bits(live._vectors_of(nodes[start : start + 1]), expected[start : start + 1])
        assert same_bits(live._vectors_of(nodes[start : start + 3]), expected[start : start + 3])


@pytest.mark.parametrize("width", [1, 5, 32, 70])
def test_a_vector_of_a_walk_model_is_summed_in_one_order(width):
    """Squares of messages are whole numbers; those of the sum are added in order."""
    random = np.random.default_rng(width)
    rows = RowTable(id_column(list(range(30))), random.integers(-127, 128, (30, width)).astype(np.int8), 1.0)
    weights = tuple(np.full((1, 1), weight, np.float32) for weight in (1.0, 0.7, -0.3))
    live = dygcn.start(Model(weights, "int64", "walks", np.ones(width), table=rows))
    live.update(add=random.integers(0, 200, (300, 2)).tolist())
    nodes, rule, graph = live._state.graph.nodes(), live._state.rule, live._state.graph
    total = np.zeros((len(nodes), width))
    for order, weight in enumerate(weights):
        rows = (
            rule.features.units(nodes, graph.ids)[0] if order == 0 else rule.messages(graph, nodes, order)[0]
        )
        lengths = np.sqrt((rows.astype(np.int64) ** 2).sum(axis=1).astype(float))
        floor = 1e-6 * (2.0**24 if order else 2.0**7)
        total += rows * (float(weight[0, 0]) / np.maximum(lengths, floor))[:, None]
    expected = np.zeros((len(nodes), width), np.float32)
    for row, out in zip(total, expected, strict=True):
        square = 0.0
        for value in row.tolist():
            square += value * value
        if square > 0:
            out[:] = row * (1.0 / np.sqrt(square))
    found = live._vectors_of(nodes)
    reached = expected.any(axis=1)
    assert reached.sum() > 100
    assert same_bits(found[reached], expected[reached])
    assert (np.abs(found[~reached]) == np.float32(1) / np.float32(np.sqrt(width))).all()
    for start in range(len(nodes)):
        assert same_bits(live._vectors_of(nodes[start : start + 1]), found[start : start + 1])


def test_another_order_of_summation_would_be_noticed(tmp_path):
    """By BLAS: faster, and other bits."""
    line = "for column in range(len(weights)):"
    wrong = f"out[first : first + n] += inputs[:n] @ weights\n{line}\n    break"
    assert_noticed(
        tmp_path, "dygcn.engine._rows", line, wrong, test_a_vector_is_summed_in_one_order, 64, 7, "hashed"
    )


def test_a_readout_may_be_kept():
    state = State(Model(matrices(WIDTH, DIM), "int64", "hashed", np.ones(WIDTH)))
    readout = Readout(state.model, state.exact, state.graph)
    for batch in ([(1, 2)], [(2, 3), (3, 4)], [(n, n + 1) for n in range(3000)]):
        state.apply(dygcn.engine.events.read_events(batch))
        nodes = state.graph.nodes()
        assert same_bits(readout.vectors(nodes), read_vectors(state.model, state.rule, state.graph, nodes))


# ---- what it costs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["int64", "string"])
def test_one_vector_is_read_in_a_few_calls(kind):
    """However large the graph: on a quiet machine 2 us where nothing moved, and 20 where it did."""
    random = np.random.default_rng(0)
    live = dygcn.start(Model(matrices(256, 128), kind, "hashed", np.ones(256)))
    pairs = random.integers(0, 3000, (9000, 2))
    live.bulk([{"src": pairs[:, 0], "dst": pairs[:, 1]} if kind == "int64" else pairs.astype(str).tolist()])
    name = 7 if kind == "int64" else "7"
    reader = Reader(live)
    node, cache = live._state.graph.find_one(name), live._cached()

    def calls():
        seen = []
        sys.setprofile(lambda frame, event, arg: seen.append(event))
        try:
            reader.vector(name)
        finally:
            sys.setprofile(None)
        return seen.count("call") + seen.count("c_call")

    def moved():
        cache._read_at[node] = -1  # as if it had moved since, without what the record costs
        return calls()

    reader.vector(name)
    assert calls() < 20
    assert moved() < 60
