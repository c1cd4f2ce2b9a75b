"""Traces by OpenTelemetry, which is imported only if they are on."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

import dygcn
from dygcn._extras import extra
from dygcn.errors import OptionError

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_TRACES = "/v1/traces"
_MOST_LINKS = 128
_LONGEST_CLOSE = 2.0  # seconds


class Otel(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The collector of traces; environment variables OTEL_... hold further options."""

    endpoint: str | None = None  # of OTLP over HTTP: http://127.0.0.1:4318; None: the environment says
    service_name: str = "dygcn"

    def __post_init__(self) -> None:
        if self.endpoint is not None and not self.endpoint.startswith(("http://", "https://")):
            raise OptionError(
                f"otel.endpoint is {self.endpoint!r}; allowed is an address such as http://127.0.0.1:4318"
            )


class Tracing:
    """Spans of requests, queue, batches, log, updates, sinks and snapshots.

    The provider, an OpenTelemetry `TracerProvider`, is shut down with the service. Without one, traces are
    off: `current`, `done` and `close` do nothing; `request` and `batch` are for callers that found it `on`.
    """

    def __init__(self, provider: Any = None) -> None:
        self.on, self._provider = provider is not None, provider
        if not self.on:
            return
        with extra("otel"):
            from opentelemetry import context, trace  # noqa: PLC0415 - off by default
            from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415
                TraceContextTextMapPropagator,
            )
        self._trace, self._context = trace, context
        self._tracer = provider.get_tracer("dygcn", dygcn.__version__)
        self._extract = TraceContextTextMapPropagator().extract

    def current(self) -> Any:
        """Return the context that a span in another thread needs to belong to this one."""
        return self._context.get_current() if self.on else None

    @contextmanager
    def request(self, method: str, route: str, headers: Mapping[str, str]) -> Iterator[Any]:
        """Make a span of a request, which continues the trace of its client."""
        attributes = {"http.request.method": method, "http.route": route}
        parent, kind = self._extract(headers), self._trace.SpanKind.SERVER
        with self._tracer.start_as_current_span(
            f"{method} {route}", context=parent, kind=kind, attributes=attributes
        ) as span:
            yield span

    def answered(self, span: Any, status: int, request_id: str) -> None:
        """Record the answer; only a failure of the service is an error of the span."""
        span.set_attribute("http.response.status_code", status)
        span.set_attribute("dygcn.request_id", request_id)
        if status >= 500:
            span.set_status(self._trace.StatusCode.ERROR)

    @contextmanager
    def batch(self, parents: Sequence[Any]) -> Iterator[None]:
        """Make a span of a batch: one has many requests, so that they are links and not its parent."""
        spans = [self._trace.get_current_span(one).get_span_context() for one in parents[:_MOST_LINKS]]
        links = [self._trace.Link(one) for one in spans if one.is_valid]
        attributes = {"dygcn.parts": len(parents)}
        with self._tracer.start_as_current_span(
            "batch", context=self._context.Context(), links=links, attributes=attributes
        ):
            yield

    def done(self, name: str, seconds: float, parent: Any = None, **attributes: object) -> None:
        """Make a span of work that ends now, in the open span or in that of `parent`."""
        if not self.on:
            return
        end = time.time_ns()
        named = {f"dygcn.{key}": value for key, value in attributes.items()}
        begun = end - round(seconds * 1e9)
        span = self._tracer.start_span(name, context=parent, start_time=begun, attributes=named)
        span.end(end)

    def close(self) -> None:
        """Send waiting spans, for a moment only: an unreachable collector does not delay a drain."""
        if not self.on:
            return
        sending = threading.Thread(target=self._provider.shutdown, name="dygcn-traces", daemon=True)
        sending.start()
        sending.join(_LONGEST_CLOSE)


def make_tracing(settings: Otel, environment: Mapping[str, str] | None = None) -> Tracing:
    """Return tracing, which is on if the settings or the environment name a collector."""
    found = os.environ if environment is None else environment
    disabled = found.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if disabled or (settings.endpoint is None and not any(found.get(name) for name in _ENDPOINTS)):
        return Tracing()
    with extra("otel"):
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    about = {"service.version": dygcn.__version__}
    if "OTEL_SERVICE_NAME" not in found:
        about["service.name"] = settings.service_name
    provider = TracerProvider(resource=Resource.create(about), shutdown_on_exit=False)
    endpoint = settings.endpoint and settings.endpoint.rstrip("/").removesuffix(_TRACES) + _TRACES
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))
    return Tracing(provider)
