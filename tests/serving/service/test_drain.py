"""The end: one deadline, the snapshot first, and an exit in every state. Real processes, real signals."""

import signal
import subprocess
import threading
from contextlib import suppress

import httpx
import pytest

import dygcn
from dygcn.serving.service.lifetime import Drain, Readiness
from dygcn_lab.testbed.served import served_process
from tests.serving.service.serving import is_problem
from tests.serving.service.streams import until

WORK = "tests.serving.service.endings:"


def sink(path):
    return f'[[sinks]]\nkind = "parquet"\nfolder = "{path}-out"\n'


def source(path):
    path.with_name(f"{path.name}.ndjson").touch()
    return f'[[sources]]\nkind = "file"\npath = "{path}.ndjson"\n'


def index(path):
    pytest.importorskip("faiss")
    return "[nearest]\nexact_up_to = 1\n"


def post(served, *edges):
    events = [{"src": a, "dst": b} for a, b in edges]
    return httpx.post(f"{served.address}/v1/events", json=events, timeout=60)


def ended(path, bug, *, seconds=8, settings="", tables="", ask=None):
    """Serve, write, have the process do something endless, drain; return code and output."""
    with served_process(
        path, bug=WORK + bug, settings=f"drain_seconds = {seconds}\n{settings}", tables=tables
    ) as one:
        if ask is None:
            assert post(one, (1, 777)).status_code == 200
        else:
            threading.Thread(target=ask, args=(one,), daemon=True).start()
        until(lambda: "it hangs" in one.said)
        return one.drain()


def is_whole(path, node=777):
    """Say whether what was acknowledged is on disk, with nothing left to replay."""
    with dygcn.open(path) as again:
        assert node in again
        return again._ahead.saved_at == again.sequence


@pytest.mark.parametrize(
    ("bug", "tables"),
    [("index_is_built", index), ("sink_hangs", sink), ("source_hangs", source)],
)
def test_the_snapshot_is_written_whatever_hangs(folder, bug, tables):
    path = folder()
    code, said = ended(path, bug, tables=tables(path))
    assert code == 0, said
    assert "without waiting for" in said
    assert is_whole(path)


def test_a_request_that_hangs_is_cut_off_at_the_deadline(folder):
    path = folder()

    def ask(one):
        post(one, (1, 777))
        with suppress(httpx.HTTPError):
            httpx.get(f"{one.address}/v1/map", timeout=60)

    code, said = ended(path, "request_hangs", ask=ask)
    assert code in (0, 1), said
    assert is_whole(path)


def test_a_writer_that_hangs_ends_at_the_deadline(folder):
    path = folder()

    def ask(one):
        with suppress(httpx.HTTPError):
            post(one, (1, 777))

    code, said = ended(path, "writer_hangs", seconds=2, ask=ask)
    assert code == 1
    assert "longer than 2 s" in said
    with dygcn.open(path) as again:
        assert 777 not in again  # it was not acknowledged, either


def test_a_process_without_a_deadline_would_be_noticed(folder):
    path = folder()
    seconds = "drain_seconds = 0.5"
    with served_process(path, bug=WORK + "nobody_watches", settings=seconds, tables=sink(path)) as one:
        one.send(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            one.wait(5)


@pytest.mark.parametrize("again", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_at_once(folder, again):
    path = folder()
    seconds = "drain_seconds = 500"
    with served_process(path, bug=WORK + "sink_hangs", settings=seconds, tables=sink(path)) as one:
        assert post(one, (1, 777)).status_code == 200
        until(lambda: "it hangs" in one.said)
        one.send(signal.SIGTERM)
        until(lambda: is_going_down(one))
        one.send(again)
        code, said = one.wait()
    assert code == 128 + again
    assert "a second time" in said
    with dygcn.open(path) as opened:
        assert 777 in opened


def is_going_down(one):
    try:
        return httpx.get(f"{one.address}/readyz", timeout=60).status_code == 503
    except httpx.HTTPError:
        return True


# ---- readiness -----------------------------------------------------------------------------------------


def test_ready_after_a_read_and_a_search(serve, monkeypatch):
    served = serve()
    until(lambda: served.get("/readyz").json() == {"ready": True, "accepting": True})
    assert served.get("/v1/status").json()["traffic"]["reads"] == 0  # its own do not count


def test_not_ready_while_a_search_waits_for_the_index(serve):
    served = serve()
    until(lambda: served.get("/readyz").status_code == 200)
    service = served.service
    again = Readiness(service.live, service.drain, service.search.probe, service.observations)
    with served.service.search.index.lock:
        again.start()
        assert again.reason() == "the service starts"
    until(lambda: again.reason() is None)


def test_not_ready_during_a_drain(serve):
    served = serve()
    until(lambda: served.get("/readyz").status_code == 200)
    served.service.drain.begin()
    answer = served.get("/readyz")
    assert "going down" in is_problem(answer, 503, "not-ready")
    assert answer.headers["retry-after"] == "1"
    assert served.get("/livez").json() == {"alive": True}


def test_not_ready_with_a_torn_state(serve, monkeypatch):
    served = serve()
    until(lambda: served.get("/readyz").status_code == 200)
    with monkeypatch.context() as patched:
        patched.setattr(type(served.service.live._state), "torn", True)
        assert "restart" in is_problem(served.get("/readyz"), 503, "not-ready")


def test_ready_while_an_update_is_made(serve):
    served = serve()
    until(lambda: served.get("/readyz").status_code == 200)
    begun, end = threading.Event(), threading.Event()

    def write():
        with served.service.live.lock, served.service.live._state.changing:
            begun.set()
            assert end.wait(20)

    writer = threading.Thread(target=write)
    writer.start()
    assert begun.wait(20)
    try:
        assert served.service.live._state.torn
        assert served.get("/readyz").status_code == 200
    finally:
        end.set()
        writer.join()


def test_an_empty_graph_is_ready(serve):
    served = serve(edges=[])
    until(lambda: served.get("/readyz").status_code == 200)


# ---- the deadline --------------------------------------------------------------------------------------


def test_a_deadline_is_set_once():
    now = [10.0]
    drain = Drain(20.0, lambda: now[0])
    assert drain.left == float("inf")
    drain.begin()
    now[0] = 15.0
    drain.begin()
    assert drain.left == 15.0
    assert drain.sources_until == 20.0
    assert 28.0 < drain.sinks_until < drain.until == 30.0
