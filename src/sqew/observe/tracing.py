"""Traces for OpenTelemetry: a span for each request that is sampled, and one for each of its transactions.

A request is sampled or not when its head arrives: as its caller decided, if it sent a `traceparent` (W3C Trace
Context), else by chance. A request that is not sampled costs nothing more. The packages of OpenTelemetry are imported
only if traces are turned on.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping, Sequence
from random import random
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from sqew.errors import BadSetting
from sqew.installing import to_install
from sqew.operations import Operation
from sqew.settings import OtlpProtocol, Settings

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Link, Span, SpanContext

_TRACEPARENT = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = 1
_CLOSE_WITHIN_S = 5.0
_MOST_LINKS = 128


class TraceParent:
    """The caller of a request, as its `traceparent` names it.

    >>> parent = trace_parent_of(b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    >>> f"{parent.trace_id:x} {parent.span_id:x} {parent.sampled}"
    'af7651916cd43dd8448eb211c80319c b7ad6b7169203331 True'
    """

    __slots__ = ("sampled", "span_id", "trace_id")

    def __init__(self, trace_id: int, span_id: int, sampled: bool) -> None:
        self.trace_id, self.span_id, self.sampled = trace_id, span_id, sampled


def trace_parent_of(traceparent: bytes | None) -> TraceParent | None:
    """Parse a `traceparent` header; None if there is none, or it is not valid."""
    found = None if traceparent is None else _TRACEPARENT.fullmatch(traceparent.strip())
    if found is None:
        return None
    version, trace, span, flags, more = found.groups()
    trace_id, span_id = int(trace, 16), int(span, 16)
    # Version 00 has four parts and ff is none; later ones may have more.
    if not trace_id or not span_id or version == b"ff" or (version == b"00" and more):
        return None
    return TraceParent(trace_id, span_id, bool(int(flags, 16) & _SAMPLED))


class Tracing:
    """Tracer of requests and transactions, which sends spans to a collector from a thread of its own."""

    def __init__(self, exporter: SpanExporter, sample_rate: float, version: str) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ALWAYS_ON

        resource = Resource.create({"service.name": "sqew", "service.version": version})
        # What comes to it is sampled already.
        self._provider = TracerProvider(ALWAYS_ON, resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("sqew", version)
        self._sample_rate = sample_rate
        # By the identity of its operation. A trace holds its operation, so an identity stays its own as long.
        self._awaited: WeakValueDictionary[int, Trace] = WeakValueDictionary()

    def begin(self, headers: Mapping[bytes, bytes]) -> Trace | None:
        """Begin the trace of a request whose head has arrived; None if it is not sampled."""
        parent = trace_parent_of(headers.get(b"traceparent"))
        if parent is None:
            return Trace(self, self._start(None, b"")) if random() < self._sample_rate else None
        return Trace(self, self._start(parent, headers.get(b"tracestate", b""))) if parent.sampled else None

    def _start(self, parent: TraceParent | None, tracestate: bytes) -> Span:
        from opentelemetry.context import Context
        from opentelemetry.trace import (
            NonRecordingSpan,
            SpanContext,
            SpanKind,
            TraceFlags,
            TraceState,
            set_span_in_context,
        )

        context = Context()
        if parent is not None:
            state = TraceState.from_header([tracestate.decode("latin-1")])
            remote = SpanContext(parent.trace_id, parent.span_id, True, TraceFlags(TraceFlags.SAMPLED), state)
            context = set_span_in_context(NonRecordingSpan(remote), context)
        return self._tracer.start_span("request", context, SpanKind.SERVER)

    def await_operation(self, operation: Operation[Any], trace: Trace) -> None:
        """Register an operation, so that the transaction that executes it gets a span."""
        self._awaited[id(operation)] = trace

    def observe_batch(self, operations: Sequence[Operation[Any]], seconds: float) -> None:
        """Add a span for a transaction if a sampled request was in it, linked to all others that were."""
        if not self._awaited:
            return
        traces = [trace for operation in operations if (trace := self._awaited.get(id(operation))) is not None]
        if traces:
            self._add_transaction(traces, operations, seconds)

    def _add_transaction(self, traces: list[Trace], operations: Sequence[Operation[Any]], seconds: float) -> None:
        from opentelemetry.context import Context
        from opentelemetry.trace import Link, SpanKind, set_span_in_context

        first, *others = traces
        links: list[Link] = [Link(trace.context) for trace in others[:_MOST_LINKS]]
        ended = time.time_ns()
        span = self._tracer.start_span(
            "transaction",
            set_span_in_context(first.span, Context()),
            SpanKind.CLIENT,
            {"db.system.name": "sqlite", "db.operation.batch.size": len(operations)},
            links,
            ended - int(seconds * 1e9),
        )
        span.end(ended)

    def close(self) -> None:
        """Send the remaining spans, unless the collector takes too long for that."""
        # A daemon: an exporter that tries again and again must not keep the process from ending.
        thread = threading.Thread(target=self._provider.shutdown, name="sqew traces", daemon=True)
        thread.start()
        thread.join(_CLOSE_WITHIN_S)


class Trace:
    """The span of a request, and the operation that it waits for."""

    __slots__ = ("__weakref__", "_operation", "_tracing", "span")

    def __init__(self, tracing: Tracing, span: Span) -> None:
        self._tracing = tracing
        self.span = span
        self._operation: Operation[Any] | None = None

    @property
    def context(self) -> SpanContext:
        return self.span.get_span_context()

    @property
    def id(self) -> str:
        """The trace's id as logs have it."""
        return f"{self.context.trace_id:032x}"

    def through(self, operation: Operation[Any]) -> None:
        """Note that the request is answered by this operation."""
        self._operation = operation
        self._tracing.await_operation(operation, self)

    def end(self, *, method: str, route: str | None, path: str, status: int, request_id: str, rows: int) -> None:
        """End the span: the request was answered."""
        from opentelemetry.trace import Status, StatusCode

        span = self.span
        span.update_name(f"{method} {route}" if route else method)
        span.set_attributes(
            {
                "http.request.method": method,
                "url.path": path,
                "http.response.status_code": status,
                "sqew.request_id": request_id,
                "sqew.rows": rows,
            }
        )
        if route is not None:
            span.set_attribute("http.route", route)
        if status >= 500:
            span.set_status(Status(StatusCode.ERROR))
        span.end()


def tracing_of(settings: Settings, version: str) -> Tracing | None:
    """Return the tracing that the settings ask for, or None."""
    if not settings.otlp_enabled:
        return None
    try:
        exporter = _exporter(settings.otlp_protocol, settings.otlp_endpoint)
    except ImportError as error:
        raise BadSetting(
            f"otlp_enabled needs the packages of OpenTelemetry. Install them with `{to_install('otel')}`, "
            "or turn it off."
        ) from error
    return Tracing(exporter, settings.otlp_sample_rate, version)


def _exporter(protocol: OtlpProtocol, endpoint: str) -> SpanExporter:
    if not re.match(r"https?://[^/\s]", endpoint):
        raise BadSetting(f"otlp_endpoint can't be '{endpoint}': it must be a URL such as http://localhost:4317.")
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as OverGrpc

        return OverGrpc(endpoint)
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as OverHttp

    path = "/v1/traces"
    return OverHttp(endpoint if endpoint.endswith(path) else endpoint.rstrip("/") + path)
