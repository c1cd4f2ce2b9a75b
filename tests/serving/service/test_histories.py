"""Sinks that hold rows of another history: a refit, a restored copy, a stale writer; sinks that lost rows."""

import copy
import shutil
import threading
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as draw

import dygcn
from dygcn.errors import OtherHistory
from dygcn.serving.service import workers as workers
from dygcn.serving.service.service import Service
from dygcn.serving.service.workers import NEW, REFUSED, REWRITING, REWRITTEN, SAME, SinkWorker, Verdict, judge
from dygcn.serving.sinks import ParquetSettings, PostgresSettings, read_rows
from dygcn.testing.sink_model import made_up_history
from dygcn_lab.testbed.postgres import postgres_server
from tests.serving.service import streams
from tests.serving.service.serving import on_loopback
from tests.serving.service.streams import FULL_DISK, Kept, until
from tests.serving.service.test_workers import write
from tests.serving.sinks.places import fresh_name, read_table


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr(workers, "_PAUSE", 0.02)
    monkeypatch.setattr(workers, "_LONGEST_PAUSE", 0.05)
    monkeypatch.setattr(workers, "_BETWEEN", 0.01)


@contextmanager
def running(path, *sinks, rule="rewrite", **options):
    service = Service(on_loopback(path, **options))
    for sink in sinks:
        service.add_sink(sink, rule)
    service.start()
    try:
        yield service
    finally:
        service.stop()


def status(service, sink=0):
    return service.sinks[sink].status()


def has(service, history):
    return lambda: service.sinks[0].history == history


@pytest.fixture
def refitted(tmp_path):
    """Another model of another graph, in a folder of its own: its log begins at the beginning."""

    def make():
        live = dygcn.fit([(1, 2), (2, 3), (3, 1), (2, 700)], dim=8)
        path = tmp_path / fresh_name()
        live.save(path)
        return path

    return make


# ---- what is decided ---------------------------------------------------------------------------------


class Log:
    """A log that is at a position, and has confirmed some."""

    def __init__(self, history, *confirmed):
        self.history, self.confirmed = history, confirmed

    def confirms(self, history):
        return history in self.confirmed


NOW, HELD, EARLIER = made_up_history(9), made_up_history(7), made_up_history(5)
COPY = made_up_history(7, branch="copy")


@pytest.mark.parametrize(
    ("held", "kept", "confirmed", "expected"),
    [
        (None, None, (), (NEW, True, False)),
        (None, HELD, (HELD,), (NEW, True, False)),
        (HELD, HELD, (HELD,), (SAME, False, False)),
        (HELD, HELD, (), (SAME, False, False)),  # the log no longer reaches back to it
        (HELD, EARLIER, (HELD, EARLIER), (SAME, False, False)),  # a crash between the write and the place
        (HELD, None, (HELD,), (SAME, True, False)),
        (HELD, EARLIER, (HELD,), (SAME, True, False)),  # the place is of another log
        (HELD, made_up_history(7, 0), (HELD,), (SAME, True, False)),
        (EARLIER, HELD, (HELD, EARLIER), (REWRITING, True, False)),  # the sink was restored from a copy
        (COPY, HELD, (HELD,), (REWRITING, True, True)),
        (HELD, None, (), (REWRITING, True, True)),
        (made_up_history(99, 0), HELD, (HELD,), (REWRITING, True, False)),
        (made_up_history(99, 0), made_up_history(99, 0), (), (REWRITING, True, False)),
    ],
)
def test_what_is_done(held, kept, confirmed, expected):
    verdict = judge(held, kept, Log(NOW, *confirmed), "rewrite", "here")
    assert (verdict.history, verdict.anew, verdict.begin_epoch) == expected
    assert bool(verdict.why) == (verdict.history != SAME)


@pytest.mark.parametrize("held", [COPY, made_up_history(99, 0)])
def test_what_is_refused_where_the_settings_say_so(held):
    with pytest.raises(
        OtherHistory, match=r'here holds rows of .* other_history is "refuse": choose another'
    ):
        judge(held, HELD, Log(NOW, HELD), "refuse", "here")
    assert judge(HELD, HELD, Log(NOW, HELD), "refuse", "here").history == SAME


@pytest.mark.parametrize("held", [made_up_history(1, 2), made_up_history(9, epoch="other")])
@pytest.mark.parametrize("rule", ["rewrite", "refuse"])
def test_what_is_always_refused(held, rule):
    with pytest.raises(OtherHistory, match="does not write to it; if this folder is the one to keep, begin"):
        judge(held, held, Log(NOW, HELD, held), rule, "here")


# ---- what becomes of the sink --------------------------------------------------------------------------


def test_a_refit_replaces_every_row(folder, refitted):
    """Also where the old model had come much further."""
    sink = Kept()
    with running(folder(edges=[(i, i + 1) for i in range(60)]), sink) as service:
        for node in range(20):
            write(service, (node, node + 30, 1))
        until(lambda: sink.equals(service.live))
        assert (status(service)["history"], service.sinks[0].failures) == (NEW, 0)
    old = sink.epochs
    with running(refitted(), sink) as service:
        until(lambda: sink.equals(service.live))
        until(has(service, REWRITTEN))
        assert "held rows of an older history" in status(service)["why"]
        assert sink.epochs == {service.live.feed.history.epoch} != old
        write(service, (2, 5, 1))
        until(lambda: sink.equals(service.live))


def test_a_restart_goes_on_where_it_was(folder):
    path, sink = folder(), Kept()
    with running(path, sink) as service:
        until(lambda: sink.equals(service.live))
        write(service, (1, 100, 1))
        until(lambda: sink.equals(service.live))
    with running(path, sink) as service:
        until(has(service, SAME))
        sink.writes.clear()
        assert status(service)["why"] is None
        write(service, (800, 801, 1))
        until(lambda: sink.equals(service.live))
        assert sink.writes == [[800, 801]]
        until(lambda: status(service)["behind"] == 0)
    assert len(sink.epochs) == 1


def test_a_place_that_is_lost_is_no_loss(folder):
    path, sink = folder(), Kept()
    with running(path, sink) as service:
        until(lambda: sink.equals(service.live))
        write(service, (1, 100, 1))
    shutil.rmtree(path / "cursors")
    with running(path, sink) as service:
        write(service, (1, 200, 1), (1, 100, -1))
        until(lambda: sink.equals(service.live))
        assert status(service)["history"] == SAME
    assert len(sink.epochs) == 1


def copied(path):
    to = path.with_name(fresh_name())
    shutil.copytree(path, to)
    return to


def restore_a_copy(folder, further):
    """Copy a folder, go on with it, then begin from the copy; return the sink and both folders."""
    path, sink = folder(), Kept()
    with running(path, sink) as service:
        until(lambda: sink.equals(service.live))
    backup = copied(path)
    with running(path, sink) as service:
        for node in range(300, 306):
            write(service, (1, node, 1))
        until(lambda: sink.equals(service.live))
    with running(backup) as service:  # the sink is not reached for a while
        for node in range(further):
            write(service, (2, 400 + node, 1))
    return sink, path, backup


@pytest.mark.parametrize("further", [0, 2, 6, 9], ids=["none", "behind", "level", "ahead"])
def test_a_restored_copy_begins_an_epoch_and_leaves_no_row_of_the_lost_future(folder, further):
    sink, path, backup = restore_a_copy(folder, further)
    lost = sink.epochs
    with running(backup, sink) as service:
        until(lambda: sink.equals(service.live))
        until(has(service, REWRITTEN))
        assert "a copy of this folder that went another way" in status(service)["why"]
        assert 300 not in sink.rows
        assert sink.epochs == {service.live.feed.history.epoch} != lost
        write(service, (1, 500, 1))
        until(lambda: sink.equals(service.live))
    before = dict(sink.model.known)
    with running(path, sink) as service:  # the one that was thought lost comes back
        until(has(service, REFUSED))
        assert "newer history" in status(service)["why"]
        assert status(service)["failure"] == status(service)["why"]
        write(service, (1, 600, 1))
    assert sink.model.known == before
    with running(backup, sink) as service:
        until(has(service, SAME))
        until(lambda: sink.equals(service.live))


def test_a_restored_copy_is_refused_where_the_settings_say_so(folder):
    sink, _, backup = restore_a_copy(folder, 9)
    before = dict(sink.model.known)
    with running(backup, sink, rule="refuse") as service:
        epoch = service.live.feed.history.epoch
        until(has(service, REFUSED))
        assert 'other_history is "refuse"' in status(service)["why"]
        assert service.live.feed.history.epoch == epoch
        assert sink.model.known == before
        sink.model.known, sink.model.newest = {}, None  # somebody removes what is there
        until(lambda: sink.equals(service.live))
        until(has(service, NEW))
        assert status(service)["failure"] is None


def test_confirming_every_position_would_be_noticed(folder, monkeypatch):
    monkeypatch.setattr("dygcn.live.durable.feed.Feed.confirms", lambda live, history: True)
    monkeypatch.setattr(streams, "PATIENCE", 1.0)
    with pytest.raises(AssertionError):
        test_a_restored_copy_begins_an_epoch_and_leaves_no_row_of_the_lost_future(folder, 9)


def test_a_pump_that_never_begins_an_epoch_would_be_noticed(folder, monkeypatch):
    monkeypatch.setattr("dygcn.live.durable.feed.Feed.begin_epoch", lambda live: None)
    monkeypatch.setattr(streams, "PATIENCE", 1.0)
    with pytest.raises(AssertionError):
        test_a_restored_copy_begins_an_epoch_and_leaves_no_row_of_the_lost_future(folder, 2)


def test_a_pump_that_goes_on_whatever_the_sink_holds_would_be_noticed(folder, monkeypatch):
    monkeypatch.setattr(workers, "judge", lambda *_: Verdict(SAME))
    monkeypatch.setattr(streams, "PATIENCE", 1.0)
    with pytest.raises(AssertionError):
        test_a_restored_copy_begins_an_epoch_and_leaves_no_row_of_the_lost_future(folder, 9)


def test_a_folder_to_be_kept_begins_an_epoch(folder, refitted):
    """The sink holds rows of a newer history; the operator says that ours is the one to keep."""
    sink, path, newer = Kept(), folder(), refitted()
    dygcn.open(path).close()
    with running(path) as service:
        assert service.live.feed.history.generation
    with running(newer, sink) as service:
        until(lambda: sink.equals(service.live))
    with running(path, sink) as service:
        until(has(service, REFUSED))
        service.live.feed.begin_epoch()
        until(has(service, REWRITTEN))
        assert sink.equals(service.live)


class Watched(threading.Event):
    """An event that says how long it was waited for."""

    def __init__(self):
        super().__init__()
        self.pauses = []

    def wait(self, timeout=None):
        self.pauses.append(timeout)
        return super().wait(timeout)


def pause_of_a_refused_sink(folder, refitted):
    sink, path = Kept(), folder()
    with running(path) as service:
        assert service.live.feed.history.generation
    with running(refitted(), sink) as service:
        until(lambda: sink.equals(service.live))
    with running(path) as service:
        service.add_sink(sink)
        worker = service.sinks[0]
        worker._stop = Watched()
        worker.start()
        until(lambda: worker._stop.pauses)
        assert "newer history" in worker.failure
    return worker._stop.pauses[0]


def test_a_refused_sink_is_not_asked_again_and_again(folder, refitted, monkeypatch):
    monkeypatch.setattr(workers, "_LONGEST_PAUSE", 3600.0)
    assert pause_of_a_refused_sink(folder, refitted) == 3600.0


def test_a_refused_sink_that_is_asked_at_once_would_be_noticed(folder, refitted, monkeypatch):
    monkeypatch.setattr(workers, "_LONGEST_PAUSE", 3600.0)
    monkeypatch.setattr(workers, "OtherHistory", type("Another", (Exception,), {}))
    with pytest.raises(AssertionError):
        test_a_refused_sink_is_not_asked_again_and_again(folder, refitted, monkeypatch)


def test_a_sink_that_lost_rows_gets_all_of_them(folder):
    path, sink = folder(), Kept()
    with running(path, sink) as service:
        until(lambda: sink.equals(service.live))
    saved = copy.deepcopy(sink.model)
    with running(path, sink) as service:
        write(service, (1, 100, 1))
        until(lambda: sink.equals(service.live))
    sink.model = saved
    with running(path, sink) as service:
        until(lambda: sink.equals(service.live))
        until(has(service, REWRITTEN))
        assert "lost some, or was restored from a copy" in status(service)["why"]
    assert len(sink.epochs) == 1


def test_an_emptied_sink_gets_all_rows(folder):
    path, sink = folder(), Kept()
    with running(path, sink) as service:
        write(service, (1, 100, 1))
        until(lambda: sink.equals(service.live))
    sink.model.known, sink.model.newest = {}, None
    with running(path, sink) as service:
        until(lambda: sink.equals(service.live))
        assert status(service)["history"] == NEW
        assert "held nothing" in status(service)["why"]


class Second(Kept):
    name = "dict://second"


def test_one_epoch_is_begun_for_all_sinks(folder):
    path, sinks = folder(), (Kept(), Second())
    with running(path, *sinks) as service:
        until(lambda: all(sink.equals(service.live) for sink in sinks))
    backup = copied(path)
    with running(path, *sinks) as service:
        write(service, (1, 300, 1))
        until(lambda: all(sink.equals(service.live) for sink in sinks))
        old = service.live.feed.history
    begun = []
    with running(backup) as service:
        begin = type(service.live.feed).begin_epoch
        with pytest.MonkeyPatch.context() as watched:
            watched.setattr(
                type(service.live.feed), "begin_epoch", lambda feed: (begun.append(1), begin(feed))[1]
            )
            for sink in sinks:
                service.add_sink(sink)
            for worker in service.sinks:
                worker.start()
            until(lambda: all(worker.history == REWRITTEN for worker in service.sinks))
        assert all(sink.equals(service.live) for sink in sinks)
        assert sinks[0].epochs == sinks[1].epochs == {service.live.feed.history.epoch}
        assert service.live.feed.history.generation > old.generation
    assert begun == [1]


def test_an_epoch_that_begins_meanwhile_reaches_every_sink(folder):
    path, sinks = folder(), (Kept(), Second())
    with running(path, *sinks) as service:
        until(lambda: all(sink.equals(service.live) for sink in sinks))
        service.live.feed.begin_epoch()
        write(service, (1, 300, 1))
        until(lambda: all(worker.history == REWRITTEN for worker in service.sinks))
        assert all(sink.equals(service.live) for sink in sinks)
        assert sinks[0].epochs == sinks[1].epochs == {service.live.feed.history.epoch}


def test_a_rewriting_that_is_interrupted_goes_on(folder, refitted, monkeypatch):
    sink, path = Kept(), refitted()
    with running(folder(edges=[(i, i + 1) for i in range(60)]), sink) as service:
        until(lambda: sink.equals(service.live))
    monkeypatch.setattr(workers, "_ROWS", 1)
    writes = []
    whole = sink.write

    def fail_later(rows):
        writes.append(rows)
        if len(writes) > 2:
            raise FULL_DISK
        whole(rows)

    monkeypatch.setattr(sink, "write", fail_later)
    with running(path, sink) as service:
        until(lambda: status(service)["failures"] > 1)
        assert status(service)["history"] == REWRITING
        assert len(sink.epochs) == 2
    monkeypatch.setattr(sink, "write", whole)
    with running(path, sink) as service:
        until(has(service, REWRITTEN))
        assert "older history" in status(service)["why"]
        assert sink.equals(service.live)
        assert sink.epochs == {service.live.feed.history.epoch}
    with running(path, sink) as service:
        until(has(service, SAME))
        assert status(service)["why"] is None


def test_rows_of_others_that_are_not_taken_out_would_be_noticed(folder, refitted, monkeypatch):
    def forget(self, history):
        self._place.delete_below = None
        self.history = REWRITTEN

    monkeypatch.setattr(SinkWorker, "_delete_below", forget)
    monkeypatch.setattr(streams, "PATIENCE", 1.0)
    with pytest.raises(AssertionError):
        test_a_refit_replaces_every_row(folder, refitted)


def test_a_place_from_ahead_of_the_log_is_not_kept(folder):
    """Copied while it was written to: the place is newer than the log, which then goes another way."""
    path, sink = folder(), Kept()
    with running(path, sink) as service:
        until(lambda: sink.equals(service.live))
    backup = copied(path)
    with running(path, sink) as service:
        write(service, (1, 300, 1))
        until(lambda: sink.equals(service.live))
    shutil.rmtree(backup / "cursors")
    shutil.copytree(path / "cursors", backup / "cursors")
    sink.errors += [FULL_DISK] * 100_000
    with running(backup, sink) as service:
        for node in range(400, 405):
            write(service, (1, node, 1))
        until(lambda: status(service)["failures"] > 0)
        sink.errors.clear()
        until(lambda: sink.equals(service.live))
        assert 300 not in sink.rows


def test_the_settings_of_a_sink_say_what_is_done(folder, refitted, tmp_path):
    out = str(tmp_path / "vectors")
    with running(folder(), sinks=[ParquetSettings(folder=out)]) as service:
        until(lambda: status(service)["behind"] == 0 and has(service, NEW)())
    before = read_rows(out)
    path = refitted()
    with running(path, sinks=[ParquetSettings(folder=out, other_history="refuse")]) as service:
        until(has(service, REFUSED))
        assert service.report.status().sinks[0]["history"] == REFUSED
        assert service.report.status().sinks[0]["why"] == service.report.status().sinks[0]["failure"]
    assert read_rows(out).equals(before)
    with running(path, sinks=[ParquetSettings(folder=out)]) as service:
        until(has(service, REWRITTEN))
        assert set(read_rows(out)["epoch"].to_pylist()) == {service.live.feed.history.epoch}
        assert set(read_rows(out)["id"].to_pylist()) == set(service.live)


def test_a_service_of_a_graph_with_kinds_writes_them(tmp_path):
    out, path = str(tmp_path / "vectors"), tmp_path / "shop"
    edges = {"user": [1, 2, 3, 1], "item": [1, 1, 2, 2]}
    dygcn.open(path, dygcn.fit(edges, src="user", dst="item", kinds=True, dim=8)).close()
    with running(path, sinks=[ParquetSettings(folder=out)]) as service:
        until(lambda: has(service, NEW)() and len(read_rows(out)) == len(service.live))
        rows = read_rows(out)
        assert list(zip(rows["kind"].to_pylist(), rows["id"].to_pylist(), strict=True)) == sorted(
            (kind, f"{kind}:{id_}") for kind, id_ in service.live
        )
    with running(path, sinks=[ParquetSettings(folder=out)]) as service:
        until(has(service, SAME))


# ---- any mixture -----------------------------------------------------------------------------------------

_STEPS = draw.lists(
    draw.one_of(
        draw.tuples(draw.integers(0, 9), draw.integers(10, 19), draw.sampled_from([1, 1, -1])),
        draw.sampled_from(["restart", "back up", "restore", "refit", "fail", "empty", "restore the sink"]),
    ),
    min_size=3,
    max_size=20,
)


@given(_STEPS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_through_refits_copies_and_losses_the_sink_holds_the_live_rows(models, tmp_path_factory, steps):
    home, sink = tmp_path_factory.mktemp("histories"), Kept()

    def begun():
        path = home / fresh_name()
        dygcn.start(models["int64"]).save(path)
        with dygcn.open(path) as live:
            assert live.feed.history.generation  # a refit is newer than what was begun before it
        return path

    path = begun()
    backups, models_of_the_sink = [], [copy.deepcopy(sink.model)]
    runs = [[]]
    for step in steps:
        runs.append([step]) if isinstance(step, str) and step != "fail" else runs[-1].append(step)
    for run in runs:
        if run[:1] == ["back up"]:
            backups.append(copied(path))
            models_of_the_sink.append(copy.deepcopy(sink.model))
        elif run[:1] == ["restore"] and backups:
            path = copied(backups[-1])
        elif run[:1] == ["refit"]:
            path = begun()
        elif run[:1] == ["empty"]:
            sink.model.known, sink.model.newest = {}, None
        elif run[:1] == ["restore the sink"]:
            sink.model = copy.deepcopy(models_of_the_sink[-1])
        with running(path, sink) as service:
            for step in run:
                if step == "fail":
                    sink.errors.append(FULL_DISK)
                elif not isinstance(step, str):
                    write(service, step)
            until(lambda: service.sinks[0].history is not None)
            sink.errors.clear()
            until(lambda: _deleted_below(service, sink))


def _deleted_below(service, sink):
    """Say whether the sink has all rows; where it is refused, the operator keeps this folder."""
    worker = service.sinks[0]
    newest = sink.model.newest
    if worker.history == REFUSED and newest.generation > service.live.feed.history.generation:
        service.live.feed.begin_epoch()
    mine = worker.history in (SAME, NEW, REWRITTEN) and worker.status()["behind"] == 0
    return mine and sink.equals(service.live) and sink.epochs <= {service.live.feed.history.epoch}


# ---- on a real server --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def database():
    with postgres_server() as server:
        yield server


def test_a_refit_into_the_same_table_and_a_restored_copy_of_it(database, models, tmp_path, monkeypatch):
    """What was seen: 1,997 of 2,000 rows stayed those of the old model, and the status was clean."""
    table = fresh_name()
    sinks = [PostgresSettings(url=database.url, table=table)]

    def is_equal(service):
        if service.sinks[0].history is None:
            return False
        found = read_table(database.url, table)
        with service.live.lock:
            ids = list(service.live)
            same = {one: vector.tobytes() for one, (_, vector) in found.items()} == {
                one: vector.tobytes() for one, vector in zip(ids, service.live.vectors(ids), strict=True)
            }
            return same and {at.epoch for at, _ in found.values()} == {service.live.feed.history.epoch}

    paths = []
    for nodes in (2_000, 1_500):
        live = dygcn.fit([(i, (7 * i + nodes) % nodes) for i in range(1, nodes)], dim=8)
        paths.append(tmp_path / f"{nodes}")
        live.save(paths[-1])
    with running(paths[0], sinks=sinks) as service:
        until(lambda: is_equal(service))
        for node in range(30):
            write(service, (node, 5_000 + node, 1))
        until(lambda: is_equal(service))
    with running(paths[1], sinks=sinks) as service:
        until(lambda: is_equal(service))
    backup = copied(paths[1])
    with running(paths[1], sinks=sinks) as service:
        write(service, *((node, 6_000 + node, 1) for node in range(10)))
        until(lambda: is_equal(service))
    with running(backup, sinks=sinks) as service:
        write(service, (1, 7_000, 1))
        until(lambda: is_equal(service))
        until(has(service, REWRITTEN))
    with running(paths[1], sinks=sinks) as service:
        until(has(service, REFUSED))
    with running(backup, sinks=sinks) as service:
        until(has(service, SAME))
        assert is_equal(service)
