"""Reads from shared rows beside a writer: each is what the sequence says that it names."""

import sys

import numpy as np
import pytest
from tests.live.shared.read_beside import read_beside

import dygcn
from dygcn.engine.graph.ids import IdMap
from dygcn.errors import TrainingWarning
from dygcn.live.shared import RowReader, SharedRows
from dygcn.live.shared.reading import _View
from dygcn.live.shared.sharing import can_share

LIVE = dygcn.fit([(1, 2), (2, 3)], dim=4)
pytestmark = pytest.mark.skipif(not can_share(LIVE.state), reason="needs Linux and compiled loops")


@pytest.mark.parametrize("kind", ["int64", "string"])
def test_no_read_is_torn_or_of_another_sequence_or_id(kind):
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


@pytest.mark.mutant
@pytest.mark.parametrize("bug", [without_a_check, with_recycled_rows])
def test_a_seeded_bug_is_noticed(bug):
    assert any(read_beside(60_000, seed=seed, mutate=bug).wrong for seed in range(5))


def pair(live):
    rows = SharedRows(live.state, lambda: live.version)
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


def test_what_a_reader_does_not_know_it_leaves_to_the_writer():
    live = dygcn.fit([(1, 2), (2, 3)], dim=4)
    rows, reader = pair(live)
    assert reader.vector(9) is None
    assert reader.vector("1") is None
    assert reader.vectors([1, 9]) is None
    assert reader.vectors([1, "a"]) is None
    assert reader.vectors([]) is None
    live.remove_nodes([1])
    assert reader.vector(1) is None
    assert reader.sequence == live.version
    rows.close()


def test_models_with_stored_features_and_rules_of_the_paper_are_not_shared():
    given = dygcn.fit([(1, 2), (2, 3)], dim=4, features=([1, 2, 3], np.eye(3, 4, dtype=np.float32)))
    assert not can_share(given.state)
    with pytest.warns(TrainingWarning):
        rolling = dygcn.fit([(1, 2), (2, 3)], dim=2, rule="rolling")
    assert not can_share(rolling.state)
    assert can_share(LIVE.state) == sys.platform.startswith("linux")


def returned(folder):
    """Return how readers and the writer see an id that was forgotten and came back."""
    with dygcn.open(folder, dygcn.fit([("ann", "bob"), ("bob", "cat"), ("cat", "dan")], dim=4)) as live:
        rows = SharedRows(live.state, lambda: live.sequence)
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
