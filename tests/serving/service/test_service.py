"""The service without its web: whole states only, a drain in order, and nothing left behind."""

import threading
import time

import numpy as np
import pytest

import dygcn
from dygcn.engine.events import read_events, rows_of
from dygcn.errors import FolderInUse, MissingExtra, MissingFolder, OptionError, UnknownNode
from dygcn.live.durable.source_batch import SourceBatch
from dygcn.serving.service.nearest import NearestSearch
from dygcn.serving.service.service import Service
from dygcn.serving.sinks import ParquetSettings
from tests.serving.service.serving import on_loopback
from tests.serving.service.streams import Kept, Listed, until


@pytest.fixture
def start(folder):
    """Start services; stop them at the end of the test."""
    begun = []

    def make(kind="int64", edges=None, **settings):
        service = Service(on_loopback(folder(kind, edges), **settings))
        begun.append(service)
        return service

    yield make
    for service in begun:
        service.stop()


def write(service, *edges, remove=()):
    done, results = threading.Event(), []
    rows = [(a, b, 0.0, 1) for a, b in edges] + [(a, b, 0.0, -1) for a, b in remove]
    batch = read_events(rows)
    service.queue.submit(SourceBatch(batch), lambda result: (results.append(result), done.set()))
    assert done.wait(20)
    return results[0]


def test_a_read_never_sees_half_an_update(start):
    """All spokes of a star come and go in one request: whoever reads sees all of them or none."""
    service = start()
    service.start()
    star = [(10_000, 20_000 + i) for i in range(300)]
    ids = [10_000, *(20_000 + i for i in range(300))]
    seen, stop, wrong = set(), threading.Event(), []

    def read():
        while not stop.is_set():
            found = service.reads.vectors(ids)
            here, vectors, missing = found.ids, found.vectors, found.missing
            seen.add(len(here))
            if len(here) not in (0, 301) or len(missing) != 301 - len(here) or len(vectors) != len(here):
                wrong.append(len(here))

    readers = [threading.Thread(target=read, daemon=True) for _ in range(2)]
    for reader in readers:
        reader.start()
    until_both = time.monotonic() + 10
    while seen != {0, 301} and time.monotonic() < until_both:
        write(service, *star)
        write(service, remove=star)
    stop.set()
    for reader in readers:
        reader.join(20)
    assert wrong == []
    assert seen == {0, 301}


def test_reads_without_the_lock_would_be_noticed(start, monkeypatch):
    class Open:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def _is_owned(self):
            return False

    service = start()
    service.start()
    hub = [(10_000, 20_000 + i) for i in range(300)]
    write(service, *hub)
    held, wrong = service.live.lock, []
    service.live.lock = Open()
    apply = service.live._live._apply

    def in_two_halves(batch, now):
        middle = len(batch) // 2
        service.live._state.apply(rows_of(batch, np.arange(middle)), now)
        wrong.append(len(service.reads.vectors([20_000 + i for i in range(300)]).ids))
        return apply(rows_of(batch, np.arange(middle, len(batch))), now)

    monkeypatch.setattr(service.live._live, "_apply", in_two_halves)
    write(service, remove=hub)
    service.live.lock = held
    assert wrong == [150]  # which the test above would have seen


def test_vectors_are_those_of_the_embedding_whatever_moved(start):
    service = start()
    service.start()
    generator = np.random.default_rng(3)
    for _ in range(20):
        edges = generator.integers(0, 30, (5, 2)).tolist()
        write(service, *map(tuple, edges[:3]), remove=[tuple(edge) for edge in edges[3:]])
        ids = list(service.live)
        found = service.reads.vectors(ids)
        assert found.ids == ids
        assert np.array_equal(found.vectors, service.live.vectors(ids))
        node = ids[int(generator.integers(len(ids)))]
        assert np.array_equal(service.reads.vector(node)[1], service.live[node])
        near = [one.id for one in service.search.nearest_to(node, 3).nodes]
        assert near == [one for one, _ in service.live.nearest(node, k=3)]
    assert service.live.digest() == service.live.recompute().digest()


def test_the_status_is_true(start):
    service = start()
    service.start()
    write(service, (1, 100), (100, 101))
    service.reads.vector(1)
    status = service.report.status()
    assert (status.sequence, status.nodes, status.edges) == (1, 7, 7)
    assert (status.dim, status.orders, status.rule, status.ids) == (8, 2, "exact", "int64")
    assert (status.traffic.events, status.traffic.requests, status.traffic.reads) == (2, 1, 1)
    assert {100, 101} <= set(status.moved_last)
    assert (status.accepting, status.failure) == (True, None)
    assert status.queue.most_events == service.settings.limits.queued_events
    write(service, remove=[(100, 101), (1, 100)])
    assert not {100, 101} & set(service.report.status().moved_last)


def test_a_drain_goes_from_the_sources_to_the_disk(folder, monkeypatch):
    service = Service(on_loopback(folder()))
    order, sink = [], Kept()
    service.add_source(Listed())
    service.add_sink(sink)
    for name, owner in (
        ("source", service.sources[0]),
        ("sink", service.sinks[0]),
    ):
        stop = owner.stop
        monkeypatch.setattr(
            owner, "stop", lambda until, stop=stop, name=name: (order.append(name), stop(until))[1]
        )
    for name, owner, end in (
        ("queue", service.queue, "close"),
        ("snapshot", service.live, "snapshot"),
        ("disk", service.live, "close"),
    ):
        close = getattr(owner, end)
        monkeypatch.setattr(owner, end, lambda close=close, name=name: (order.append(name), close()))
    service.start()
    write(service, (1, 100))
    service.stop()
    assert order == ["source", "queue", "snapshot", "sink", "disk"]
    assert 100 in sink.rows
    with dygcn.open(service.settings.folder) as again:
        assert 100 in again
        assert again._ahead.saved_at == again.sequence  # nothing to replay


def test_a_service_that_was_never_started_stops(start):
    start()


def test_a_folder_is_served_once(start):
    service = start()
    with pytest.raises(FolderInUse):
        Service(service.settings)


def test_what_is_missing_is_told_and_the_folder_let_go(folder, monkeypatch, tmp_path):
    with pytest.raises(MissingFolder, match="does not exist"):
        Service(on_loopback(tmp_path / "nothing"))
    path = folder()

    def missing(settings):
        raise MissingExtra("pip install 'dygcn[nats]'")

    monkeypatch.setattr(ParquetSettings, "make", missing)
    settings = on_loopback(path, sinks=[ParquetSettings(folder=str(tmp_path / "out"))])
    with pytest.raises(MissingExtra):
        Service(settings)
    with dygcn.open(path):
        pass  # nobody holds it


def test_vectors_that_are_not_finite_are_refused(start):
    service = start()
    for wrong in ([float("nan")] * 8, [float("inf")] * 8, [1e300] * 8, [0.0] * 7, []):
        with pytest.raises(OptionError, match="allowed are 8 finite ones"):
            service.search.nearest(wrong, 3)


def test_everyone_is_told_after_each_transaction(start):
    service = start()
    result = []
    service.listeners.append(lambda: result.append(service.live.sequence))
    write(service, (1, 100))
    write(service, (1, 101))
    assert result == [1, 2]


def test_moving_nodes_do_not_pile_up(start):
    """Nobody asks for neighbours: who moved is kept, not how often."""
    service = start()
    hub = [(50_000, 60_000 + i) for i in range(300)]
    for number in range(20):
        write(service, *hub, (50_000, 70_000 + number))
    assert len(service.live._live._change_record().behind(0).nodes) <= service.live._state.graph.ids.high
    service.start()
    until(lambda: service.report.status().nearest["pending"] == 0)
    found = service.search.nearest_to(50_000, 400).nodes
    assert {one.id for one in found} == set(service.live) - {50_000}


def test_a_service_that_stops_does_not_publish_what_a_tolerance_keeps_back(start):
    """Its snapshot holds that, and the next start goes on from there: sinks have nothing to write."""
    service = start()
    service.start()
    *known, last = service.live.ids().tolist()  # they have rows
    write(service, *((10_000, 20_000 + i) for i in range(300)), *((10_000, node) for node in known))
    service.live.publish(tolerance=0.9)
    before = service.live.feed.cursor
    write(service, (10_000, last))
    assert 20_000 not in service.live.feed.since(before, 1000).rows.ids
    seen = []

    class Last:
        name = "last"

        def ask_to_stop(self, until):
            pass

        def stop(self, until):
            seen.append((service.live.sequence, 20_000 in service.live.feed.since(before, 1000).rows.ids))

    service.sinks.append(Last())
    service.stop()
    assert seen == [(service.live._ahead.saved_at, False)]


@pytest.fixture
def interrupted_search(start, monkeypatch):
    """Return a search of a node's nearest, and the exact ones, with a change between finding and ranking."""
    service = start()
    for one in range(40):
        service.live.update(add=[(one, one + 1)])
    index = service.search.index
    whole = index.candidates

    def candidates(*asked):
        found = whole(*asked)
        service.live.update(add=[(500, 7), (500, 8), (500, 6)])
        return found

    monkeypatch.setattr(index, "candidates", candidates)
    asks = {
        "one": lambda: service.search.nearest_to(7, 5).nodes,
        "vector": lambda: service.search.nearest(service.live[7].tolist(), 6).nodes[1:],
        "many": lambda: service.search.nearest_of([7], 5).of[0].nodes,
    }
    return asks, lambda: [one for one, _ in service.live.nearest(7, k=5)]


@pytest.mark.parametrize("way", ["one", "vector", "many"])
def test_whoever_comes_near_while_candidates_are_found_is_not_missed(interrupted_search, way):
    asks, exact = interrupted_search
    found = [one.id for one in asks[way]()]
    if way == "vector":  # of before the change
        assert 500 in found
    else:
        assert found == exact()


def test_candidates_of_before_would_be_noticed(interrupted_search, monkeypatch):
    monkeypatch.setattr(NearestSearch, "_as_of_now", lambda self, found: found.nodes)
    asks, exact = interrupted_search
    assert [one.id for one in asks["one"]()] != exact()


def missing(service, node):
    """Return whether a search says that a node is not there."""
    try:
        service.search.nearest_to(node, 3)
    except UnknownNode:
        return True
    return False


def test_neighbours_of_a_node_that_changed_while_the_index_was_busy_are_those_of_now(start):
    """The node's vector and number are read again, where the answer is made."""
    service = start()
    service.live.update(add=[(900, 1)])
    found = []
    with service.search.index.lock:
        asking = threading.Thread(target=lambda: found.append(missing(service, 900)))
        asking.start()
        time.sleep(0.2)
        service.live.update(remove=[(900, 1)])
        service.live.update(add=[(901, 1)])  # gets the number of 900
    asking.join()
    assert found == [True]
