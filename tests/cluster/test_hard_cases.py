"""What would lose state, leave a cluster stuck or give a wrong answer: each was seen once."""

import shutil
import threading
import time

import pytest

import dygcn
from dygcn import cluster
from dygcn.cluster import front, queries, query_handlers
from dygcn.cluster.embedding import ClusterEmbedding, read_cluster_file, write_cluster_file
from dygcn.cluster.front import FrontGraph, FrontState
from dygcn.cluster.launching import LocalShards
from dygcn.cluster.messages import Events, Resize
from dygcn.engine.events import id_column
from dygcn.errors import CapacityError, ClusterError, DamagedLog, OptionError
from dygcn.live.durable.snapshots import SnapshotWriter


def begin(folder, shards=2, **how):
    dygcn.fit([("a", "b"), ("b", "c"), ("c", "d")], dim=8).save(folder)
    return cluster.launch(folder, shards, on="here", **how)


def overload(live):
    """Bring a node that was new in one batch beyond what a node carries in the next."""
    weight = 0.6 * live._state.graph.limit / live._state.graph.one
    live.update([("hub", "x", 0.0, 1, weight)])
    live.update([("hub", "y", 0.0, 1, weight)])


def test_a_new_node_that_would_carry_too_much_never_comes_to_the_log(tmp_path):
    live = begin(tmp_path / "x")
    with pytest.raises(CapacityError):
        overload(live)
    assert live._log.failure is None
    assert live._log.last_batch_id == 1
    live.update(add=[("a", "hub")])
    digest = live.digest()
    live._let_go()
    with cluster.launch(tmp_path / "x", on="here") as again:
        assert again.digest() == digest


def test_weights_that_are_noted_before_ids_have_nodes_would_be_noticed(tmp_path, monkeypatch):
    def write(self):
        batch, now = self._staged
        FrontGraph.note_weights(self.graph, batch)
        return self.follow(Events(batch, now))

    monkeypatch.setattr(FrontState, "write", write)
    live = begin(tmp_path / "x")
    with pytest.raises(CapacityError):
        overload(live)
    assert live._log.last_batch_id > 1  # every shard would die of what is in the log now
    live._let_go()


def read_during_moves(folder, monkeypatch):
    """Return the nodes that a read without the lock did not find while their slots moved."""
    live, missing = begin(folder), []
    commit = live._front._commit

    def read_first(entry):
        for node in "abcd":
            straight = live._read_straight(node)
            if straight is not None and straight[1] is None:
                missing.append(node)
        return commit(entry)

    monkeypatch.setattr(live._front, "_commit", read_first)
    live.resize(3)
    live.close()
    return missing


def test_a_node_whose_slot_moves_is_not_said_to_be_missing(tmp_path, monkeypatch):
    assert read_during_moves(tmp_path / "x", monkeypatch) == []


def test_a_shard_that_answers_for_slots_of_others_would_be_noticed(tmp_path, monkeypatch):
    answer = query_handlers.HANDLERS[queries.VectorQuery]

    def as_if_own(question, worker):
        found = answer(question, worker)
        return queries.VectorReply(found.position, abs(found.here) * (found.here > 0), found.vectors)

    monkeypatch.setitem(query_handlers.HANDLERS, queries.VectorQuery, as_if_own)
    assert read_during_moves(tmp_path / "x", monkeypatch)


def test_a_shard_without_nodes_can_be_asked_for_any(tmp_path):
    live = begin(tmp_path / "x", shards=64)
    assert [live._read_straight(f"nobody-{one}")[1] for one in range(64)] == [None] * 64
    live.close()


def test_an_answer_as_of_a_batch_without_events_names_no_later_sequence(tmp_path):
    live = begin(tmp_path / "x")
    live.update(add=[("a", "e")])
    live.feed.begin_epoch()
    batch, sequence = live._log.last_batch_id, live.sequence
    live.update(add=[("a", "f")])
    assert live._logged.sequence_of(batch) == sequence
    live.close()


# ---- folders and snapshots that do not belong together ---------------------------------------------------


def test_a_place_with_snapshots_of_another_cluster_is_refused(tmp_path):
    first = begin(tmp_path / "x", snapshots=str(tmp_path / "store"))
    first.update(add=[("a", "e")])
    first.close()
    with pytest.raises(OptionError, match="holds snapshots of shards already"):
        begin(tmp_path / "y", snapshots=str(tmp_path / "store"))
    with begin(tmp_path / "y") as second:
        assert len(second) == 4


def start_an_older_folder(tmp_path):
    live = begin(tmp_path / "x", snapshots=str(tmp_path / "store"), batches=2)
    live.close()
    shutil.copytree(tmp_path / "x", tmp_path / "older")
    with cluster.launch(tmp_path / "x", on="here", batches=2) as live:
        for node in "efgh":
            live.update(add=[("a", node)])
    with cluster.launch(tmp_path / "older", on="here") as live:
        live.update(add=[("a", "z")])
        assert "z" in live


def test_a_log_that_ends_before_its_shards_is_refused(tmp_path):
    with pytest.raises(ClusterError, match="the folder is older than its snapshots"):
        start_an_older_folder(tmp_path)


def test_a_log_that_shards_take_for_another_would_be_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(front, "_check_log", lambda *_: None)
    with pytest.raises(AssertionError):
        start_an_older_folder(tmp_path)


# ---- a log that forgets ----------------------------------------------------------------------------------


def forget_and_start(folder, memory=None):
    dygcn.fit({"src": [1, 2, 3], "dst": [2, 3, 4], "t": [0.0, 0.1, 0.2]}, dim=8, memory=memory).save(folder)
    live = cluster.launch(folder, 2, on="here", batches=2, keep_log="1B")
    for i in range(7):
        live.update(add=[(i, 500 + i)], now=1.0 + i, stream="s", offset=i)
        live.snapshot()
    assert live._log.kind_and_time(1) is None  # forgotten
    digest = live.digest()
    live._let_go()
    with cluster.launch(folder, on="here") as again:
        assert again._ahead.damage == []
        assert again.digest() == digest
        assert again.streams == {"s": 6}


@pytest.mark.parametrize("memory", [None, 2.0])
def test_a_cluster_starts_with_a_log_that_forgot_its_beginning(tmp_path, memory):
    forget_and_start(tmp_path / "x", memory)


def test_a_snapshot_of_the_front_that_cannot_be_read_would_be_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(SnapshotWriter, "_unknown_moves", None)
    with pytest.raises(DamagedLog):
        forget_and_start(tmp_path / "x")


class KilledError(BaseException):
    pass


def die_in_resize(folder, monkeypatch, shards, to, when):
    """Resize, die after a step, start again and resize again."""
    live, follow, steps = begin(folder, shards, keep_log="1B"), ClusterEmbedding._follow_entry, []

    def follow_and_die(self, entry):
        if when == "before" and isinstance(entry, Resize):
            raise KilledError
        follow(self, entry)
        steps.append(entry)
        if when == "after" and isinstance(entry, Resize):
            raise KilledError
        if when == "between" and len(steps) == 12:
            for node in "efghij":
                live.update(add=[("a", node)])
                live.snapshot()
            raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(ClusterEmbedding, "_follow_entry", follow_and_die)
        with pytest.raises(KilledError):
            live.resize(to)
    digest = live.digest()
    live._let_go()
    for _ in range(2):
        with cluster.launch(folder, on="here") as again:
            assert again.digest() == digest
            again.resize(to)
            assert again.shards == to
            assert sorted(again._front.queries.processes.workers) == list(range(to))
            again.update(add=[("a", "z")])
            digest = again.digest()


@pytest.mark.parametrize("when", ["before", "after", "between"])
@pytest.mark.parametrize(("shards", "to"), [(2, 4), (4, 2)])
def test_a_front_that_dies_while_it_resizes_goes_on(tmp_path, monkeypatch, shards, to, when):
    die_in_resize(tmp_path / "x", monkeypatch, shards, to, when)


def test_a_number_of_shards_that_only_the_log_has_would_be_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(ClusterEmbedding, "_have", lambda self, shards: self._follow_entry(Resize(shards)))
    with pytest.raises(ClusterError, match="no answer"):
        die_in_resize(tmp_path / "x", monkeypatch, 2, 4, "between")


def test_shards_that_go_are_there_until_all_others_know(tmp_path, monkeypatch):
    folder, started = tmp_path / "x", []
    with begin(folder, 3) as live:
        about = read_cluster_file(folder)
        live.resize(2)
        digest = live.digest()
    write_cluster_file(folder, about)
    restart = LocalShards.restart
    monkeypatch.setattr(LocalShards, "restart", lambda self, one: started.append(one) or restart(self, one))
    with cluster.launch(folder, on="here") as again:
        assert started == [0, 1, 2]
        assert sorted(again._front.queries.processes.workers) == [0, 1]
        assert again.digest() == digest


@pytest.mark.parametrize(
    "how", [{"on": "mars"}, {"shards": 0}, {"shards": 2.5}, {"shards": True}, {"shards": 1025}]
)
def test_what_is_not_allowed_leaves_the_folder_as_it_was(tmp_path, how):
    folder, how = tmp_path / "x", {"on": "here", "shards": 2} | how
    dygcn.fit([(1, 2), (2, 3)], dim=8).save(folder)
    with pytest.raises(OptionError, match="allowed"):
        cluster.launch(folder, **how)
    assert read_cluster_file(folder) is None
    cluster.launch(folder, on="here").close()
    with pytest.raises(OptionError, match="allowed"):
        cluster.launch(folder, **how)
    cluster.launch(folder, on="here").close()


def test_a_start_that_cannot_resize_lets_go(tmp_path, monkeypatch):
    begin(tmp_path / "x").close()
    with monkeypatch.context() as patched:
        patched.setattr(ClusterEmbedding, "_grow", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            cluster.launch(tmp_path / "x", 3, on="here")
    cluster.launch(tmp_path / "x", 3, on="here").close()


def test_reads_that_wait_for_one_shard_are_few(tmp_path, monkeypatch):
    live, back, query = begin(tmp_path / "x"), threading.Event(), LocalShards.query
    monkeypatch.setattr(cluster.embedding, "_MOVES", 0.0)
    owner = live._front.queries.slots.owners
    gone = int(owner(id_column(["a"]))[0])

    def silent(self, queries):
        assert gone not in queries or back.wait(60)
        return query(self, queries)

    monkeypatch.setattr(LocalShards, "query", silent)
    waiting = [threading.Thread(target=live._read_straight, args=("a",)) for _ in range(8)]
    for one in waiting:
        one.start()
    while len(live._waiting.get(gone, ())) < 8:
        time.sleep(0.01)
    with pytest.raises(ClusterError, match="ask again"):
        live._read_straight("a")
    other = next(name for name in map(str, range(100)) if owner(id_column([name]))[0] != gone)
    assert live._read_straight(other)[1] is None
    back.set()
    for one in waiting:
        one.join(60)
    assert live._read_straight("a")[1] is not None
    live.close()
