"""Reads from shared rows beside a writer: each is what the sequence says that it names."""

import sys
import threading

import numpy as np
import pytest
from tests.live.shared.read_beside import read_beside

import dygcn
from dygcn.engine.graph.ids import IdMap, grown
from dygcn.engine.graph.ticks import Ticks
from dygcn.errors import TrainingWarning
from dygcn.live.shared import RowReader, SharedRows, reading
from dygcn.live.shared.reading import _Pulled, _View
from dygcn.live.shared.sharing import can_share

LIVE = dygcn.fit([(1, 2), (2, 3)], dim=4)
pytestmark = pytest.mark.skipif(not can_share(LIVE._state), reason="needs Linux and compiled loops")


@pytest.mark.parametrize(("kind", "heavy"), [("int64", "2"), ("int64", "inf"), ("string", "4")])
def test_no_read_is_torn_or_of_another_sequence_or_id(kind, heavy, monkeypatch):
    monkeypatch.setenv("DYGCN_HEAVY_FROM", heavy)
    verdict = read_beside(60_000, kind=kind, seed=3)
    assert verdict.reads >= 60_000
    assert len(verdict.sequences) > 50
    assert verdict.asked < verdict.reads
    assert verdict.wrong == 0


def without_a_check():
    _View.latest = lambda self, nodes: 0
    _View.stamps = lambda self, nodes: np.zeros(len(nodes), np.int64)


def with_recycled_rows():
    """Look an id up once, and take its number for its own ever after."""
    known, find_one = {}, IdMap.find_one

    def find_first(self, name):
        node = find_one(self, name)
        return known.setdefault(name, node) if node >= 0 else known.get(name, -1)

    IdMap.find_one = find_first


def with_messages_of_now():
    """Take messages of heavy nodes as they are, not as they were after the change that is asked for."""
    copy = _Pulled.copy
    _Pulled.copy = lambda self, nodes, tick, latest: copy(self, nodes, (1 << 62) - 1, latest)


def with_messages_that_are_kept():
    """Copy what a node pulls once, and never again."""
    copy, known = _Pulled.copy, {}

    def copied_once(self, nodes, tick, latest):
        if known.get(nodes.tobytes()) is self:
            return True
        found = copy(self, nodes, tick, latest)
        known.clear()
        known[nodes.tobytes()] = self
        return found

    _Pulled.copy = copied_once


def with_batches_that_look_at_no_message():
    """Do not read again who pulls a message that moved while others of its batch were read again."""
    copy = _Pulled.copy

    def unnoted(self, nodes, tick, latest):
        return copy(self, nodes, tick, latest if len(nodes) == 1 else np.empty_like(latest))

    _Pulled.copy = unnoted


BUGS = [
    without_a_check,
    with_recycled_rows,
    with_messages_of_now,
    with_messages_that_are_kept,
    with_batches_that_look_at_no_message,
]


@pytest.mark.mutant
@pytest.mark.parametrize("bug", BUGS)
def test_a_seeded_bug_is_noticed(bug, monkeypatch):
    monkeypatch.setenv("DYGCN_HEAVY_FROM", "4")
    assert any(read_beside(60_000, seed=seed, mutate=bug).wrong for seed in range(5))


def pair(live):
    rows = SharedRows(live._state, lambda: live.version)
    return rows, RowReader(rows.handle())


@pytest.mark.parametrize("features", ["walks", "hashed"])
@pytest.mark.parametrize("kind", ["int64", "string"])
def test_a_reader_follows_growth_finer_weights_and_trials(features, kind):
    name = str if kind == "string" else int
    random = np.random.default_rng(5)
    live = dygcn.fit([(name(i), name(i + 1)) for i in range(30)], dim=8, features=features)
    rows, reader = pair(live)
    for size in (40, 400, 4_000):
        for weight in (1.0, 0.5, 2.0**-12):
            a, b = random.integers(0, size, (2, 50))
            add = [(name(x), name(y), weight) for x, y in zip(a, b, strict=True) if x != y]
            live.update(add=add, columns=["src", "dst", "weight"])
            ids = live.ids().tolist()
            sequence, found, vectors, missing = reader.vectors(ids)
            assert (sequence, found, missing) == (live.version, ids, [])
            assert (vectors == live.vectors()).all()
            assert all((reader.vector(one)[1] == live[one]).all() for one in ids[:20])
    with live.what_if(remove=[(ids[0], live.neighbors(ids[0])[0])]):
        assert reader.vector(ids[0]) is None  # being written: the trial is not taken back yet
    assert (reader.vector(ids[0])[1] == live[ids[0]]).all()
    rows.close()


@pytest.fixture
def hub(monkeypatch):
    """Return an embedding with a hub that everybody pulls, its shared rows, and a reader of them."""
    monkeypatch.setenv("DYGCN_HEAVY_FROM", "8")
    live = dygcn.fit([(0, spoke) for spoke in range(1, 60)] + [(100, 101)], dim=8)
    rows, reader = pair(live)
    yield live, reader
    rows.close()


def test_who_pulls_a_hub_is_read_while_the_hub_is_being_written(hub):
    live, reader = hub
    before = live.vectors([5, 6, 101]).copy()
    with live.what_if(add=[(0, 100)]) as trial:
        assert not (trial[5] == before[0]).all()
        assert (reader.vector(5)[1] == before[0]).all()
        sequence, _, vectors, _ = reader.vectors([5, 6])
        assert sequence == live.version
        assert (vectors == before[:2]).all()
        assert reader.vector(100) is None  # written itself
    live.update(add=[(0, 100)])
    assert (reader.vector(5)[1] == live[5]).all()
    assert (reader.vector(5)[1] != before[0]).any()


def test_a_reader_that_is_two_changes_behind_tries_again(hub, monkeypatch):
    live, reader = hub
    ticks = reading.published
    behind = iter([2, 1, 0])

    def late(words, at):
        return ticks(words, at) - (next(behind, 0) if at == reading.sharing.TICK else 0)

    live.update(add=[(0, 100)])
    first = live[5].copy()
    live.update(add=[(0, 101)])
    monkeypatch.setattr(reading, "published", late)
    sequence, vector = reader.vector(5)
    # Two changes behind nobody has the message of the hub any more; one behind it is kept.
    assert sequence == live.version - 1
    assert (vector == first).all()


def read_by_threads(reader, live):
    """Read batches in two threads and single vectors in a third; return how many vectors were wrong."""
    ids, vectors = live.ids().tolist(), live.vectors().copy()
    wrong = []

    def read(seed, size):
        random = np.random.default_rng(seed)
        for _ in range(40):
            at = random.integers(0, len(ids), size)
            found = reader.vectors([ids[one] for one in at])[2]
            wrong.append(int((found != vectors[at]).any(axis=1).sum()))

    threads = [threading.Thread(target=read, args=pair) for pair in ((0, 600), (1, 600), (2, 1))]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return sum(wrong)


def many_who_pull(monkeypatch):
    monkeypatch.setenv("DYGCN_HEAVY_FROM", "8")
    a, b = np.random.default_rng(0).integers(0, 800, (2, 12_000))
    return dygcn.fit([(int(x), int(y)) for x, y in zip(a, b, strict=True) if x != y], dim=16)


def test_one_reader_may_be_used_by_several_threads(monkeypatch):
    live = many_who_pull(monkeypatch)
    rows, reader = pair(live)
    assert read_by_threads(reader, live) == 0
    rows.close()


@pytest.mark.mutant
def test_threads_that_share_what_they_copied_would_be_noticed(monkeypatch):
    live = many_who_pull(monkeypatch)
    shared = type("Shared", (), dict(vars(RowReader)))
    rows = SharedRows(live._state, lambda: live.version)
    assert any(read_by_threads(shared(rows.handle()), live) for _ in range(10))
    rows.close()


def read_while_arrays_of_nodes_are_replaced(heavy, monkeypatch, tmp_path):
    """Let a batch bring a node, for whom arrays grow, and change arcs; read before that is published."""
    monkeypatch.setenv("DYGCN_HEAVY_FROM", heavy)
    random = np.random.default_rng(0)
    edges = [(i, (i + 1) % 60) for i in range(60)] + [(hub, i) for hub in (0, 1) for i in range(3, 30)]
    edges += [(int(a), int(b)) for a, b in random.integers(0, 60, (150, 2)) if a != b]
    dygcn.fit(edges, dim=8).save(tmp_path / "full")  # what was loaded has no place to spare
    live = dygcn.load(tmp_path / "full")
    rows, reader = pair(live)
    ids, wrong = live.ids().tolist(), []
    before, version = live.vectors().copy(), live.version
    assert all((reader.vector(one)[1] == vector).all() for one, vector in zip(ids, before, strict=True))
    publish = live._state.transaction.after

    def look_first():
        for one, vector in zip(ids, before, strict=True):
            found = reader.vector(one)
            wrong.append(found is not None and (found[0] != version or (found[1] != vector).any()))
        publish()

    live._state.transaction.after = look_first
    weight = [1.0, 300.0, 1.0]
    live.update({"src": [5_000, 0, 0], "dst": [2, 3, 4], "op": [1, 1, -1], "weight": weight})
    assert len(wrong) == 60
    rows.close()
    return sum(wrong)


@pytest.mark.parametrize("heavy", ["4", "inf"])
def test_arrays_that_are_replaced_in_a_change_show_nobody_half_of_it(heavy, monkeypatch, tmp_path):
    assert read_while_arrays_of_nodes_are_replaced(heavy, monkeypatch, tmp_path) == 0


@pytest.mark.mutant
def test_old_stamps_that_stay_would_be_noticed(monkeypatch, tmp_path):
    def kept(ticks, nodes, zeros):
        stamps, now = ticks.arrays
        return ticks if zeros is None else Ticks(grown(stamps, nodes, zeros), now)

    for module in ("engine.graph.store", "engine.propagation.sums"):
        monkeypatch.setattr(f"dygcn.{module}.grown_ticks", kept)
    assert read_while_arrays_of_nodes_are_replaced("4", monkeypatch, tmp_path)


@pytest.mark.parametrize("heavy", ["2", "16"])
@pytest.mark.parametrize("directed", [False, True])
def test_a_reader_follows_changes_of_tiers(heavy, directed, monkeypatch):
    monkeypatch.setenv("DYGCN_HEAVY_FROM", heavy)
    random = np.random.default_rng(7)
    live = dygcn.fit([(i, i + 1) for i in range(40)], dim=8, directed=directed)
    rows, reader = pair(live)
    edges = []
    for step in range(150):
        if step % 3 == 2 and len(edges) > 60:  # nodes rise and fall, and many arcs turn
            gone, edges = edges[:50], edges[50:]
            live.update(remove=gone)
        else:
            a, b = (random.power(0.3, (2, 20)) * 60).astype(int)
            add = [(int(x), int(y)) for x, y in zip(a, b, strict=True) if x != y]
            edges += add
            live.update(add=add)
        ids = live.ids().tolist()
        assert (reader.vectors(ids)[2] == live.vectors()).all()
        assert all((reader.vector(one)[1] == live[one]).all() for one in ids[:5])
    rows.close()


def test_what_a_reader_does_not_know_it_leaves_to_the_writer():
    live = dygcn.fit([(1, 2), (2, 3)], dim=4)
    rows, reader = pair(live)
    assert reader.vector(9) is None
    assert reader.vector("1") is None
    assert reader.vectors([1, 9]) is None
    assert reader.vectors([1, "a"]) is None
    assert reader.vectors([]) is None
    live.update(remove_nodes=[1])
    assert reader.vector(1) is None
    assert reader.sequence == live.version
    rows.close()


def test_models_with_stored_features_and_rules_of_the_paper_are_not_shared():
    given = dygcn.fit([(1, 2), (2, 3)], dim=4, features=([1, 2, 3], np.eye(3, 4, dtype=np.float32)))
    assert not can_share(given._state)
    with pytest.warns(TrainingWarning):
        rolling = dygcn.fit([(1, 2), (2, 3)], dim=2, rule="rolling")
    assert not can_share(rolling._state)
    assert can_share(LIVE._state) == sys.platform.startswith("linux")


def returned(folder):
    """Return how readers and the writer see an id that was forgotten and came back."""
    with dygcn.open(folder, dygcn.fit([("ann", "bob"), ("bob", "cat"), ("cat", "dan")], dim=4)) as live:
        rows = SharedRows(live._state, lambda: live.sequence)
        reader = RowReader(rows.handle())
        live.forget("dan")
        assert reader.vector("dan") is None
        live.update(add=[("dan", "zoe"), ("zoe", "ann")])
        vectors = reader.vector("dan")[1], live["dan"]
        rows.close()
    return vectors


def test_a_forgotten_id_that_returns_does_not_get_its_old_row(tmp_path):
    assert np.array_equal(*returned(tmp_path / "x"))


@pytest.mark.mutant
def test_readers_that_keep_rows_of_forgotten_ids_would_be_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(SharedRows, "_share_hashes", lambda self: None)
    assert not np.array_equal(*returned(tmp_path / "x"))
