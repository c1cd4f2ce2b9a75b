"""Questions over HTTP: the answers of the embedding, bounds, and trials that leave nothing behind."""

import copy
import hashlib
import shutil
import threading

import msgspec
import numpy as np
import pytest

import dygcn
from dygcn.live.change import TrialMoves
from dygcn.schema.requests import WhatIfRequest
from dygcn.serving.service import links, what_if
from dygcn.serving.service.auth import new_token
from dygcn.serving.service.service import Service
from dygcn.serving.service.settings import Limits
from dygcn.serving.service.what_if import TrialHandlers
from dygcn_lab.testbed.seeding import small_model
from tests.serving.service.serving import is_problem, on_loopback

RING = [(a, (a * 7 + 3) % 40) for a in range(40)]


@pytest.fixture(scope="module")
def learned():
    """A model that learned scores, and the graph of its last steps."""
    random = np.random.default_rng(0)
    circle = random.integers(0, 6, 120)
    rows = [
        (int(a), int(b), float(t))
        for t in range(25)
        for a, b in random.integers(0, 120, (120, 2))
        if a != b and (circle[a] == circle[b] or random.random() < 0.1)
    ]
    live = dygcn.fit(rows, columns=("src", "dst", "t"), dim=8)
    assert "new" in live.model.links
    return live


@pytest.fixture
def scored(serve, learned, tmp_path):
    learned.save(tmp_path / "learned")
    return serve(path=tmp_path / "learned")


def pairs_of(found):
    return [(one["id"], one["score"]) for one in found]


# ---- the graph as it is --------------------------------------------------------------------------------


def test_a_filter_can_be_asked_for_by_name(serve, tmp_path):
    events = {"user": [1, 2, 2, 3], "item": [1, 1, 2, 2]}
    live = dygcn.fit(events, src="user", dst="item", kinds=True, dim=4)
    live.save(tmp_path / "shop")
    found = serve(path=tmp_path / "shop").ask("/v1/recommend", {"id": "user:1", "links": "filter"}).json()
    assert found["score_kind"] == "filter"
    assert [one["id"] for one in found["nodes"]] == ["item:2"]


def test_recommendations_are_those_of_the_embedding(scored):
    live = scored.service.live
    for node in (0, 17, 50):
        found = scored.get(f"/v1/recommend/{node}", k=5).json()
        assert pairs_of(found["nodes"]) == live.recommend(node, 5)
        assert (found["id"], found["score_kind"], found["missing"]) == (node, "log-odds", [])
        linked = scored.ask("/v1/recommend", {"id": node, "exclude_linked": False}).json()
        assert pairs_of(linked["nodes"]) == live.recommend(node, exclude_linked=False)
        assert linked["score_kind"] == "rank"
        every = {"id": node, "among": [3, 4, 5, 999, "ann"], "links": "all", "k": 2}
        among = scored.ask("/v1/recommend", every).json()
        assert pairs_of(among["nodes"]) == live.recommend(node, 2, among=[3, 4, 5], links="all")
        assert among["missing"] == [999, "ann"]
    is_problem(scored.get("/v1/recommend/9999"), 404, "unknown-node")
    is_problem(scored.ask("/v1/recommend", {"id": 9999}), 404, "unknown-node")
    for wrong in ({"k": 0}, {"k": 1001}, {"links": "all"}, {"exclude_linked": "no"}):
        is_problem(scored.get("/v1/recommend/1", **wrong), 400, "bad-option")
    for wrong in (
        {},
        {"id": 1, "k": 0},
        {"id": 1, "k": 1001},
        {"id": 1, "amongst": []},
        {"id": 1, "links": "old"},
        [],
    ):
        is_problem(scored.ask("/v1/recommend", wrong), 400, "bad-option")
    told = is_problem(scored.ask("/v1/recommend", {"ids": [1]}), 400, "bad-option")
    assert "unknown field `ids`; known are id, k, among, exclude_linked, links" in told
    assert scored.ask("/v1/recommend", {"id": 1, "among": []}).json()["nodes"] == []


def test_the_nearest_of_many_are_those_of_each(scored):
    live = scored.service.live
    found = scored.ask("/v1/nearest", {"ids": [5, 9999, 17, "ann"], "k": 4}).json()
    assert set(found) == {"sequence", "of", "missing"}
    assert [one["id"] for one in found["of"]] == [5, 17]
    assert found["missing"] == [9999, "ann"]
    for one in found["of"]:
        assert pairs_of(one["nodes"]) == live.nearest(one["id"], 4)
    vector = scored.ask("/v1/nearest", {"vector": live[5].tolist(), "k": 4}).json()
    assert set(vector) == {"sequence", "nodes"}
    assert pairs_of(vector["nodes"]) == live.nearest(live[5], 4)
    wrong_ones = (
        {"ids": [5], "vector": [1.0] * 8},
        {"vector": [0.0] * 8},
        {"vector": [1e-60] * 8},
        {"ids": [5], "by": "dot"},
        {"ids": 5},
        {"k": 4},
    )
    for wrong in wrong_ones:
        is_problem(scored.ask("/v1/nearest", wrong), 400, "bad-option")


def test_scores_say_what_they_are(scored, serve):
    live = scored.service.live
    pairs = [[1, one] for one in (5, 17, 9999, 3)]
    found = scored.ask("/v1/score", {"pairs": pairs}).json()
    assert found["score_kind"] == "log-odds"
    assert found["scores"][:2] == live.score(1, [5, 17]).tolist()
    assert found["scores"][2] is None
    likely = scored.ask("/v1/score", {"pairs": pairs, "probability": True}).json()
    assert likely["score_kind"] == "probability"
    assert likely["scores"][:2] == live.score(1, [5, 17], probability=True).tolist()
    ranks = {"pairs": pairs, "links": "next"}
    assert scored.ask("/v1/score", ranks).json()["score_kind"] == "rank"
    is_problem(scored.ask("/v1/score", ranks | {"probability": True}), 400, "bad-option")
    is_problem(scored.ask("/v1/score", {}), 400, "bad-option")
    plain = serve()
    assert plain.ask("/v1/score", {"pairs": [[1, 2]]}).json()["score_kind"] == "cosine"
    is_problem(plain.ask("/v1/score", {"pairs": [[1, 2]], "probability": True}), 400, "bad-option")


def test_neighbors_and_degree(serve):
    served = serve(edges=RING)
    live = served.service.live
    for node in (0, 5):
        found = served.get(f"/v1/neighbors/{node}").json()
        assert (found["neighbors"], found["degree"]) == (
            live.neighbors(node).tolist(),
            len(live.neighbors(node)),
        )
    few = served.get("/v1/neighbors/0", limit=1).json()
    assert (len(few["neighbors"]), few["degree"]) == (1, len(live.neighbors(0)))
    is_problem(served.get("/v1/neighbors/999"), 404, "unknown-node")


def test_explanations_add_up(serve):
    served = serve(edges=[*RING, *((0, other) for other in range(10, 30))])
    live = served.service.live
    found = served.get("/v1/explain/0", k=3).json()
    expected = live.explain(0)
    assert [one["share"] for one in found["neighbors"]] == expected.by_neighbor[:3].tolist()
    assert found["degree"] == len(expected) > 3
    shares = sum(one["share"] for one in found["neighbors"]) + found["others"]
    length = float(np.sum(live[0].astype(np.float64) ** 2))
    assert found["squared_length"] == pytest.approx(length)
    assert found["own"] + found["rounding"] + shares == pytest.approx(length, abs=1e-9)
    for one in found["neighbors"]:
        assert sum(one["by_order"]) == pytest.approx(one["share"])
    every = served.get("/v1/explain/0", k=1000).json()
    assert (len(every["neighbors"]), every["others"]) == (found["degree"], 0.0)
    is_problem(served.get("/v1/explain/999"), 404, "unknown-node")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/recommend/0", None),
        ("/v1/explain/0", None),
        ("/v1/neighbors/0", None),
        ("/v1/recommend", {"id": 0, "among": list(range(40))}),
        ("/v1/nearest", {"ids": list(range(40))}),
        ("/v1/explain-change", {"id": 1, "add": [[0, 99]]}),
        ("/v1/what-if", {"add": [[0, 99]]}),
        ("/v1/what-if", {"remove_nodes": [0]}),
        ("/v1/what-if", {"events": [{"src": 0, "dst": 99}]}),
        ("/v1/what-if", {"nearest": [1, 2]}),
        ("/v1/what-if", {"recommend": [1]}),
    ],
)
def test_every_question_is_bounded_in_rows(serve, path, body):
    served = serve(edges=[(0, spoke) for spoke in range(1, 40)], limits=Limits(query_rows=20))
    answer = served.get(path) if body is None else served.ask(path, body)
    assert "limits.query_rows" in is_problem(answer, 400, "bad-option")
    assert served.ask("/v1/recommend", {"id": 0, "among": [1, 2]}).status_code == 200
    assert served.ask("/v1/what-if", {"add": [[98, 99]]}).status_code == 200


def refused(answer):
    return "limits.query_rows" in is_problem(answer, 400, "bad-option")


def test_questions_count_nodes_that_a_change_adds(serve):
    """A small graph may become a large one: every question looks at all of it."""
    served = serve(limits=Limits(query_rows=3000))
    add = [[100 + one, 1000 + one] for one in range(300)]
    assert served.ask("/v1/what-if", {"add": add}).status_code == 200
    for asked in ("nearest", "recommend"):
        assert served.ask("/v1/what-if", {"add": add, asked: [1]}).status_code == 200
        assert refused(served.ask("/v1/what-if", {"add": add, asked: [1] * 5}))
        assert served.ask("/v1/what-if", {asked: [1] * 5}).status_code == 200
    small = serve(edges=RING, limits=Limits(query_rows=600))
    assert small.ask("/v1/what-if", {"nearest": [1] * 10, "k": 1}).status_code == 200
    assert refused(small.ask("/v1/what-if", {"nearest": [1] * 10, "k": 40}))


def test_an_explanation_counts_every_event(serve, tmp_path):
    """Leaves of a hub: three orders reach all others, once in a batch, and for each event that is played."""
    live = dygcn.start(small_model(orders=3))
    live.bulk([[(0, spoke) for spoke in range(1, 300)]])
    live.save(tmp_path / "star")
    served = serve(path=tmp_path / "star", limits=Limits(query_rows=12_000))
    add = [[one, 1000 + one] for one in range(1, 31)]
    assert served.ask("/v1/what-if", {"add": add}).status_code == 200
    assert served.ask("/v1/explain-change", {"id": 1, "add": add[:3]}).status_code == 200
    assert refused(served.ask("/v1/explain-change", {"id": 1, "add": add}))


def test_the_passing_of_time_is_bounded_in_rows(serve, tmp_path, monkeypatch):
    monkeypatch.setenv("DYGCN_HEAVY_FROM", "inf")  # a hub costs as many rows as it has neighbours
    rows = [(1, 2, 0.0), (2, 3, 1.0)]
    live = dygcn.start(
        dygcn.fit(rows, columns=("src", "dst", "t"), dim=4, features="hashed", memory=100.0).model
    )
    live.update(add=[(0, spoke) for spoke in range(1, 300)], now=1.0)
    live.update([{"src": 0, "dst": one, "op": -1, "t": 1.0 + one} for one in range(1, 50)])
    live.save(tmp_path / "timed")
    served = serve(path=tmp_path / "timed", clock_jump=10_000.0, limits=Limits(query_rows=6000))
    assert served.ask("/v1/what-if", {"add": [], "now": 3000.0}).status_code == 200
    events = [{"src": 900, "dst": 901 + one, "t": 102.0 + one} for one in range(20)]
    assert served.ask("/v1/what-if", {"events": events}).status_code == 200
    assert refused(served.ask("/v1/explain-change", {"id": 1, "events": events}))
    strict = serve(path=_copied(tmp_path), clock_jump=10_000.0, limits=Limits(query_rows=300))
    assert strict.ask("/v1/what-if", {"add": [], "now": 60.0}).status_code == 200
    assert refused(strict.ask("/v1/what-if", {"add": [], "now": 3000.0}))
    assert refused(strict.ask("/v1/explain-change", {"id": 1, "add": [], "now": 3000.0}))


def _copied(folder):
    return shutil.copytree(folder / "timed", folder / "again")


def test_paths_of_two_edges_are_bounded_in_rows(serve, monkeypatch):
    """In a dense graph far more paths are counted than there are nodes."""
    dense = [(a, b) for a in range(60) for b in range(a)]
    monkeypatch.setattr(links, "EVERYONE", 50)
    monkeypatch.setattr(what_if, "EVERYONE", 50)
    served = serve(edges=dense, limits=Limits(query_rows=600))
    assert served.ask("/v1/what-if", {"recommend": [1], "k": 1}).status_code == 200
    assert refused(served.ask("/v1/what-if", {"recommend": [1] * 3, "k": 1}))
    assert served.ask("/v1/what-if", {"nearest": [1] * 3, "k": 1}).status_code == 200
    tight = serve(edges=dense, limits=Limits(query_rows=100))
    assert refused(tight.get("/v1/recommend/1"))
    assert tight.ask("/v1/recommend", {"id": 1, "among": [2, 3]}).status_code == 200


def test_questions_need_the_scope_read(serve):
    (reader, read), (writer, write) = (new_token(name, [name]) for name in ("read", "write"))
    served = serve(tokens=[read, write])
    asked = [
        lambda headers: served.client.get("/v1/recommend/1", headers=headers),
        lambda headers: served.client.get("/v1/neighbors/1", headers=headers),
        lambda headers: served.client.get("/v1/explain/1", headers=headers),
        lambda headers: served.client.post("/v1/score", json={"pairs": [[1, 2]]}, headers=headers),
        lambda headers: served.client.post("/v1/what-if", json={"add": [[1, 3]]}, headers=headers),
        lambda headers: served.client.post("/v1/recommend", json={"id": 1}, headers=headers),
    ]
    for ask in asked:
        assert ask({}).status_code == 401
        assert ask({"authorization": f"Bearer {writer}"}).status_code == 403
        assert ask({"authorization": f"Bearer {reader}"}).status_code == 200


# ---- the graph as it would be --------------------------------------------------------------------------


def test_a_trial_answers_as_the_changed_embedding_would(scored, learned):
    change = {"add": [[1, 500], [2, 500]], "remove": [[int(learned.neighbors(3)[0]), 3]], "now": 30.0}
    asked = {
        "vectors": [500, 9999, 1],
        "nearest": [500, 9999],
        "recommend": [1],
        "scores": [[1, 2], [1, 9999]],
    }
    before = np.array(scored.vector(1))
    found = scored.ask("/v1/what-if", {**change, **asked, "k": 4, "moved": 7}).json()
    assert 500 not in scored.service.live
    twin = copy.deepcopy(learned)
    outcome = twin.update(add=[(1, 500), (2, 500)], remove=[tuple(change["remove"][0])], now=30.0)
    newcomer, nobody, one = found["vectors"]
    assert np.array([newcomer, one], np.float32).tobytes() == twin[[500, 1]].tobytes()
    assert nobody is None
    assert [None if one is None else pairs_of(one) for one in found["nearest"]] == [
        twin.nearest(500, 4),
        None,
    ]
    assert pairs_of(found["recommend"][0]) == twin.recommend(1, 4)
    assert found["scores"] == [twin.score(1, 2), None]
    assert (found["nodes"], found["edges"], found["rows"]) == (len(twin), twin.edge_count, outcome.rows)
    assert (found["moved"], len(found["furthest"])) == (len(outcome), min(7, len(outcome)))
    moved = {one["id"]: one["distance"] for one in found["furthest"]}
    assert moved[1] == pytest.approx(np.linalg.norm(twin[1] - before), abs=1e-6)
    every = scored.ask("/v1/what-if", {**change, "moved": 1000}).json()["furthest"]
    assert {one["id"] for one in every} == set(outcome.ids.tolist())
    live = scored.service.live
    for one in every:
        node, far = one["id"], one["distance"]
        if node in live:
            assert far == pytest.approx(np.linalg.norm(twin[node] - live[node]), abs=1e-6)
        else:
            assert far is None
    far = [one["distance"] for one in every if one["distance"] is not None]
    assert far == sorted(far, reverse=True)


def test_events_and_removed_nodes_can_be_tried(serve):
    served = serve(edges=RING)
    found = served.ask(
        "/v1/what-if",
        {"events": [{"src": 1, "dst": 99}, {"src": 0, "dst": 3, "op": -1}], "remove_nodes": [1]},
    ).json()
    assert found["left"] == sorted({1, *found["left"]})
    assert 99 not in [one["id"] for one in found["furthest"]]
    is_problem(served.ask("/v1/what-if", {"remove_nodes": [999]}), 404, "unknown-node")
    wrong_ones = (
        {"events": [{"src": 1}]},
        {"events": "none"},
        {"events": [{"src": 1, "dst": 2}], "add": [[1, 2]]},
        {"add": [[1, "ann"]]},
        {"add": [[1]]},
        {"add": [[1, 2]], "moved": -1},
        {"add": [[1, 2]], "moved": 1001},
        {"add": [[1, 2]], "k": 0},
        {"ad": [[1, 2]]},
        {"events": [{"src": 1, "dst": 2, "weight": 1e300}]},
        [],
    )
    for wrong in wrong_ones:
        is_problem(served.ask("/v1/what-if", wrong), 400)
    nothing = served.ask("/v1/what-if", {}).json()
    assert (nothing["moved"], nothing["left"], nothing["rows"]) == (0, [], 0)


def test_events_that_would_move_a_node_are_explained(serve):
    served = serve(edges=RING)
    live = served.service.live
    before, events = standing(live), [{"src": 50, "dst": 51}, {"src": 1, "dst": 9}, {"src": 9, "dst": 2}]
    found = served.ask("/v1/explain-change", {"id": 1, "events": events}).json()
    expected = live.explain_change(1, add=[(50, 51), (1, 9), (9, 2)])
    assert [one["distance"] for one in found["events"]] == np.linalg.norm(expected.by_event, axis=1).tolist()
    assert found["events"][0] == {"distance": 0.0, "share": 0.0}
    shares = sum(one["share"] for one in found["events"]) + found["waiting"]["share"]
    assert shares == pytest.approx(found["distance"] ** 2)
    assert found["distance"] > 0
    assert found["distance"] == pytest.approx(np.linalg.norm(expected.after - live[1]), abs=1e-6)
    assert standing(live) == before
    nobody = served.ask("/v1/explain-change", {"id": 777, "add": [[1, 9]]}).json()
    assert nobody["distance"] == 0.0
    for wrong in (
        {"id": 1},
        {"id": 1, "add": [[1, 2]] * 1001},
        {"id": 1, "remove_nodes": [2]},
        {"add": [[1, 2]]},
    ):
        is_problem(served.ask("/v1/explain-change", wrong), 400, "bad-option")


def test_a_tolerance_does_not_keep_anything_from_being_tried(serve):
    served = serve()
    served.service.live.publish(tolerance=0.01)
    assert served.ask("/v1/what-if", {"add": [[1, 3]]}).status_code == 200


def standing(live):
    return (
        live.digest(),
        live.sequence,
        live.version,
        live.feed.cursor,
        live._log.last,
        live._state.graph.clock,
    )


def random_trial(random):
    """A change and questions, some of which cannot be."""
    pairs = random.integers(0, 60, (int(random.integers(1, 6)), 2)).tolist()
    body = {"vectors": [1, 2], "scores": [[1, 2]], "moved": 5}
    kind = random.integers(0, 5)
    if kind == 0:
        body["remove_nodes"] = [int(random.integers(0, 40))]
    elif kind == 1:
        body |= {"add": pairs, "nearest": [3], "recommend": [4]}
    elif kind == 2:
        body |= {"add": pairs, "remove": random.integers(0, 40, (2, 2)).tolist()}
    elif kind == 3:
        body["events"] = [{"src": a, "dst": b, "op": int(random.choice([1, -1]))} for a, b in pairs]
    else:
        body |= {"add": [*pairs, [1, "ann"]], "remove_nodes": [777]}
    return body


def snapshot_bytes(live, folder):
    live.save(folder)
    return sorted(
        (one.name, hashlib.sha256(one.read_bytes()).hexdigest()) for one in folder.rglob("*") if one.is_file()
    )


def check_nothing_is_left(serve, folder, tmp_path, trials=200, updates=60):
    """Trials beside a client that writes: the embedding is that of a twin that never saw one."""
    path = folder(edges=RING)
    twin, served = dygcn.load(path), serve(path=path)
    live, random = served.service.live, np.random.default_rng(8)
    steps = [random.integers(0, 60, (4, 2)).tolist() for _ in range(updates)]
    statuses = []

    def write():
        statuses.extend(served.post([{"src": a, "dst": b} for a, b in step]).status_code for step in steps)

    writer = threading.Thread(target=write)
    writer.start()
    tried = [served.ask("/v1/what-if", random_trial(random)).status_code for _ in range(trials)]
    writer.join()
    before, since = standing(live), live.feed.cursor
    tried += [served.ask("/v1/what-if", random_trial(random)).status_code for _ in range(20)]
    assert standing(live) == before
    assert len(live.feed.since(since, 10).rows.ids) == 0
    assert set(tried) <= {200, 400, 404}
    assert tried.count(200) > trials / 2
    assert set(statuses) == {200}
    for step in steps:
        twin.update(add=step)
    assert live.digest() == twin.digest() == live.recompute().digest()
    assert live._log.last == updates
    twin._version = live.version
    assert snapshot_bytes(live, tmp_path / "live") == snapshot_bytes(twin, tmp_path / "twin")
    assert served.get("/v1/dead-letters").json()["total"] == 0
    for node in (1, 2, 3):
        assert np.array_equal(served.vector(node), twin[node])
        assert pairs_of(served.get(f"/v1/nearest/{node}", k=3).json()["nodes"]) == twin.nearest(node, 3)


def test_trials_leave_nothing_behind(serve, folder, tmp_path):
    check_nothing_is_left(serve, folder, tmp_path)


def test_a_trial_beside_the_writer_would_be_noticed(serve, folder, tmp_path, monkeypatch):
    """The mutant: a trial that is made in the thread of its request, and applied by updates of its own."""

    def applied(self, wanted, answer):
        batch = self._batch_of(wanted)
        if batch is not None:
            self._live._live._state.apply(batch)
        answer(None)

    monkeypatch.setattr(TrialHandlers, "submit_trial", applied)
    with pytest.raises(AssertionError):
        check_nothing_is_left(serve, folder, tmp_path, trials=20, updates=5)


def test_nobody_sees_the_clock_of_a_trial(folder, learned, tmp_path, monkeypatch):
    learned.save(tmp_path / "timed")
    service = Service(on_loopback(tmp_path / "timed", clock_jump=100.0))
    try:
        latest, seen = service.clock.latest(), []
        whole = TrialMoves.__init__

        def look(self, trial):
            seen.append((trial._state.graph.clock, service.clock.latest()))
            whole(self, trial)

        monkeypatch.setattr(TrialMoves, "__init__", look)
        done = threading.Event()
        wanted = msgspec.convert({"add": [[1, 2]], "now": latest - 1.0}, type=WhatIfRequest)
        parts = service.live, service.queue, service.clock, service.observations, service.budget
        trials = TrialHandlers(None, *parts)
        trials.submit_trial(wanted, lambda result: (seen.append(result), done.set()))
        assert done.wait(20)
        assert seen[0] == (latest - 1.0, latest)
        assert service.clock.latest() == latest
    finally:
        service.stop()


def test_a_parameter_that_a_route_does_not_have_is_refused(serve):
    """What it asks for would be ignored: the present would be given for the past."""
    served = serve()
    for path in ("/v1/recommend/0", "/v1/nearest/0", "/v1/explain/0", "/v1/neighbors/0", "/v1/status"):
        is_problem(served.get(path, as_of=0), 400, "bad-option")
    assert "it has k" in served.get("/v1/nearest/0", kk=3).json()["detail"]
    assert served.get("/v1/vectors/1", as_of=served.service.live.sequence).status_code == 200
