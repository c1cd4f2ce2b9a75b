"""An embedding on shards is an embedding: the same digest, the same answers, through every restart."""

import numpy as np
import pytest

import dygcn
from dygcn import cluster
from dygcn.cluster.embedding import read_cluster_file, shards_needed, write_cluster_file
from dygcn.cluster.front import FrontState
from dygcn.cluster.logged_entries import LoggedEntries, ShardLog
from dygcn.cluster.messages import Events, Move, Remove, Resize
from dygcn.engine.events import read_events
from dygcn.engine.events.wire import decode_events
from dygcn.errors import EventError, FeatureError, FolderError, MissingFolder, OptionError
from dygcn.live.durable.source_batch import SourceBatch
from dygcn.live.durable.storage.layout import LOG_FILE


def begin(folder, *, memory=None, **how):
    random = np.random.default_rng(1)
    events = {
        "src": random.integers(0, 60, 300),
        "dst": random.integers(0, 60, 300),
        "t": np.sort(random.random(300)),
    }
    live = dygcn.fit(events, dim=8, memory=memory, **how)
    live.save(folder)
    return live


def pair(folder, shards=3, **how):
    return begin(folder, **how), cluster.launch(folder, shards, on="here", batches=5)


def step(random, one, other, i):
    add, remove = (random.integers(0, 70, (8, 2)).tolist() for _ in range(2))
    done = [
        each.update(add=add, remove=remove, now=1.0 + i, **more)
        for each, more in ((one, {}), (other, {"stream": "s", "offset": i}))
    ]
    for name in ("unchanged", "missing", "loops"):
        assert getattr(done[0], name) == getattr(done[1], name)
    assert sorted(done[0].left) == sorted(done[1].left)
    moved = [sorted(zip(each.ids.tolist(), each.orders.tolist(), strict=True)) for each in done]
    assert moved[0] == moved[1]


@pytest.mark.parametrize(("shards", "memory"), [(1, 2.0), (2, None), (4, 2.0)])
def test_it_is_one_process_through_growth_removal_and_restarts(tmp_path, shards, memory):
    random = np.random.default_rng(shards)
    one, other = pair(tmp_path / "x", shards, memory=memory)
    for i in range(18):
        step(random, one, other, i)
        if i in (6, 12):
            other.resize({6: 5, 12: 2}[i])
            assert other.shards == {6: 5, 12: 2}[i]
        if i == 9:
            for each in (one, other):
                assert each.update(remove_nodes=[1, 2, 3, 999]).missing == 1
        if i in (8, 16):
            (other.close if i == 8 else other._let_go)()
            other = cluster.launch(tmp_path / "x", on="here", batches=5)
            assert other.streams == {"s": i}
        assert other.digest() == one.digest()
    some = one.ids().tolist()[:3]
    assert other.nearest(some, k=4) == one.nearest(some, k=4)
    assert other.recommend(some[0], k=4) == one.recommend(some[0], k=4)
    assert other.edges().equals(one.edges())
    np.testing.assert_array_equal(other.vectors(), one.vectors())
    assert other._read_straight(some[0])[0] == other.sequence
    other.save(tmp_path / "copy")
    assert dygcn.load(tmp_path / "copy").digest() == one.digest()
    other.close()


def test_events_of_a_place_are_applied_once(tmp_path):
    _, live = pair(tmp_path / "x")
    live.update(add=[(1, 500)], stream="s", offset=3)
    before = live.digest()
    assert len(live.update(add=[(1, 501)], stream="s", offset=3)) == 0
    assert live.digest() == before
    live.close()


def test_a_shard_that_died_comes_back_by_itself(tmp_path):
    one, other = pair(tmp_path / "x")
    random = np.random.default_rng(3)
    shards = other._front.queries.processes
    for i in range(12):
        batch = random.integers(0, 70, (8, 2)).tolist()
        one.update(add=batch)
        assert set(one.ids()) == set(other.update(add=batch)._live.ids())
        shards.restart(i % 3)
    assert other.digest() == one.digest()
    other.close()


def test_what_shards_refuse_and_why(tmp_path):
    _, live = pair(tmp_path / "x", 2)
    before = live.digest(), live.sequence
    for refused in (
        lambda: live.publish(tolerance=0.1),
        lambda: live.set_features([1], np.zeros((1, 8))),
        lambda: live.what_if(add=[(1, 2)]).__enter__(),
        lambda: live.explain_change(1, add=[(1, 2)]),
        live.refit,
    ):
        with pytest.raises(FeatureError, match=r"shards|rows follow"):
            refused()
    for count in (0, 1.5, 5000):
        with pytest.raises(OptionError, match="shards is"):
            live.resize(count)
    assert (live.digest(), live.sequence) == before
    live.update(add=[(1, 777)])
    assert 777 in live
    live.close()
    with pytest.raises(FolderError, match="divided among shards"):
        dygcn.open(tmp_path / "x")
    with pytest.raises(FolderError, match="divided among shards"):
        dygcn.open(tmp_path / "x", as_of=0)
    with pytest.raises(OptionError, match="snapshots of"):
        cluster.launch(tmp_path / "x", on="here", snapshots="memory://elsewhere")
    with pytest.raises(OptionError, match="allowed are 'ray' and 'here'"):
        cluster.launch(tmp_path / "x", on="there")
    with pytest.raises(MissingFolder, match="does not exist"):
        cluster.launch(tmp_path / "y", on="here")


def test_ids_are_forgotten_in_a_folder_for_one_process_that_goes_on(tmp_path):
    begin(tmp_path / "a")
    with cluster.launch(tmp_path / "a", 2, on="here") as live:
        live.update(add=[(1, 777), (777, 2)], stream="clicks", offset=3)
        with pytest.raises(FeatureError, match="not forgotten on shards"):
            live.forget(777)
        found = decode_events(b'[{"op": "forget", "id": 777}, {"src": 1, "dst": 9}]', "json", "int64")
        part = SourceBatch(found.batch, "clicks", 4, rows=found.rows, forgets=found.forgets)
        (receipt,) = live._ingest([part])
        assert (receipt.applied, receipt.dead) == (1, 1)
        with dygcn.open(tmp_path / "b", live, after=live) as one:
            one.forget(777)
            assert one.streams == {"clicks": 4}
    with cluster.launch(tmp_path / "b", 2, on="here") as again:
        assert 777 not in again
        again._ingest([SourceBatch(read_events([(777, 1)]), "clicks", 3)])
        assert 777 not in again
        again._ingest([SourceBatch(read_events([(777, 1)]), "clicks", 5)])
        assert 777 in again


def test_a_weight_that_is_not_whole_never_comes_to_the_log(tmp_path):
    one, other = pair(tmp_path / "x", 2, whole_weights=True)
    before = other.sequence
    for each in (one, other):
        with pytest.raises(EventError, match="whole"):
            each.update({"src": [1], "dst": [500], "weight": [1.5], "t": [2.0]})
        each.update({"src": [1], "dst": [500], "weight": [3.0], "t": [2.0]})
    assert other.sequence == before + 1
    assert other.digest() == one.digest()
    other.close()


@pytest.mark.parametrize("how", [{"orders": 3}, {"rule": "rolling"}])
def test_a_model_that_shards_do_not_take_leaves_the_folder_as_it_was(tmp_path, how):
    if "rule" in how:
        pytest.importorskip("torch")
    begin(tmp_path / "x", **how)
    with pytest.raises((FeatureError, OptionError)):
        cluster.launch(tmp_path / "x", 2, on="here")
    dygcn.open(tmp_path / "x").close()


def test_snapshots_lie_where_fsspec_says(tmp_path):
    begin(tmp_path / "x")
    live = cluster.launch(tmp_path / "x", 2, on="here", snapshots="memory://test-shards", batches=2)
    for i in range(5):
        live.update(add=[(i, 900 + i)])
    before = live.digest()
    live.close()
    again = cluster.launch(tmp_path / "x", on="here")
    assert again.digest() == before
    assert not (tmp_path / "x" / "shards").exists()
    again.close()


def test_the_log_keeps_what_a_shard_needs(tmp_path):
    begin(tmp_path / "x")
    live = cluster.launch(tmp_path / "x", 2, on="here", batches=1000, keep_log="1B", snapshot_every=1)
    for i in range(6):
        live.update(add=[(i, 900 + i)])
        live.snapshot()
    before = live.digest()
    live._let_go()
    again = cluster.launch(tmp_path / "x", on="here", batches=1000)
    assert again.digest() == before
    again.close()


# ---- the log as shards read it ---------------------------------------------------------------------------


def test_entries_are_the_batches_of_the_log(tmp_path):
    begin(tmp_path / "x")
    live = cluster.launch(tmp_path / "x", 2, on="here")
    live.update(add=[(1, 500)])
    live.feed.begin_epoch()
    live.update(remove_nodes=[500])
    live.resize(3)
    end = live._log.last_batch_id
    live.close()
    log = ShardLog(tmp_path / "x" / LOG_FILE)
    entries = LoggedEntries(log)
    kinds = [type(entry) for entry in entries.read(0, 100)]
    assert kinds[:4] == [Events, Events, Remove, Resize]
    assert set(kinds[4:end]) == {Move}
    assert [type(entry) for entry in entries.read(2, 2)] == [Remove, Resize]
    assert entries.end == log.last_batch_id
    about = read_cluster_file(tmp_path / "x")
    assert shards_needed(about, log) == 3
    write_cluster_file(tmp_path / "x", type(about)(2, 0, about.snapshots))
    assert shards_needed(read_cluster_file(tmp_path / "x"), log) == 3
    log.close()


# ---- seeded bugs -----------------------------------------------------------------------------------------


def test_a_front_that_does_not_wait_for_all_would_be_noticed(tmp_path, monkeypatch):
    """Outcomes of one shard alone: nodes of the others are missing."""
    whole = FrontState.follow

    def follow(self, entry):
        everyone = self.queries.all
        self.queries.all = lambda query: everyone(query)[:1]
        try:
            return whole(self, entry)
        finally:
            del self.queries.all

    monkeypatch.setattr(FrontState, "follow", follow)
    with pytest.raises(AssertionError):
        test_a_shard_that_died_comes_back_by_itself(tmp_path)


def test_a_log_that_forgets_too_much_would_be_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(ShardLog, "prune", lambda self, below: super(ShardLog, self).prune(below))
    with pytest.raises(Exception, match="a shard needs batch 1, and the log begins at"):
        test_the_log_keeps_what_a_shard_needs(tmp_path)
