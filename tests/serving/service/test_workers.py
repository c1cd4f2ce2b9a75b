"""Sources and sinks beside HTTP: in order, exactly once, through failures, and up to date at the end."""

import dataclasses
import threading
from contextlib import contextmanager

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dygcn
from dygcn.engine.records import Message
from dygcn.errors import SourceError, WriteFailed
from dygcn.serving.service import workers as workers
from dygcn.serving.service.service import Service
from dygcn.serving.service.settings import Limits
from dygcn.serving.service.workers import SinkWorker
from tests.serving.service import streams
from tests.serving.service.serving import on_loopback
from tests.serving.service.streams import FULL_DISK, LOST, Forgetful, Kept, Listed, message, until


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr(workers, "_PAUSE", 0.02)
    monkeypatch.setattr(workers, "_BETWEEN", 0.01)


@contextmanager
def running(path, source=None, sink=None, **limits):
    service = Service(on_loopback(path, limits=Limits(**limits)))
    if source is not None:
        service.add_source(source)
    if sink is not None:
        service.add_sink(sink)
    service.start()
    try:
        yield service
    finally:
        service.stop()


def edge(a, b, **more):
    return msgspec.json.encode({"src": a, "dst": b, **more})


def path_of(first, count):
    """Messages with one event each, from node to node."""
    return [message(10 + i, edge(1000 + i, 1001 + i)) for i in range(first, first + count)]


def letters(service):
    return [letter for _, letter in service.live._log.dead_letters(1000)]


# ---- sources -----------------------------------------------------------------------------------------


def test_messages_are_applied_and_the_place_is_in_the_state(folder):
    path, source = folder(), Listed(path_of(0, 50), at_once=7)
    with running(path, source) as service:
        until(lambda: service.live.streams.get("clicks") == 59)
        assert all(node in service.live for node in range(1000, 1051))
        source.messages += path_of(50, 5)
        until(lambda: service.live.streams.get("clicks") == 64)
        status = service.sources[0].status()
        assert (status["name"], status["failure"], status["failures"]) == ("list://messages", None, 0)
        until(lambda: service.sources[0].status()["messages"] == 55)
        assert service.sources[0].status()["lag"] == 0
    assert source.closed
    again = Listed(path_of(0, 60))
    with running(path, again) as service:
        until(lambda: service.live.streams.get("clicks") == 69)
        assert again.opened[0]["clicks"] == 64
        until(lambda: service.sources[0].messages == 5)


def test_streams_keep_their_order_and_their_places(folder):
    messages = []
    for i in range(30):
        messages.append(message(i, edge(2000, 2001, op=1 if i % 2 else -1, weight=1.0), stream="a"))
        messages.append(message(100 + i, edge(3000 + i, 3001), stream="b", form="ndjson"))
    with running(folder(), Listed(messages, at_once=11)) as service:
        until(lambda: (service.live.streams.get("a"), service.live.streams.get("b")) == (29, 129))
        assert 2000 in service.live  # the last one said so
        assert 3029 in service.live


def test_bad_messages_go_to_the_dead_letters(folder):
    messages = [
        message(5, edge(1, 50)),
        message(6, b"nonsense"),
        message(7, b'[{"src": 1, "dst": 51}, {"src": 1}, {"src": 1, "dst": 52, "weight": -1}]'),
        message(8, edge(1, 53, weight=1e30)),  # can be read, and not be applied
        message(9, b'[{"src": 1, "dst": 54}, {"src": 1, "dst": 55, "weight": 1e30}]'),
        message(10, b"\xff", form="arrow"),
        message(11, edge(1, 56)),
    ]
    with running(folder(), Listed(messages)) as service:
        until(lambda: service.live.streams.get("clicks") == 11)
        assert all(node in service.live for node in (50, 51, 54, 56))
        assert not any(node in service.live for node in (52, 53, 55))
        found = {(one.stream, one.offset, one.row) for one in letters(service)}
        assert found == {("clicks", *place) for place in ((6, -1), (7, 1), (7, 2), (8, 0), (9, 1), (10, -1))}
        assert service.sources[0].failure is None


def test_letters_at_a_wrong_place_would_be_noticed(folder, monkeypatch):
    joined = workers._joined
    monkeypatch.setattr(
        workers, "_joined", lambda *group: dataclasses.replace(joined(*group), origins=None, rows=None)
    )
    with pytest.raises(AssertionError):
        test_bad_messages_go_to_the_dead_letters(folder)


def test_a_message_with_too_many_events_is_a_dead_letter(folder, monkeypatch):
    decode = workers.decode_events
    monkeypatch.setattr(
        workers, "decode_events", lambda body, form, kind, **_: decode(body, form, kind, limit=3)
    )
    many = msgspec.json.encode([{"src": 1, "dst": node} for node in range(60, 64)])
    with running(folder(), Listed([message(1, many), message(2, edge(1, 70))])) as service:
        until(lambda: service.live.streams.get("clicks") == 2)
        assert [(one.offset, one.row) for one in letters(service)] == [(1, -1)]
        assert 60 not in service.live
        assert 70 in service.live


def test_dated_and_undated_messages_may_alternate(folder):
    messages = [message(i, edge(1, 80 + i, **({"t": i} if i % 3 else {}))) for i in range(12)]
    messages.insert(6, message(5, b"nonsense"))  # with a place that was there already
    with running(folder(), Listed(messages)) as service:
        until(lambda: service.live.streams.get("clicks") == 11)
        assert all(80 + i in service.live for i in range(12))


TOGGLES = [message(i, edge(500, 501, op=1 if i % 2 == 0 else -1)) for i in range(10)]


def test_what_comes_twice_is_applied_once(folder):
    """Adds and removes of one edge: whatever is applied again, or in another order, shows."""
    path = folder()
    with running(path, Forgetful([*TOGGLES, *TOGGLES[3:8]], at_once=4)) as service:
        until(lambda: service.live.streams.get("clicks") == 9)
        assert 500 not in service.live
        version = service.live.version
    with running(path, Forgetful([*TOGGLES[:9], message(10, edge(600, 601))], at_once=4)) as service:
        until(lambda: service.live.streams.get("clicks") == 10)
        assert 500 not in service.live
        assert service.live.version == version + 1


def test_repeats_that_nobody_leaves_out_would_be_noticed(folder, monkeypatch):
    monkeypatch.setattr(workers, "_fresh", lambda messages, streams: messages)
    with pytest.raises(AssertionError):
        test_what_comes_twice_is_applied_once(folder)


def test_a_lost_connection_is_opened_again_where_it_was(folder):
    source = Listed(path_of(0, 20), at_once=5)
    with running(folder(), source) as service:
        until(lambda: service.live.streams.get("clicks") == 29)
        source.errors += [LOST, LOST]
        until(lambda: service.sources[0].failures == 2)
        source.messages += path_of(20, 5)
        until(lambda: service.live.streams.get("clicks") == 34)
        assert [after.get("clicks") for after in source.opened] == [None, 29, 29]
        assert service.sources[0].failure is None
        assert all(node in service.live for node in range(1000, 1025))


def test_a_failure_is_shown_while_it_lasts(folder, monkeypatch):
    monkeypatch.setattr(workers, "_PAUSE", 0.2)
    source = Listed(path_of(0, 3))
    source.errors += [LOST]
    with running(folder(), source) as service:
        until(lambda: service.sources[0].failure is not None)
        assert service.report.status().sources[0]["failure"] == str(LOST)
        assert service.report.status().sources[0]["lag"] is None
        until(lambda: service.sources[0].failure is None)
        until(lambda: service.live.streams.get("clicks") == 12)


def test_an_unexpected_error_does_not_end_a_source_and_is_not_told_in_full(folder):
    source = Listed(path_of(0, 3))
    source.errors += [RuntimeError("nats://me:swordfish@host"), KeyError("swordfish")]
    with running(folder(), source) as service:
        until(lambda: service.live.streams.get("clicks") == 12)
        assert service.sources[0].failures == 2
    source.errors += [RuntimeError("nats://me:swordfish@host")] * 1_000
    with running(folder(), source) as service:
        until(lambda: service.sources[0].failure is not None)
        assert service.sources[0].failure == "list://messages: RuntimeError"


def test_a_source_waits_where_requests_are_shed(folder):
    """More messages than the queue has room for: none is lost, none is shed."""
    source = Listed(path_of(0, 400), at_once=60)
    with running(folder(), source, queued_events=20, cut_events=5) as service:
        until(lambda: service.live.streams.get("clicks") == 409)
        assert service.queue.shed == 0 or service.live.streams["clicks"] == 409
        assert all(node in service.live for node in range(1000, 1401))


def test_a_stream_that_cannot_be_followed_is_a_failure_not_a_loss(folder, monkeypatch):
    monkeypatch.setattr("dygcn.live.durable.source_batch.MOST_STREAMS", 0)
    with running(folder(), Listed(path_of(0, 3))) as service:
        until(lambda: "no more streams" in (service.sources[0].failure or ""))
        monkeypatch.setattr("dygcn.live.durable.source_batch.MOST_STREAMS", 10)
        until(lambda: service.live.streams.get("clicks") == 12)


@pytest.mark.parametrize("wrong", ["\n", "x" * 300, ""], ids=["unprintable", "long", "empty"])
def test_a_stream_with_an_impossible_name_harms_nobody_else(folder, wrong):
    with running(folder(), Listed([Message(wrong, 1, b"[]")])) as service:
        until(lambda: service.sources[0].failures > 0)
        done = threading.Event()
        service.queue.submit(
            workers.source_batches([message(1, edge(1, 99))], service.live, None)[0],
            lambda result: done.set(),
        )
        assert done.wait(20)
        assert 99 in service.live


def test_after_a_failed_write_the_messages_come_again(folder, monkeypatch):
    path = folder()
    source = Listed(path_of(0, 10), at_once=3)
    with running(path, source) as service:
        until(lambda: service.live.streams.get("clicks") == 19)
        failure = WriteFailed("the disk is full")
        service.live._log.failure = failure
        source.messages += path_of(10, 5)
        until(lambda: service.sources[0].failures > 1)
        until(lambda: "the disk is full" in (service.sources[0].failure or ""))
        assert service.live.streams["clicks"] == 19
        assert service.live._log.failure is failure
    with running(path, Listed(path_of(0, 15))) as service:
        until(lambda: service.live.streams.get("clicks") == 24)
        assert all(node in service.live for node in range(1000, 1016))


def test_stopping_closes_the_source_and_loses_nothing(folder):
    path = folder()
    source = Listed(path_of(0, 2_000), at_once=100)
    with running(path, source) as service:
        until(lambda: service.live.streams.get("clicks", 0) > 100)
    assert source.closed
    with running(path, Listed(path_of(0, 2_000), at_once=100)) as service:
        until(lambda: service.live.streams.get("clicks") == 2_009)
        assert service.live.edge_count == 5 + 2_000


# ---- sinks -------------------------------------------------------------------------------------------


def write(service, *edges):
    """Apply events as a request does, and wait for it."""
    done = threading.Event()
    body = msgspec.json.encode([{"src": a, "dst": b, "op": op} for a, b, op in edges])
    found = workers._decode(message(0, body), service.live.model.ids, None)
    service.queue.submit(workers.SourceBatch(found.batch), lambda result: done.set())
    assert done.wait(20)


def test_a_sink_becomes_equal_and_stays_so(folder):
    sink = Kept()
    with running(folder(), sink=sink) as service:
        until(lambda: sink.equals(service.live))
        assert sink.opened == [("int64", 8)]
        write(service, (1, 100, 1), (100, 101, 1))
        until(lambda: sink.equals(service.live))
        write(service, (100, 101, -1))
        until(lambda: sink.equals(service.live))
        assert 101 not in sink.rows
        until(lambda: service.sinks[0].status()["behind"] == 0)
        assert service.sinks[0].status()["rows"] > 0
    assert sink.closed


def test_only_what_moved_is_written(folder):
    sink = Kept()
    with running(folder(), sink=sink) as service:
        until(lambda: sink.equals(service.live))
        sink.writes.clear()
        write(service, (800, 801, 1))
        until(lambda: sink.equals(service.live))
        assert sink.writes == [[800, 801]]


def test_a_node_that_moves_often_is_written_seldom(folder):
    sink = Kept()
    with running(folder(), sink=sink) as service:
        until(lambda: sink.equals(service.live))
        sink.go.clear()
        for _ in range(20):
            write(service, (800, 801, 1), (800, 802, -1), (800, 802, 1))
            write(service, (800, 802, -1))
        sink.writes.clear()
        sink.go.set()
        until(lambda: sink.equals(service.live))
        assert sum(800 in ids for ids in sink.writes) <= 3


def test_large_graphs_come_in_pages(folder, monkeypatch):
    monkeypatch.setattr(workers, "_ROWS", 7)
    sink = Kept()
    with running(folder(edges=[(i, i + 1) for i in range(60)]), sink=sink) as service:
        until(lambda: sink.equals(service.live))
        assert max(map(len, sink.writes)) <= 7
        until(lambda: sink.deleted_below)
        assert sink.deleted_below == [0]


def test_a_sink_goes_on_where_it_was(folder):
    path, sink = folder(), Kept()
    with running(path, sink=sink) as service:
        until(lambda: sink.equals(service.live))
        write(service, (1, 100, 1))
    assert 100 in sink.rows
    sink.writes.clear()
    with running(path, sink=sink) as service:
        write(service, (800, 801, 1))
        until(lambda: sink.equals(service.live))
        assert {one for ids in sink.writes for one in ids} >= {800, 801}
        live = service.live
        until(lambda: service.sinks[0].status()["behind"] == 0)
        assert sink.equals(live)


@pytest.mark.parametrize("text", ["", "{}", "nonsense", '{"next": 7}', '{"other": 1}'])
def test_a_place_that_cannot_be_read_is_no_place(folder, text):
    path, sink = folder(), Kept()
    workers.keep_cursor(path, sink.name, text)
    with running(path, sink=sink) as service:
        until(lambda: sink.equals(service.live))


def test_failed_writes_come_again(folder):
    sink = Kept()
    sink.errors += [FULL_DISK, FULL_DISK]
    with running(folder(), sink=sink) as service:
        until(lambda: sink.equals(service.live))
        assert service.sinks[0].failures == 2
        assert service.sinks[0].failure is None
        sink.errors += [FULL_DISK, ValueError("swordfish")]
        write(service, (1, 100, 1))
        until(lambda: sink.equals(service.live))
        assert service.sinks[0].failures == 4
    assert sink.closed >= 5


def test_a_place_kept_before_the_write_would_be_noticed(folder, monkeypatch):
    """If the place goes ahead of the write, a failed write is a lost row."""

    def early(self):
        with self._live.lock:
            page = self._live.feed.since(self._place.next, 1_000)
        self._place.next = page.next
        if len(page.rows):
            self._sink.write(page.rows)
            self._place.history = page.rows.history
        return page.more

    monkeypatch.setattr(SinkWorker, "_write_page", early)
    monkeypatch.setattr(streams, "PATIENCE", 1.0)
    with pytest.raises(AssertionError):
        test_failed_writes_come_again(folder)


def test_a_drain_brings_the_sink_up_to_the_last_event(folder):
    """Also what is applied while the sink is still busy with a page from before."""
    sink = Kept()
    with running(folder(), sink=sink) as service:
        until(lambda: sink.equals(service.live))
        sink.go.clear()
        write(service, (1, 100, 1))
        until(lambda: service.sinks[0]._news.is_set() is False)
        write(service, (1, 200, 1))
        service.sinks[0]._stop.set()  # the drain begins while the write still waits
        service.sinks[0]._news.set()
        live = service.live
        sink.go.set()
        service.sinks[0].stop()
        assert sink.equals(live)


def test_a_drain_that_stops_at_once_would_be_noticed(folder, monkeypatch):
    def hasty(self):
        self._sink.open("int64", 8)
        while True:
            more = self._write_page()
            if not more and self._stop.is_set():
                return
            if not more:
                self._news.wait()
                self._news.clear()

    monkeypatch.setattr(SinkWorker, "_work", hasty)
    with pytest.raises(AssertionError):
        test_a_drain_brings_the_sink_up_to_the_last_event(folder)


def test_a_sink_that_is_away_does_not_hold_up_the_end(folder):
    sink = Kept()
    sink.errors += [FULL_DISK] * 10_000
    with running(folder(), sink=sink) as service:
        until(lambda: service.sinks[0].failures > 0)
        write(service, (1, 100, 1))
    assert sink.rows == {}


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.integers(0, 12), st.integers(0, 12), st.sampled_from([1, 1, -1])),
        st.sampled_from(["source fails", "sink fails", "restart", "again"]),
    ),
    min_size=1,
    max_size=25,
)


@given(_STEPS)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_through_any_failures_the_sink_holds_what_the_source_said(models, tmp_path_factory, steps):
    path = tmp_path_factory.mktemp("workers") / "graph"
    dygcn.start(models["int64"]).save(path)
    source, sink, edges = Forgetful(at_once=3), Kept(), set()
    position = 0
    runs = [[]]
    for step in steps:
        runs.append([]) if step == "restart" else runs[-1].append(step)
    for run in runs:
        with running(path, source, sink) as service:
            for step in run:
                if step == "source fails":
                    source.errors.append(SourceError("it is away"))
                elif step == "sink fails":
                    sink.errors.append(FULL_DISK)
                elif step == "again":
                    source.messages += source.messages[-3:]
                else:
                    a, b, op = step
                    position += 1
                    source.messages.append(message(position, edge(a, b, op=op)))
                    if a != b:
                        pair = (min(a, b), max(a, b))
                        edges = edges | {pair} if op == 1 else edges - {pair}
            until(lambda: service.live.streams.get("clicks", 0) == position)  # noqa: B023
            assert service.live.edge_count == len(edges)
            assert set(service.live) == {node for pair in edges for node in pair}
            until(lambda: sink.equals(service.live))
