"""Vectors of the past over HTTP: to the bit, with their digest, one moment at a time."""

import re
import threading

import numpy as np
import pyarrow as pa
import pytest

import dygcn
from dygcn.errors import OptionError
from dygcn.live.durable.forgetting import Redaction
from dygcn.live.durable.past import MOMENT_PATTERN
from dygcn.serving.service import vectors
from dygcn.serving.service.settings import ServiceSettings, check_settings, parse_settings
from tests.serving.service.serving import ARROW, is_problem, on_loopback, serving


@pytest.fixture
def served(serve):
    served = serve()
    for n in range(5):
        served.post([{"src": 1, "dst": 100 + n}, {"src": 100 + n, "dst": 2}])
    return served


def then(served, as_of):
    return dygcn.open(served.service.live._folder, as_of=as_of)


def test_one_vector(served):
    for sequence in (0, 3, 5):
        was = then(served, sequence)
        for as_of in (str(sequence), was.logged.isoformat()):
            found = served.get("/v1/vectors/1", as_of=as_of).json()
            assert (found["sequence"], found["id"], found["digest"]) == (sequence, 1, was.digest())
            assert found["logged"] == was.logged.isoformat().replace("+00:00", "Z")
            asked = served.client.get(f"{served.address}/v1/vectors/1?as_of={found['logged']}").json()
            assert asked["sequence"] == sequence  # as it stands, in an address
            assert np.array_equal(np.array(found["vector"], np.float32), was[1])
    now = served.get("/v1/vectors/1").json()
    assert set(now) == {"sequence", "id", "vector"}
    latest = served.get("/v1/vectors/1", as_of="now").json()
    assert (latest["vector"], latest["sequence"]) == (now["vector"], 5)
    served.post([{"src": 1, "dst": 999}])
    assert served.get("/v1/vectors/1", as_of="now").json()["sequence"] == 6


def test_many_vectors(served):
    was, body = then(served, 2), {"ids": [1, 101, 104, 7]}
    found = served.ask("/v1/vectors?as_of=2", body).json()
    assert (found["sequence"], found["ids"], found["digest"]) == (2, [1, 101], was.digest())
    assert found["missing"] == [104, 7]
    assert np.array_equal(np.array(found["vectors"], np.float32), was.vectors([1, 101]))
    table = pa.ipc.open_stream(served.ask("/v1/vectors?as_of=2", body, accept=ARROW).content).read_all()
    assert table.schema.metadata[b"digest"].decode() == was.digest()
    assert table.schema.metadata[b"sequence"] == b"2"
    assert table.column("id").to_pylist() == [1, 101]
    assert set(served.ask("/v1/vectors", body).json()) == {"sequence", "ids", "vectors", "missing"}


def test_what_is_not_there(served):
    assert "as of sequence 1" in is_problem(served.get("/v1/vectors/104", as_of="1"), 404, "unknown-node")
    for as_of in ("6", "2999-01-01T00:00Z"):
        assert "still to come" in is_problem(served.get("/v1/vectors/1", as_of=as_of), 404, "unknown-past")
    for as_of in ("9" * 18 + ".5", "1" * 18, "9999-12-31T23:59-23:59", "1000-01-01T00:00+23:59"):
        assert re.fullmatch(MOMENT_PATTERN, as_of)
        is_problem(served.get("/v1/vectors/1", as_of=as_of), 404, "unknown-past")
    for as_of in ("", "yesterday", "2026-11-10T12:00", "-1"):
        assert "as_of is" in is_problem(served.get("/v1/vectors/1", as_of=as_of), 400, "bad-option")
    is_problem(served.ask("/v1/vectors?as_of=6", {"ids": [1]}), 404, "unknown-past")
    is_problem(served.get("/v1/vectors/1", as_of="1970-01-01T00:00Z"), 404, "unknown-past")


def test_one_moment_is_rebuilt_at_a_time(served, monkeypatch):
    begun, may_end, whole, rebuilt = threading.Event(), threading.Event(), vectors.open_past, []

    def slow(folder, as_of):
        rebuilt.append(as_of)
        begun.set()
        may_end.wait(20)
        return whole(folder, as_of)

    assert served.get("/v1/vectors/1", as_of="4").status_code == 200
    monkeypatch.setattr(vectors, "open_past", slow)
    assert served.get("/v1/vectors/2", as_of="4").status_code == 200  # it is kept
    assert rebuilt == []
    answers = []
    asking = threading.Thread(target=lambda: answers.append(served.get("/v1/vectors/1", as_of="3")))
    asking.start()
    assert begun.wait(20)
    refused = served.get("/v1/vectors/1", as_of="2")
    is_problem(refused, 429, "overloaded")
    assert refused.headers["retry-after"] == "5"
    assert served.post([{"src": 1, "dst": 500}]).json()["status"] == "applied"  # writers go on
    assert served.get("/v1/vectors/500").status_code == 200
    may_end.set()
    asking.join()
    assert answers[0].json()["digest"] == then(served, 3).digest()
    assert served.get("/v1/vectors/1", as_of="2").status_code == 200
    assert rebuilt == ["3", "2"]


def test_a_failure_lets_the_next_one_in(served, monkeypatch):
    with monkeypatch.context() as broken:
        broken.setattr(vectors, "open_past", lambda *_: 1 / 0)
        is_problem(served.get("/v1/vectors/1", as_of="1"), 500)
    assert served.get("/v1/vectors/1", as_of="1").status_code == 200


def test_what_is_kept_is_a_setting(folder):
    path = folder()
    with serving(on_loopback(path, keep_log="7d")) as served:
        assert served.service.live._snapshots._keep_log.seconds == 7 * 86_400
    assert parse_settings('folder = "x"\nkeep_log = "2GB"').keep_log == "2GB"
    with pytest.raises(OptionError, match="keep_log is"):
        check_settings(ServiceSettings(folder="x", keep_log="a lot"))


def test_a_moment_that_is_rebuilt_while_an_id_is_forgotten_is_not_kept(tmp_path, monkeypatch):
    with dygcn.open(tmp_path / "x", dygcn.fit([(1, 2), (2, 3), (3, 4)], dim=4)) as live:
        live.update(add=[(4, 1)])
        kept, redact = vectors.PastReads(live), Redaction.redact_snapshots

        def ask_then_redact(self):
            assert kept.vectors("1", [1, 4]).missing == []
            redact(self)

        monkeypatch.setattr(Redaction, "redact_snapshots", ask_then_redact)
        live.forget(4)
        assert kept.vectors("1", [1, 4]).missing == [4]
