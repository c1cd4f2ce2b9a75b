"""What each route does that reads: ids of every kind, vectors to the bit, neighbours, scores, limits."""

import numpy as np
import pyarrow as pa
import pytest

from dygcn.serving.service.settings import Limits
from tests.serving.service.serving import ARROW, is_problem

LEAST, MOST = -(2**63), 2**63 - 1


# ---- ids and bits ------------------------------------------------------------------------------------


def path_of(node):
    return "/v1/vectors/" + "".join(f"%{byte:02X}" for byte in str(node).encode())


@pytest.mark.parametrize("node", [LEAST, LEAST + 1, -1, 0, 2**53 + 1, MOST])
def test_whole_numbers_of_every_size(serve, node):
    served = serve()
    served.post([{"src": node, "dst": 1}])
    live = served.service.live
    for path in (f"/v1/vectors/{node}", path_of(node)):
        found = served.get(path).json()
        assert found["id"] == node
        assert np.array_equal(np.array(found["vector"], np.float32), live[node])
    assert served.ask("/v1/vectors", {"ids": [node]}).json()["ids"] == [node]
    assert served.get(f"/v1/nearest/{node}", k=1).status_code == 200
    assert served.ask("/v1/score", {"pairs": [[node, 1]]}).json()["scores"][0] is not None
    assert node in [one["id"] for one in served.get("/v1/changes", since=0).json()["moved"]]
    assert node in [one["id"] for one in served.get("/v1/map").json()["points"]]


@pytest.mark.parametrize(
    "node", [2**63, LEAST - 1, 10**30, "1.0", "1e3", "+1", " 1", "1 ", "٣", "ann", "", "-", "--1", "1\n"]
)
def test_what_cannot_be_an_id_is_not_there(quiet, node):
    served = quiet
    for route in ("/v1/vectors", "/v1/nearest"):
        answer = served.get(route + path_of(node).removeprefix("/v1/vectors"))
        assert is_problem(answer, 404, "unknown-node")


NAMES = [
    "a/b",
    "/a",
    "a/",
    "//",
    "100%",
    "%2F",
    "a b",
    " ",
    "?k=1",
    "#top",
    "é",
    "日本",
    "🙂",
    "a+b",
    "a&b=c",
    ";",
    "\n",
    "a\n",
    "\t",
    "\x00",
    "\x7f",
    "..",
    "../status",
    "1",
    "null",
    "",
    "\u202e",
    "x" * 256,
    "\ufffd",
    "'\"<script>",
]


def test_every_string_is_an_id(serve):
    served = serve("string")
    answer = served.post([{"src": name, "dst": "ann"} for name in NAMES])
    assert answer.json()["applied"] == len(NAMES)
    live = served.service.live
    for name in NAMES:
        found = served.get(path_of(name))
        assert found.status_code == 200, repr(name)
        assert found.json()["id"] == name
        assert np.array_equal(np.array(found.json()["vector"], np.float32), live[name])
        assert served.get(path_of(name).replace("vectors", "nearest"), k=1).status_code == 200
    assert served.ask("/v1/vectors", {"ids": NAMES}).json()["ids"] == NAMES
    for other in ("ann\n", "A/B", "a", "bo", "bobb"):
        assert served.get(path_of(other)).status_code == 404, repr(other)
    assert served.get(path_of("\ud7ff")).status_code == 404


def test_vectors_have_the_bits_of_the_embedding(serve):
    served = serve(edges=[(a, (a * 7 + 3) % 40) for a in range(40)])
    live = served.service.live
    ids = list(live)
    found = served.ask("/v1/vectors", {"ids": ids}).json()
    assert np.array_equal(np.array(found["vectors"], np.float32), live.vectors(found["ids"]))
    assert np.array_equal(np.stack([served.vector(one) for one in ids]), live.vectors(ids))
    moved = served.get("/v1/changes").json()["moved"]
    result = np.array([one["vector"] for one in moved], np.float32)
    assert np.array_equal(result, live.vectors([one["id"] for one in moved]))


def test_rounded_vectors_would_be_noticed(serve, monkeypatch):
    monkeypatch.setattr(
        "dygcn.serving.service.vectors.VectorReads.vector",
        lambda self, node: (self._live.sequence, np.round(self._live.vector(node), 5)),
    )
    with pytest.raises(AssertionError):
        test_vectors_have_the_bits_of_the_embedding(serve)


def test_vectors_as_arrow(serve):
    for kind, type_of_id in (("int64", pa.int64()), ("string", pa.string())):
        served = serve(kind)
        live = served.service.live
        ids = [*live, "nobody", 777]
        answer = served.ask("/v1/vectors", {"ids": ids}, accept=ARROW)
        assert answer.headers["content-type"] == ARROW
        table = pa.ipc.open_stream(answer.content).read_all()
        assert table.schema.field("id").type == type_of_id
        assert table.schema.field("vector").type == pa.list_(pa.float32(), 8)
        assert table["id"].to_pylist() == list(live)
        vectors = table["vector"].combine_chunks().flatten().to_numpy().reshape(-1, 8)
        assert np.array_equal(vectors, live.vectors(list(live)))
        assert int(table.schema.metadata[b"sequence"]) == live.sequence
        for nobody in ([], ["nobody"], [777]):
            answer = served.ask("/v1/vectors", {"ids": nobody}, accept=ARROW)
            empty = pa.ipc.open_stream(answer.content).read_all()
            assert (empty.num_rows, empty.schema) == (0, table.schema.with_metadata(empty.schema.metadata))


# ---- reading -----------------------------------------------------------------------------------------


def test_many_vectors_and_who_is_missing(serve):
    served = serve()
    found = served.ask("/v1/vectors", {"ids": [1, 99, 2, 1, "ann", 10**30]}).json()
    assert (found["ids"], found["missing"]) == ([1, 2, 1], [99, "ann", 10**30])
    assert len(found["vectors"]) == 3
    assert served.ask("/v1/vectors", {"ids": []}).json()["vectors"] == []


def test_neighbours_are_those_of_the_embedding(serve):
    served = serve(edges=[(a, (a * 7 + 3) % 40) for a in range(40)])
    live = served.service.live
    for node in (0, 5, 17):
        found = served.get(f"/v1/nearest/{node}", k=5).json()["nodes"]
        assert node not in [one["id"] for one in found]
        expected = live.nearest(node, k=5)
        assert [one["id"] for one in found] == [one for one, _ in expected]
        assert [one["score"] for one in found] == pytest.approx([score for _, score in expected])
        vector = live[node].tolist()
        by_vector = served.ask("/v1/nearest", {"vector": vector, "k": 6}).json()["nodes"]
        assert node in [one["id"] for one in by_vector]
        assert by_vector[0]["score"] == pytest.approx(1.0)
    assert len(served.get("/v1/nearest/1").json()["nodes"]) == 10
    assert len(served.get("/v1/nearest/1", k=1000).json()["nodes"]) == len(live) - 1
    is_problem(served.get("/v1/nearest/999"), 404, "unknown-node")


@pytest.mark.parametrize(
    "body",
    [
        {"vector": []},
        {"vector": [1.0]},
        {"vector": [0.0] * 9},
        {"vector": [1e300] * 8},
        {"vector": [1e39] + [0.0] * 7},
        {"vector": ["a"] * 8},
        {"vector": None},
        {"vector": [0.0] * 8, "k": 0},
        {"vector": [0.0] * 8, "k": -1},
        {"vector": [0.0] * 8, "k": 1001},
        {"vector": [0.0] * 8, "k": 10**40},
        {"vector": [0.0] * 8, "k": 1.5},
        {"vector": [0.0] * 8, "kk": 5},
        {},
        [],
        b"{",
        b'{"vector": [NaN, 0, 0, 0, 0, 0, 0, 0]}',
        b"[" * 100_000,
    ],
)
def test_wrong_vectors_are_told(quiet, body):
    is_problem(quiet.ask("/v1/nearest", body), 400, "bad-option")


def test_numbers_that_are_slow_to_read_are_refused_unread(serve):
    """Each of them would hold the event loop for as long as a thousand others."""
    answer = serve().ask("/v1/nearest", {"vector": [1e300] * 1000})
    assert is_problem(answer, 400, "bad-option")
    assert "exponents of three digits" in answer.json()["detail"]


def test_a_vector_of_zeros_has_no_neighbours(serve):
    """As in Python: it has no direction. One that is no node's has neighbours."""
    served = serve()
    assert "no direction" in is_problem(served.ask("/v1/nearest", {"vector": [0.0] * 8}), 400, "bad-option")
    assert len(served.ask("/v1/nearest", {"vector": [1.0] + [0.0] * 7}).json()["nodes"]) == 5


def test_scores_are_those_of_the_embedding(serve):
    served = serve()
    live = served.service.live
    pairs = [[1, 2], [1, 3], [2, 999], [999, 998], [4, 4]]
    for links in ("new", "all"):
        found = served.ask("/v1/score", {"pairs": pairs, "links": links}).json()["scores"]
        assert found[2] is None
        assert found[3] is None
        for place in (0, 1, 4):
            assert found[place] == pytest.approx(live.score(*pairs[place], links=links))
    assert served.ask("/v1/score", {"pairs": []}).json()["scores"] == []
    wrong_ones = ({"pairs": [[1]]}, {"pairs": [[1, 2, 3]]}, {"pairs": [1]}, {"pairs": [], "links": "old"}, {})
    for wrong in wrong_ones:
        is_problem(served.ask("/v1/score", wrong), 400, "bad-option")


def test_empty_graphs_answer(serve):
    served = serve(edges=[])
    assert served.get("/v1/status").json()["nodes"] == 0
    assert served.get("/v1/map").json()["points"] == []
    assert served.get("/v1/changes").json()["moved"] == []
    assert served.ask("/v1/nearest", {"vector": [1.0] * 8}).json()["nodes"] == []
    assert served.ask("/v1/vectors", {"ids": [1]}).json()["missing"] == [1]
    assert served.ask("/v1/score", {"pairs": [[1, 2]]}).json()["scores"] == [None]
    assert served.get("/metrics").status_code == 200
    served.post([{"src": 1, "dst": 2}])
    assert served.get("/v1/nearest/1").json()["nodes"][0]["id"] == 2


@pytest.mark.parametrize(
    ("limits", "ask"),
    [
        ({"ids": 3}, lambda served: served.ask("/v1/vectors", {"ids": [1, 2, 3, 4]})),
        ({"ids": 3}, lambda served: served.ask("/v1/score", {"pairs": [[1, 2]] * 4})),
        ({"k": 3}, lambda served: served.ask("/v1/nearest", {"vector": [0.0] * 8, "k": 4})),
        ({"k": 3}, lambda served: served.get("/v1/nearest/1", k=4)),
        ({"page_rows": 3}, lambda served: served.get("/v1/changes", limit=4)),
        ({"queued_events": 3}, lambda served: served.post([{"src": 1, "dst": 2}] * 4)),
    ],
)
def test_every_count_has_a_limit(serve, limits, ask):
    assert "3" in is_problem(ask(serve(limits=Limits(**limits))), 400)
