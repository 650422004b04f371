"""Traces, as a collector receives them: over gRPC and over HTTP."""

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)

from tests.support.serving import serving

TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED = {"traceparent": f"00-{TRACE}-{CALLER}-01", "tracestate": "vendor=abc"}
NOT_SAMPLED = {"traceparent": f"00-{TRACE}-{CALLER}-00"}


class Collector:
    """A collector of spans, which returns them once the server that sent them has stopped."""

    def __init__(self):
        self.url = ""
        self._received = queue.SimpleQueue()

    def take(self, request):
        for of_resource in request.resource_spans:
            names = {entry.key: entry.value.string_value for entry in of_resource.resource.attributes}
            assert names["service.name"] == "sqew"
            for of_scope in of_resource.scope_spans:
                for span in of_scope.spans:
                    self._received.put(span)

    def spans(self):
        found = []
        while not self._received.empty():
            found.append(self._received.get())
        return found


@contextlib.contextmanager
def grpc_collector():
    collector = Collector()

    class Service(TraceServiceServicer):
        def Export(self, request, context):  # noqa: N802 (the name in the protocol)
            collector.take(request)
            return ExportTraceServiceResponse()

    server = grpc.server(futures.ThreadPoolExecutor(2))
    add_TraceServiceServicer_to_server(Service(), server)
    collector.url = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield collector
    finally:
        server.stop(0).wait()


@contextlib.contextmanager
def http_collector():
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            assert self.path == "/v1/traces"
            body = self.rfile.read(int(self.headers["content-length"]))
            collector.take(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    collector.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def collector():
    with grpc_collector() as collector:
        yield collector


def environment(collector, rate="1.0", **more):
    """Return the variables of tracing, as the seed names them."""
    return {"OTLP_ENABLED": "true", "OTLP_ENDPOINT": collector.url, "OTLP_SAMPLE_RATE": rate, **more}


def attributes(span):
    return {entry.key: entry.value.string_value or entry.value.int_value for entry in span.attributes}


def by_name(spans):
    found = {}
    for span in spans:
        found.setdefault(span.name, []).append(span)
    return found


@pytest.mark.parametrize(("protocol", "started"), [("grpc", grpc_collector), ("http", http_collector)])
def test_a_request_and_its_transaction_are_spans_of_the_caller_s_trace(tmp_path, protocol, started):
    with started() as collector:
        with serving(tmp_path, "--otlp-protocol", protocol, env=environment(collector, "0")) as server:
            server.call("POST", "/queues", {"name": "orders"})
            answer = server.call("POST", "/queues/orders/messages", {"payload": 1}, SAMPLED)
            assert server.stop() == 0
        spans = by_name(collector.spans())

    assert sorted(spans) == ["POST /queues/{queue}/messages", "transaction"]
    (request,), (transaction,) = spans["POST /queues/{queue}/messages"], spans["transaction"]
    assert request.trace_id.hex() == transaction.trace_id.hex() == TRACE
    assert request.parent_span_id.hex() == CALLER
    assert request.trace_state == "vendor=abc"
    assert transaction.parent_span_id == request.span_id
    assert request.start_time_unix_nano <= transaction.start_time_unix_nano < transaction.end_time_unix_nano
    assert transaction.end_time_unix_nano <= request.end_time_unix_nano
    assert attributes(transaction) == {"db.system.name": "sqlite", "db.operation.batch.size": 1}
    assert attributes(request) == {
        "http.request.method": "POST",
        "http.route": "/queues/{queue}/messages",
        "url.path": "/queues/orders/messages",
        "http.response.status_code": 201,
        "sqew.request_id": answer.headers["x-request-id"],
        "sqew.rows": 1,
    }


def test_requests_of_one_tick_share_the_span_of_their_transaction_by_links(tmp_path, collector):
    head = b"POST /queues/orders/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: 13\r\n\r\n"
    with serving(tmp_path, env=environment(collector)) as server:
        server.call("POST", "/queues", {"name": "orders"})
        connections = [server.connect() for _ in range(10)]
        for connection in connections:
            connection.sendall(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert connection.recv(4_096).startswith(b"HTTP/1.1 200")
        # What it finds when it wakes up, it reads in one tick.
        server.process.send_signal(signal.SIGSTOP)
        os.waitpid(server.process.pid, os.WUNTRACED)
        for connection in connections:
            connection.sendall(head + b'{"payload":1}')
        server.process.send_signal(signal.SIGCONT)
        for connection in connections:
            assert connection.recv(4_096).startswith(b"HTTP/1.1 201")
            connection.close()
        assert server.stop() == 0
    spans = by_name(collector.spans())

    requests = {span.span_id for span in spans["POST /queues/{queue}/messages"]}
    (transaction,) = [span for span in spans["transaction"] if span.parent_span_id in requests]
    assert len(requests) == 10
    assert {transaction.parent_span_id, *(link.span_id for link in transaction.links)} == requests


def test_a_caller_that_does_not_sample_is_respected(tmp_path, collector):
    with serving(tmp_path, env=environment(collector)) as server:
        server.call("GET", "/queues", headers=NOT_SAMPLED)
        assert server.stop() == 0

    assert collector.spans() == []


@pytest.mark.parametrize(("rate", "expected"), [("0", range(1)), ("0.5", range(60, 141)), ("1", range(200, 201))])
def test_without_a_caller_s_word_the_rate_decides(tmp_path, collector, rate, expected):
    with serving(tmp_path, env=environment(collector, rate)) as server:
        for _ in range(200):
            server.call("GET", "/livez", headers={"traceparent": "not-a-traceparent"})
        assert server.stop() == 0

    assert len(collector.spans()) in expected


def test_a_long_poll_is_one_span_with_every_transaction_that_looked(tmp_path, collector):
    with serving(tmp_path, env=environment(collector)) as server:
        server.call("POST", "/queues", {"name": "orders"})
        server.call("POST", "/queues/orders/poll?wait_ms=100", headers=SAMPLED)
        assert server.stop() == 0
    spans = by_name(collector.spans())

    (request,) = spans["POST /queues/{queue}/poll"]
    looked = [span for span in spans["transaction"] if span.parent_span_id == request.span_id]
    assert len(looked) >= 2
    assert request.end_time_unix_nano - request.start_time_unix_nano >= 100e6


def test_a_traced_request_has_its_trace_in_the_log(tmp_path, collector):
    with serving(tmp_path, "--access-log", "all", env=environment(collector)) as server:
        server.call("GET", "/livez", headers=SAMPLED)
        assert server.stop() == 0

        assert f'"trace_id":"{TRACE}"' in server.log.read_text()


def test_a_collector_that_is_not_there_stops_nobody(tmp_path):
    env = {"OTLP_ENABLED": "true", "OTLP_ENDPOINT": "http://127.0.0.1:9", "OTLP_SAMPLE_RATE": "1"}
    with serving(tmp_path, env=env) as server:
        assert server.call("GET", "/livez").status == 200

        began = time.monotonic()
        assert server.stop() == 0

    assert time.monotonic() - began < 10


def run_serve(folder, env, *before):
    """Run a server that must not start; return its exit code, and its output."""
    code = "; ".join([*before, "from sqew.cli.main import main; main()"])
    command = [sys.executable, "-c", code, "--db", str(folder / "queue.db"), "serve", "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, env={**os.environ, **env})
    return done.returncode, done.stderr


def test_without_the_extra_it_says_what_to_install(tmp_path):
    code, said = run_serve(tmp_path, {"OTLP_ENABLED": "true"}, "import sys", "sys.modules['opentelemetry'] = None")

    assert code != 0
    assert "pip install 'opentelemetry-exporter-otlp>=1.30' 'opentelemetry-sdk>=1.30'" in said
    assert said.count("\n") == 1


def test_an_endpoint_that_is_no_url_is_refused(tmp_path):
    code, said = run_serve(tmp_path, {"OTLP_ENABLED": "true", "OTLP_ENDPOINT": "localhost:4317"})

    assert code != 0
    assert "otlp_endpoint can't be 'localhost:4317'" in said


def test_where_traces_are_off_nothing_of_opentelemetry_is_imported():
    code = (
        "import sys, sqew.http.run; from sqew.settings import Settings; from sqew.observe.tracing import tracing_of; "
        "assert tracing_of(Settings(), '1') is None; "
        "assert not [name for name in sys.modules if name.startswith(('opentelemetry', 'grpc'))]"
    )

    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
