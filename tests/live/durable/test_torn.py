"""What an exception, or a second thread, finds: a whole embedding, or one that refuses."""

import tempfile
import threading
from contextlib import contextmanager
from datetime import datetime

import numpy as np
import pytest

import dygcn
from dygcn.engine.events import read_events
from dygcn.engine.graph import ids as growing
from dygcn.engine.graph import store
from dygcn.engine.models import folder as saved
from dygcn.engine.propagation.spreading import Spreading
from dygcn.engine.propagation.sums import Sums
from dygcn.errors import ConcurrentUse, DygcnError, EventError, TornState, WriteFailed
from dygcn.live.durable.snapshots import SnapshotWriter
from dygcn.live.durable.source_batch import SourceBatch
from dygcn.live.durable.storage.log import EventLog
from dygcn_lab.testbed.seeding import small_model
from tests.seeded import assert_noticed


def fresh(edges=100):
    live = dygcn.start(small_model())
    live.update(add=[(i, i + 1) for i in range(edges)])
    return live


def fail(*_, **__):
    raise MemoryError("no room, on purpose")


def lengths(owner, names):
    return {len(getattr(owner, name)) for name in names}


@pytest.mark.parametrize("nth", range(1, 6))
def test_arrays_of_one_length_grow_all_or_none(monkeypatch, nth):
    live, calls = fresh(), []
    before, graph = live.digest(), live._state.graph

    def grown(array, size):
        calls.append(size)
        if len(calls) == nth:
            fail()
        return growing.grown(array, size)

    monkeypatch.setattr(store, "grown", grown)
    with pytest.raises(MemoryError):
        live.update(add=[(i, i + 100_000) for i in range(200)])
    monkeypatch.undo()
    assert len(lengths(graph, store._OF_NODES)) == 1
    assert live.digest() == before
    assert len(graph.ids) == len(graph)  # nobody was given a node for good
    for k in range(30):
        live.update(add=[(i, i + 100_000 + k) for i in range(60)])
    assert live.digest() == live.recompute().digest()


def test_no_room_for_sums_is_found_before_anything_is_written(monkeypatch):
    live = fresh()
    before = live.digest()
    monkeypatch.setattr(Sums, "reserve", fail)
    with pytest.raises(MemoryError):
        live.update(add=[(i, i + 1000) for i in range(50)])
    monkeypatch.undo()
    assert live.digest() == before


def test_an_interrupted_update_refuses_and_says_what_heals_it(monkeypatch):
    live = fresh()
    change = live.update(add=[(3, 50)])
    monkeypatch.setattr(Spreading, "add", fail)
    with pytest.raises(MemoryError):
        live.update(add=[(i, i + 1000) for i in range(90)])
    monkeypatch.undo()
    uses = (
        lambda: live[3],
        lambda: live.vectors([3]),
        lambda: live.update(add=[(1, 5)]),
        lambda: live.bulk([[(1, 5)]]),
        lambda: live.update(remove_nodes=[1]),
        lambda: live.publish(tolerance=0.1),
        live.publish,
        live.digest,
        live.ids,
        lambda: live.nearest(3),
        lambda: live.score(3, 4),
        lambda: live.to_arrow(),
        lambda: 3 in live,
        lambda: len(live),
        lambda: live.save("never"),
        lambda: live.edge_count,
        lambda: change.vectors,
    )
    for use in uses:
        with pytest.raises(TornState, match=r"live = live\.recompute\(\)"):
            use()
    assert "torn" in repr(live)
    healed = live.recompute()
    assert 1005 in healed
    assert healed.digest() == healed.recompute().digest()
    expected = fresh()
    expected.update(add=[(3, 50)])
    expected.update(add=[(i, i + 1000) for i in range(90)])
    assert healed.digest() == expected.digest()


def test_a_refused_update_tears_nothing():
    live = fresh()
    before = live.digest()
    with pytest.raises(EventError):
        live.update({"src": [1], "dst": [2], "weight": [1e300]})
    assert live.digest() == before


def test_reads_of_a_durable_embedding_refuse_after_a_failed_write(tmp_path, monkeypatch):
    live = dygcn.open(tmp_path / "x", fresh())
    monkeypatch.setattr(Spreading, "add", fail)
    with pytest.raises(MemoryError):
        live.update(add=[(i, i + 10_000) for i in range(3000)])
    monkeypatch.undo()
    for use in (lambda: live.vector(5), lambda: live._vectors_of(np.array([2], np.int32)), live.digest):
        with pytest.raises(TornState):
            use()
    with pytest.raises(WriteFailed):
        live.update(add=[(1, 5)])
    live.close()
    with dygcn.open(tmp_path / "x") as again:  # it was in the log, so it has happened
        assert 10_005 in again
        assert again.digest() == again.recompute().digest()


def test_an_interrupt_between_log_and_state_ends_acceptance(tmp_path, monkeypatch):
    live = dygcn.open(tmp_path / "x", fresh())

    def interrupt(self, grown):
        raise KeyboardInterrupt

    monkeypatch.setattr(EventLog, "_tidy_journal", interrupt)
    with pytest.raises(KeyboardInterrupt):
        live.update(add=[(5, 1000)])
    monkeypatch.undo()
    assert live._log.failure is not None
    with pytest.raises(WriteFailed):
        live.update(add=[(6, 2000)])
    live.close()
    with dygcn.open(tmp_path / "x") as again:
        assert (1000 in again, 2000 in again) == (True, False)


def test_a_sequence_is_shown_once_its_events_can_be_read(tmp_path, monkeypatch):
    live = dygcn.open(tmp_path / "x", fresh())
    monkeypatch.setattr(Sums, "reserve", fail)
    before = live.sequence
    with pytest.raises(MemoryError):
        live.update(add=[(5, 1000)])
    monkeypatch.undo()
    assert live.sequence == before
    assert 1000 not in live
    live.close()


def test_a_second_thread_is_refused():
    live, found = fresh(), []
    live._guard.lock.acquire()

    def use():
        for call in (lambda: live.update(add=[(1, 9)]), lambda: live[1], live.digest):
            try:
                call()
            except ConcurrentUse as error:
                found.append(str(error))

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    live._guard.lock.release()
    assert len(found) == 3
    assert "another thread" in found[0]
    live.update(add=[(1, 9)])


def test_two_threads_at_once_end_in_errors_not_in_a_crash():
    live, errors = fresh(), []
    random = np.random.default_rng(0)
    batches = [[random.integers(0, 6000, (150, 2)) for _ in range(60)] for _ in range(2)]

    def write(mine):
        for batch in mine:
            try:
                live.update(add=batch)
            except ConcurrentUse:
                errors.append(batch)

    threads = [threading.Thread(target=write, args=(mine,)) for mine in batches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for batch in errors:
        live.update(add=batch)
    expected = fresh()
    for batch in batches[0] + batches[1]:
        expected.update(add=batch)
    assert live.digest() == expected.digest() == live.recompute().digest()


@pytest.mark.parametrize("exchange", [True, False])
def test_an_interrupted_save_leaves_the_old_folder_or_the_new_one(tmp_path, monkeypatch, exchange):
    live = fresh()
    live.save(tmp_path / "x")
    before = live.digest()
    live.update(add=[(1, 9)])
    if not exchange:
        monkeypatch.setattr(saved, "_exchange", lambda one, other: False)
    live.save(tmp_path / "x")
    assert dygcn.load(tmp_path / "x").digest() == live.digest() != before
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    rename, calls = type(tmp_path).rename, []

    def interrupted(self, target):
        calls.append(target)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(type(tmp_path), "rename", interrupted)
    monkeypatch.setattr(saved, "_exchange", lambda one, other: False)
    kept = live.digest()
    live.update(add=[(2, 9)])
    with pytest.raises(KeyboardInterrupt):
        live.save(tmp_path / "x")
    monkeypatch.undo()
    assert dygcn.load(tmp_path / "x").digest() == kept
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize("weight", [1e-290, 1e-260, 1.0, 1e250, 1e305, 5e-324, 1e-300])
def test_what_is_fitted_can_be_saved_and_loaded(tmp_path, weight):
    events = {"src": [1, 2, 3], "dst": [2, 3, 4], "weight": [weight] * 3}
    if not 1e-270 < weight < 1e270:
        with pytest.raises(EventError, match="scale all weights alike"):
            dygcn.fit(events, dim=4)
        return
    live = dygcn.fit(events, dim=4)
    live.save(tmp_path / "x")
    assert dygcn.load(tmp_path / "x").digest() == live.digest()


@pytest.mark.parametrize("step", [1e-200, 1.0, 1e200])
def test_times_that_a_model_cannot_keep_are_refused_by_fit(step):
    events = {"src": [1, 2, 3], "dst": [2, 3, 4], "t": [0.0, step, 2 * step]}
    if step == 1.0:
        dygcn.fit(events, dim=4)
        return
    with pytest.raises(EventError, match="another unit"):
        dygcn.fit(events, dim=4)


def test_a_lock_that_an_interrupt_left_locked_stops_nobody(tmp_path):
    """Python may raise an interrupt between the end of a `with` block and the release of its lock."""
    live = dygcn.open(tmp_path / "x", fresh())
    for lock in (live._ahead._writing, live.lock, live._log._lock, live._log._chains._lock):
        lock.acquire()
    live.update(add=[(1, 9)])
    assert live.feed.confirms(live.feed.history)
    live.close()


def test_a_call_from_a_signal_s_handler_inside_an_update_is_refused(monkeypatch):
    """The same thread may take the lock again, so the mark must be there while room is made, too."""
    live, found = fresh(), []
    whole = Sums.reserve

    def reserve(self, nodes):
        try:
            live.update(add=[(1, 9)])
        except TornState as error:
            found.append(error)
        whole(self, nodes)

    monkeypatch.setattr(Sums, "reserve", reserve)
    live.update(add=[(5, 2000)])
    monkeypatch.undo()
    assert found
    assert live.digest() == live.recompute().digest()


def test_a_watcher_that_fails_is_no_refusal(tmp_path):
    live = dygcn.open(tmp_path / "x", fresh())

    def watcher(nodes):
        raise EventError("of another embedding, on purpose")

    live._ahead.watchers.append(watcher)
    with pytest.raises(EventError):
        live.update(add=[(3, 4000)])
    with pytest.raises((TornState, WriteFailed)):
        live.update(add=[(3, 5000)])
    live.close()
    with dygcn.open(tmp_path / "x") as again:  # it was in the log
        assert 4000 in again


def test_a_writer_that_holds_the_lock_does_not_wait_for_another(tmp_path):
    live, found = dygcn.open(tmp_path / "x", fresh()), []

    def write():
        with live._ahead.one_writer():
            waits.set()
            with live.lock:
                pass

    waits = threading.Event()
    with live.lock:
        thread = threading.Thread(target=write)
        thread.start()
        waits.wait()
        try:
            live.update(add=[(1, 9)])
        except ConcurrentUse as error:
            found.append(error)
    thread.join()
    assert found
    live.update(add=[(1, 9)])
    live.close()


def test_a_snapshot_counts_once_it_is_written(tmp_path, monkeypatch):
    live = dygcn.open(tmp_path / "x", fresh())
    live.update(add=[(1, 9)])
    monkeypatch.setattr(SnapshotWriter, "_write", lambda self, taken, needed: fail())
    with pytest.raises(MemoryError):
        live.snapshot()
    monkeypatch.undo()
    assert live._ahead.saved_at != live.sequence
    live.snapshot()
    assert live._ahead.saved_at == live.sequence
    live.close()


def test_a_bulk_that_fails_before_it_begins_leaves_a_folder_that_opens(tmp_path, monkeypatch):
    live = dygcn.open(tmp_path / "x", fresh())
    live.update(add=[(1, 9)])
    monkeypatch.setattr(dygcn.LiveEmbedding, "_before_change", fail)
    with pytest.raises(MemoryError):
        live.bulk([[(5, 7000)]])
    monkeypatch.undo()
    with pytest.raises(WriteFailed):
        live.update(add=[(1, 10)])
    live.close()
    with dygcn.open(tmp_path / "x") as again:
        assert (9 in again, 7000 in again) == (True, False)


def test_a_part_with_a_date_of_its_own_can_be_replayed(tmp_path):
    live = dygcn.open(tmp_path / "x", dygcn.start(small_model(half_life=3.0)))
    live._ingest([SourceBatch(read_events([(1, 2)]), now=datetime(2020, 1, 1))])
    before = live.digest()
    with pytest.raises(EventError):
        live._ingest([SourceBatch(read_events([(1, 3)]), now=True)])
    live._let_go()
    with dygcn.open(tmp_path / "x") as again:
        assert again.digest() == before


def test_what_a_change_says_left_is_the_caller_s_own(tmp_path):
    live = dygcn.open(tmp_path / "x", fresh())
    live.update(add=[(1, 900)])
    cursor = live.feed.cursor
    left = live.update(remove=[(1, 900)]).left
    left += 1000
    assert live.feed.since(cursor, 100).rows.left.tolist() == [900]
    live.close()


# ---- what is not the embedding's fault ends nothing, and leaves no lock ---------------------------------


@contextmanager
def durable(live=None):
    with tempfile.TemporaryDirectory() as folder, dygcn.open(f"{folder}/x", live or fresh()) as opened:
        yield opened


def broken():
    yield ("user", 1)
    raise LookupError("of the caller's own iterable, on purpose")


WRONG_ARGUMENTS = (
    lambda live: live.update(remove_nodes=broken()),
    lambda live: live.update(remove_nodes=2.5),
    lambda live: live.update(remove_nodes=b"12"),
    lambda live: live.set_features([1], [[10**400, 1]]),
    lambda live: live.set_features(broken(), [[1.0, 1.0]]),
    lambda live: live.bulk(None),
    lambda live: live.bulk(5),
    lambda live: live.publish(10**400),
    lambda live: live.restart(5),
)


def check_wrong_arguments():
    kinds = dygcn.fit({"user": [1, 49, 50], "item": [1, 1, 2]}, src="user", dst="item", kinds=True, dim=4)
    given = dygcn.fit([(1, 2), (2, 49)], dim=4, features=([1, 2], np.ones((2, 2))))
    for live in (kinds, given):
        with durable(live) as logged:
            for use in (live, logged):
                before = use.digest()
                for wrong in WRONG_ARGUMENTS:
                    with pytest.raises((DygcnError, TypeError, LookupError)):
                        wrong(use)
                    assert use.digest() == before
                    use.update(add=[])
            assert logged.sequence <= 9  # of the empty updates


class TakenAndInterrupted:
    """A lock whose caller is interrupted before it hears that the lock was taken."""

    def __init__(self, lock):
        self._is_owned, self.release, self._acquire = lock._is_owned, lock.release, lock.acquire

    def acquire(self, blocking=True):
        self._acquire(blocking=blocking)
        raise KeyboardInterrupt


def check_an_interrupt_leaves_no_lock():
    with durable() as live:
        for owner, name, call in (
            (live._guard, "lock", live.digest),
            (live._guard, "lock", live.recompute),
            (live._ahead, "_writing", live.snapshot),
        ):
            lock = getattr(owner, name)
            setattr(owner, name, TakenAndInterrupted(lock))
            with pytest.raises(KeyboardInterrupt):
                call()
            setattr(owner, name, lock)
            assert not lock._is_owned()


def check_close_after_an_interrupt():
    with durable() as live, pytest.MonkeyPatch.context() as patch:
        live.update(add=[(1, 9)])

        def interrupt(self):
            raise KeyboardInterrupt

        patch.setattr(SnapshotWriter, "wait", interrupt)
        with pytest.raises(KeyboardInterrupt):
            live.close()
        patch.undo()
        live.close()
        dygcn.open(live._folder).close()


def check_a_page_waits_for_the_writer():
    with durable() as live:
        pages = []
        reader = threading.Thread(target=lambda: pages.append(live.feed.since("", 1000)))
        with live.lock:
            reader.start()
            reader.join(0.1)  # it has read what it reads without the lock
            live.update(add=[(7, 900)])
        reader.join()
        pages.append(live.feed.since(pages[0].next, 1000))
        assert 900 in np.concatenate([page.rows.ids for page in pages])


CHECKS = (
    check_wrong_arguments,
    check_an_interrupt_leaves_no_lock,
    check_close_after_an_interrupt,
    check_a_page_waits_for_the_writer,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_faults_of_others_end_nothing(check):
    check()


OWNED_LATER = "own, outer = outer, True\ntaken = {}\nouter = own\nif not taken:"


@pytest.mark.mutant
@pytest.mark.parametrize(
    ("module", "line", "wrong", "check"),
    [
        ("durable.embedding", "column = many_ids(self._state, ids)", "column = ids", check_wrong_arguments),
        ("embedding", "check_parts(parts)", "pass", check_wrong_arguments),
        (
            "guard",
            "if not outer and not self.lock.acquire(blocking=self.waits):",
            OWNED_LATER.format("self.lock.acquire(blocking=self.waits)"),
            check_an_interrupt_leaves_no_lock,
        ),
        (
            "guard",
            "if not outer and not lock.acquire(blocking=waits):",
            OWNED_LATER.format("lock.acquire(blocking=waits)"),
            check_an_interrupt_leaves_no_lock,
        ),
        (
            "durable.embedding",
            "self._snapshots.wait()  # where it is interrupted, nothing is closed yet",
            "self._closed = True\nself._snapshots.wait()",
            check_close_after_an_interrupt,
        ),
        (
            "durable.feed",
            "with self._live._guard.lock:  # a page is of one sequence",
            "if True:",
            check_a_page_waits_for_the_writer,
        ),
    ],
)
def test_seeded_bugs_of_them_are_noticed(tmp_path, module, line, wrong, check):
    assert_noticed(tmp_path, f"dygcn.live.{module}", line, wrong, check)
