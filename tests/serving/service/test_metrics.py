"""Metrics: every name Prometheus can read, counts that only grow, and gauges that are true."""

import re
import shutil

from prometheus_client.parser import text_string_to_metric_families

from dygcn.errors import DamagedLog
from dygcn.live.durable import snapshots
from dygcn.live.files import Snapshot
from dygcn.serving.service.app import ROUTES
from dygcn.serving.service.settings import Limits
from dygcn.serving.service.status import Metrics
from tests.serving.service.serving import is_problem
from tests.serving.service.streams import FULL_DISK, LOST, Kept, Listed, until


def read(served):
    answer = served.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_the_numbers_are_those_of_the_status(serve):
    served = serve()
    served.post([{"src": 1, "dst": 9}, {"src": 1}])
    served.get("/v1/vectors/9")
    found, status = read(served), served.get("/v1/status").json()
    assert found["dygcn_sequence",] == status["sequence"] == 1
    assert found["dygcn_nodes",] == status["nodes"] == 6
    assert found["dygcn_edges",] == status["edges"] == 6
    assert found["dygcn_events_total",] == status["traffic"]["events"] == 1
    assert found["dygcn_dead_letters_kept",] == status["traffic"]["dead_letters"] == 1
    assert found["dygcn_reads_total",] == status["traffic"]["reads"]
    assert found["dygcn_queue_events",] == 0
    assert found["dygcn_queue_rows",] == 0
    assert found["dygcn_accepting",] == 1
    assert found["dygcn_lag_seconds",] > 0
    assert found["dygcn_shed_requests_total",] == 0


def test_requests_are_counted_by_route_and_status(serve):
    served = serve(limits=Limits(body_bytes=50))
    for node in (1, 2, 999, "x/y"):
        served.get(f"/v1/vectors/{node}")
    served.post([{"src": 1, "dst": 2}] * 10)
    served.client.post("/v1/events", content=b"")
    served.get("/nothing")
    found = read(served)

    def count(route, status):
        return found.get(("dygcn_requests_total", ("route", route), ("status", str(status))), 0)

    assert count("/v1/vectors/{id}", 200) == 2
    assert count("/v1/vectors/{id}", 404) == 2
    assert count("/v1/events", 413) == 1
    assert count("/v1/events", 415) == 1
    assert found["dygcn_request_duration_seconds_count", ("route", "/v1/vectors/{id}")] == 4
    paths = {route.path for route in ROUTES}
    assert {dict(key[1:])["route"] for key in found if key[0] == "dygcn_requests_total"} <= paths


def test_whatever_is_asked_makes_no_new_names(serve):
    """One series a route and status, not one a node: else whoever asks fills the memory."""
    served = serve()
    for number in range(50):
        served.get(f"/v1/vectors/{number + 1000}")
        served.get(f"/{number}")
        served.client.request(f"X{number}", "/v1/status")
    assert len([key for key in read(served) if key[0] == "dygcn_requests_total"]) < 10


def test_counts_only_grow(serve):
    served = serve()
    before = read(served)
    for number in range(5):
        served.post([{"src": 1, "dst": 50 + number}])
        served.get("/v1/vectors/1")
    after = read(served)
    for key, value in before.items():
        if key[0].endswith(("_total", "_count", "_bucket", "_sum")):
            assert after[key] >= value


def test_a_failing_pump_is_shown_by_its_public_name(serve):
    source, sink = Listed(), Kept()
    source.errors += [LOST] * 100_000
    sink.errors += [FULL_DISK] * 100_000
    served = serve(
        sources=[source],
        sinks=[sink],
    )
    until(lambda: served.service.sources[0].failures and served.service.sinks[0].failures)
    found = read(served)
    assert found["dygcn_source_failing", ("source", source.name)] == 1
    assert found["dygcn_sink_failing", ("sink", sink.name)] == 1


def test_a_snapshot_that_fails_is_shown_and_stops_no_request(serve, monkeypatch):
    """Until one is written, without a restart; the service ends in good order all the same."""
    served = serve(snapshot_every=1)
    monkeypatch.setattr(snapshots, "_PAUSES", (0.0, 0.0))
    with monkeypatch.context() as full_disk:
        full_disk.setattr(Snapshot, "write", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
        for step in range(3):
            assert served.post([{"src": 1, "dst": 9 + step}]).status_code == 200
            served.service.live._snapshots.wait()
        found, status = read(served), served.get("/v1/status").json()
        assert found["dygcn_snapshot_failing",] == found["dygcn_accepting",] == 1
        assert found["dygcn_snapshot_failures_total",] == 3
        assert "No space left" in status["snapshot"]["failure"]
        assert status["failure"] is None
    assert served.post([{"src": 1, "dst": 19}]).status_code == 200
    served.service.live._snapshots.wait()
    found = read(served)
    assert (found["dygcn_snapshot_failing",], found["dygcn_snapshot_sequence",]) == (0, 4)
    assert served.get("/v1/status").json()["snapshot"]["failure"] is None


def test_the_disk_is_that_of_the_folder(serve):
    served = serve()
    found, disk = read(served), shutil.disk_usage(served.service.live._folder)
    assert found["dygcn_disk_size_bytes",] == disk.total
    assert 0 < found["dygcn_disk_free_bytes",] <= disk.total
    served.service.live._folder = served.service.live._folder / "gone"
    assert not [name for name in read(served) if "disk" in name[0]]


def test_two_services_in_one_process_do_not_share(serve):
    one, other = serve(), serve("string")
    one.post([{"src": 1, "dst": 9}])
    assert read(one)["dygcn_events_total",] == 1
    assert read(other)["dygcn_events_total",] == 0
    assert Metrics(one.service.report).text() != Metrics(other.service.report).text()


def test_names_are_well_formed(serve):
    for line in serve().get("/metrics").text.splitlines():
        if not line.startswith("#"):
            assert re.fullmatch(r"(dygcn|process)_[a-z_]+(\{.*\})? ([0-9.e+-]+|\+?(Inf|NaN))", line)


def test_a_log_that_cannot_be_read_is_told(serve, monkeypatch):
    served = serve()

    def broken():
        raise DamagedLog("the log is not what was written")

    monkeypatch.setattr(served.service.live._log, "count_dead_letters", broken)
    is_problem(served.get("/metrics"), 503, "storage")
    is_problem(served.get("/v1/status"), 503, "storage")
    assert served.get("/v1/vectors/1").status_code == 200
