"""Traces: what a request became, across threads, and at no cost while they are off."""

import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from dygcn.serving.observing.tracing import Otel, Tracing, make_tracing
from dygcn_lab.testbed.seeding import seeded
from tests.serving.service.streams import Kept, until

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01", "X-Request-Id": "mine"}


@pytest.fixture
def traced(serve):
    served = serve(sinks=[Kept()])
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    served.service.observations.tracing = Tracing(provider)
    return served, kept


def by_name(kept):
    return {span.name: span for span in kept.get_finished_spans()}


def check_request(served, kept):
    answer = served.client.post("/v1/events", json=[{"src": 1, "dst": 9}], headers=PARENT)
    assert answer.status_code == 200
    served.service.live.snapshot()
    wanted = {"POST /v1/events", "queue wait", "batch", "log write", "apply", "sink write", "snapshot"}
    until(lambda: wanted <= set(by_name(kept)))
    found = by_name(kept)
    request, wait, batch = found["POST /v1/events"], found["queue wait"], found["batch"]
    assert f"{request.context.trace_id:032x}" == TRACE
    assert request.attributes["http.route"] == "/v1/events"
    assert request.attributes["http.response.status_code"] == 200
    assert request.attributes["dygcn.request_id"] == "mine"
    assert wait.parent.span_id == request.context.span_id
    assert [link.context.span_id for link in batch.links] == [request.context.span_id]
    for name in ("log write", "apply"):
        assert found[name].parent.span_id == batch.context.span_id
        assert batch.start_time <= found[name].end_time <= batch.end_time
    assert found["sink write"].attributes["dygcn.rows"] > 0


def test_a_request_is_followed_to_the_disk(traced):
    check_request(*traced)


def test_a_request_that_loses_its_trace_in_the_queue_would_be_noticed(traced):
    with seeded(Tracing, "current", lambda self: None), pytest.raises((AssertionError, AttributeError)):
        check_request(*traced)


def test_the_route_and_not_the_id_is_told(traced):
    served, kept = traced
    served.get("/v1/vectors/987654321")
    [span] = [one for one in kept.get_finished_spans() if one.name == "GET /v1/vectors/{id}"]
    assert span.attributes["http.response.status_code"] == 404
    assert "987654321" not in span.to_json()


def test_off_nothing_is_imported(tmp_path):
    code = (
        "import sys; from dygcn.serving.service.app import make_app; "
        "from dygcn.serving.observing.tracing import Otel, make_tracing; "
        "assert not make_tracing(Otel(), {}).on; "
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("settings", "environment", "on"),
    [
        (Otel(), {}, False),
        (Otel(), {"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        (Otel(endpoint="http://127.0.0.1:9"), {"OTEL_SDK_DISABLED": "true"}, False),
        (Otel(), {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:9"}, True),
        (Otel(endpoint="http://127.0.0.1:9"), {}, True),
    ],
)
def test_it_is_on_where_an_address_is_named(settings, environment, on):
    tracing = make_tracing(settings, environment)
    assert tracing.on is on
    tracing.close()


class Collector(BaseHTTPRequestHandler):
    """Takes traces as OTLP over HTTP."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.taken.append((self.path, ExportTraceServiceRequest.FromString(body)))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def test_a_collector_gets_the_spans(serve):
    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        server.taken = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        served = serve(otel=Otel(endpoint=f"http://127.0.0.1:{server.server_port}"))
        assert served.get("/v1/vectors/1").status_code == 200
        served.service.observations.tracing.close()
        server.shutdown()
    [(path, taken), *_] = server.taken
    assert path == "/v1/traces"
    [sent] = taken.resource_spans
    about = {one.key: one.value.string_value for one in sent.resource.attributes}
    assert about["service.name"] == "dygcn"
    assert "GET /v1/vectors/{id}" in {span.name for scope in sent.scope_spans for span in scope.spans}
