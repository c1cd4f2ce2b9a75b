"""Snapshots as files: what was saved is there after a restart, and damage is noticed."""

import itertools
import os

import numpy as np
import pytest

from dygcn.cluster import store as stores
from dygcn.cluster.messages import ShardSnapshot
from dygcn.cluster.shard import Shard
from dygcn.cluster.slots import SlotMap
from dygcn.cluster.store import SnapshotFolder
from dygcn.engine.events import read_events
from dygcn.engine.models.model import Model
from dygcn.errors import ClusterError
from dygcn_lab.testbed.simulated_cluster import SimulatedCluster

MODEL = Model((np.eye(4, dtype=np.float32),) * 3, "int64", "hashed", np.ones(4))
_numbers = itertools.count()


@pytest.fixture(params=["local", "memory"])
def path(request, tmp_path):
    return str(tmp_path / "store") if request.param == "local" else f"memory://store-{next(_numbers)}"


def image(edges):
    shard = Shard(MODEL, 0, SlotMap.even(1), 1)
    shard.plan(read_events(edges))
    shard.apply({})
    return shard.image()


def snapshot(sequence):
    return ShardSnapshot(sequence, SlotMap.even(2), 2, image([(1, 2), (2, sequence + 3)]))


def files(store):
    return sorted(store._names(store.number))


def test_snapshots_are_there_after_a_restart(path):
    store = SnapshotFolder(path, 1)
    assert store.sequences == []
    for sequence in (0, 100, 50):
        store.save(snapshot(sequence))
    again = SnapshotFolder(path, 1)
    assert store.sequences == again.sequences == [0, 50, 100]
    assert again.load(50).image.ids.values.tolist() == [1, 2, 53]
    assert SnapshotFolder(path, 0).sequences == []
    again.drop(0)
    assert again.sequences == SnapshotFolder(path, 1).sequences == [50, 100]


def test_what_is_handed_over_stays_until_no_older_snapshot_is_left(path):
    giver, taker = SnapshotFolder(path, 0), SnapshotFolder(path, 3)
    taker.save(snapshot(1))
    assert taker.handed(5, 0) is None
    giver.hand_over(5, 3, image([(7, 8)]))
    giver.hand_over(9, 3, image([(9, 10)]))
    assert taker.handed(5, 0).ids.values.tolist() == [7, 8]
    assert taker.handed(5, 1) is None
    for sequence in (4, 6):
        taker.save(snapshot(sequence))
    taker.drop(1)
    assert SnapshotFolder(path, 3).handed(5, 0) is not None
    taker.drop(4)
    assert taker.handed(9, 0) is not None
    with pytest.raises(ClusterError, match="must start again"):
        SnapshotFolder(path, 3).handed(5, 0)


def test_one_that_was_taken_for_dead_brings_nothing_back(path):
    stale = SnapshotFolder(path, 0)
    stale.save(snapshot(0))
    successor = SnapshotFolder(path, 0)
    for sequence in (20, 30):
        successor.save(snapshot(sequence))
    successor.drop(0)
    stale.save(snapshot(10))
    stale.drop(0)
    assert SnapshotFolder(path, 0).sequences == [20, 30]
    successor.drop(20)
    assert SnapshotFolder(path, 0).sequences == [30]
    assert len(files(successor)) == 2


def test_a_number_that_is_given_again_begins_anew(path):
    before = SnapshotFolder(path, 2)
    for sequence in (3, 7):
        before.save(snapshot(sequence))
    again = SnapshotFolder(path, 2)
    again.begin(snapshot(20))
    before.save(snapshot(9))
    assert SnapshotFolder(path, 2).sequences == again.sequences == [20]


def test_what_was_begun_is_swept(path):
    store = SnapshotFolder(path, 0)
    store._files.pipe_file(store._place(0, "half.part"), b"half")
    assert files(SnapshotFolder(path, 0)) == []


@pytest.mark.parametrize("harm", ["cut", "changed", "empty", "other"])
def test_damage_is_noticed(path, harm):
    store = SnapshotFolder(path, 0)
    store.save(snapshot(3))
    place = store._place(0, files(store)[0])
    body = bytearray(store._files.cat_file(place))
    if harm == "cut":
        del body[len(body) // 2 :]
    elif harm == "changed":
        body[len(body) // 2] ^= 1
    elif harm == "empty":
        body = b""
    else:
        store.hand_over(3, 0, image([(1, 2)]))
        body = store._files.cat_file(store._place(0, f"{3:020}-0.edges"))
    store._files.pipe_file(place, bytes(body))
    with pytest.raises(ClusterError, match=r"0003\.snapshot"):
        SnapshotFolder(path, 0).load(3)


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    store = SnapshotFolder(str(tmp_path), 0)
    store.save(snapshot(3))

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        store.save(snapshot(4))
    monkeypatch.undo()
    assert SnapshotFolder(str(tmp_path), 0).sequences == [3]


# ---- in the simulator ------------------------------------------------------------------------------------


class OnFolders(SimulatedCluster):
    def __init__(self, seed, folder):
        self.folder = folder
        super().__init__(seed)

    def _add_disk(self, number, snapshot):
        store = SnapshotFolder(self.folder, number)
        store.begin(snapshot)
        self.disks[number : number + 1] = [store]

    def _start(self, number):
        self.disks[number] = SnapshotFolder(self.folder, number)
        super()._start(number)


@pytest.mark.parametrize("seed", range(6))
def test_simulated_clusters_run_on_folders(seed):
    cluster = OnFolders(seed, f"memory://simulated-{seed}")
    cluster.run()
    assert not cluster.wrong


def test_a_seeded_bug_is_noticed(path, monkeypatch):
    """Without a floor, a stale process brings back an old snapshot."""
    monkeypatch.setattr(stores.SnapshotFolder, "_floor", lambda self: -1)
    with pytest.raises(AssertionError):
        test_one_that_was_taken_for_dead_brings_nothing_back(path)
