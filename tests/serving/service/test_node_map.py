"""The map of a service: steady, beside the writer, and with any node that is asked for."""

import threading

import numpy as np
import pytest

import dygcn
from dygcn.errors import UnknownNode
from dygcn.serving.service import node_map
from dygcn.serving.service.links import LinkHandlers
from dygcn.serving.service.node_map import MapHandlers
from dygcn.serving.service.service import Service
from dygcn.serving.service.web import RequestParser
from tests.serving.service.serving import is_problem, on_loopback


@pytest.fixture
def served(folder):
    service = Service(on_loopback(folder(edges=[(a, (a * 7 + 3) % 60) for a in range(60)])))
    yield service
    service.stop()


def parser_of(service):
    return RequestParser(service.current, "int64")


def queries(service):
    return LinkHandlers(parser_of(service), service.live, service.reads, service.observations, service.budget)


def make(service):
    return MapHandlers(parser_of(service), service.live, service.reads, service.search, queries(service))


def places(found):
    return {point.id: (point.x, point.y) for point in found.points}


def test_the_map_is_flat_and_steady(served):
    one = make(served)
    first = one.answer()
    assert first == one.answer() == make(served).answer()
    assert set(places(first)) == set(served.live)
    assert all(np.isfinite([point.x, point.y]).all() for point in first.points)
    assert {point.community for point in first.points} <= set(range(first.communities))
    assert first.chosen is None


def test_nodes_stay_where_they_were(served, monkeypatch):
    monkeypatch.setattr(node_map, "_LEAST_AGE", 0.0)
    monkeypatch.setattr(node_map, "_SHARE", 1e9)
    one = make(served)
    before = places(one.answer())
    served.live.update(add=[(1000, 1), (1000, 2)], remove=[(3, 24)])
    found = one.answer()
    after = places(found)
    assert found.sequence == served.live.sequence
    assert 1000 in after
    both = np.array([[before[id], after[id]] for id in before if id in after])
    wide = np.ptp(both[:, 0], axis=0).max()
    assert np.median(np.linalg.norm(both[:, 0] - both[:, 1], axis=1)) < 0.1 * wide


def test_a_new_map_is_not_made_all_the_time(served):
    one = make(served)
    first = one.answer()
    served.live.update(add=[(1000, 1)])
    assert one.answer() == first


def test_any_node_is_on_the_map(served, monkeypatch):
    monkeypatch.setattr(node_map, "NODES", 20)
    one = make(served)
    drawn = places(one.answer())
    assert len(drawn) == 20
    hidden = next(id for id in served.live if id not in drawn)
    found = one.answer(hidden).chosen
    assert found.points[0].id == found.id == hidden
    assert [point.id for point in found.points] == list(dict.fromkeys((hidden, *found.near, *found.linked)))
    assert set(found.linked) == set(queries(served).neighbors(hidden, 100).neighbors)
    assert found.near == [near.id for near in served.search.nearest_to(hidden, 10).nodes]
    for point in found.points:
        if point.id in drawn:
            assert (point.x, point.y) == drawn[point.id]
    xs, ys = np.array(list(drawn.values())).T
    assert xs.min() <= found.points[0].x <= xs.max()
    assert ys.min() <= found.points[0].y <= ys.max()
    with pytest.raises(UnknownNode):
        one.answer(12345)


def test_the_writer_does_not_wait_for_a_layout(served, monkeypatch):
    laying, written = threading.Event(), threading.Event()

    def slow(vectors, **_):
        laying.set()
        assert written.wait(30)
        return np.zeros((len(vectors), 2))

    monkeypatch.setattr(node_map, "neighbour_map", slow)
    thread = threading.Thread(target=make(served).answer)
    thread.start()
    assert laying.wait(30)
    served.live.update(add=[(1, 999)])
    written.set()
    thread.join()


def test_a_map_of_one_dimension_and_of_nobody(tmp_path, folder):
    dygcn.fit([(1, 2), (2, 3)], dim=1).save(tmp_path / "line")
    for path, count in ((tmp_path / "line", 3), (folder(edges=[]), 0)):
        service = Service(on_loopback(path))
        try:
            found = make(service).answer()
            assert len(found.points) == count
            assert all(np.isfinite([point.x, point.y]).all() for point in found.points)
        finally:
            service.stop()


def test_the_route_places_a_node(serve):
    one = serve("string")
    found = one.get("/v1/map", node="ann").json()["chosen"]
    assert (found["id"], sorted(found["linked"])) == ("ann", ["bob", "eve"])
    assert is_problem(one.get("/v1/map", node="nobody"), 404, "unknown-node")
