"""The official OpenTelemetry suites: a collector of our own in place of a cloud's, all else theirs.

What judges spans is the official extension, unmodified. It asks a backend for the spans of an
execution; this one has them from workers that send them here over OTLP.
"""

import contextlib
import dataclasses
import http.server
import os
import sys
import threading
import types
from pathlib import Path

import yaml

try:
    import compression  # noqa: F401
except ImportError:
    # It came with Python 3.14, and the official package wants it for files that there are none of here.
    sys.modules["compression"] = types.SimpleNamespace(zstd=types.SimpleNamespace(ZstdError=ValueError))

from aws_durable_execution_conformance_tests_otel import extension  # noqa: E402
from aws_durable_execution_conformance_tests_otel.backends._common import matching_trace  # noqa: E402
from aws_durable_execution_conformance_tests_otel.exporters import ExporterConfiguration  # noqa: E402
from aws_durable_execution_conformance_tests_otel.long_running import _requirement_for_view  # noqa: E402
from aws_durable_execution_conformance_tests_otel.model import Trace  # noqa: E402
from aws_durable_execution_conformance_tests_otel.normalizers import normalize_otlp_protobuf  # noqa: E402
from aws_durable_execution_conformance_tests_otel.polling import PollingBackend  # noqa: E402

NAME = "local"
LONG = "otel-long-running"
LONG_BY_EXECUTION = "otel-long-running-by-execution"
OPTIONS = ["--otel-exporter", NAME, "--otel-backend", NAME, "--otel-poll-interval", "0.3", "--otel-poll-attempts", "200"]


class Collector(PollingBackend):
    """Takes spans over OTLP, and finds them again."""

    name = NAME

    def __init__(self):
        super().__init__()
        self.spans = {}
        self.lock = threading.Lock()

    def add(self, body):
        with self.lock:
            for trace in normalize_otlp_protobuf(body):
                self.spans.setdefault(trace.trace_id, []).extend(trace.spans)

    def _lookup(self, query):
        with self.lock:
            traces = [Trace(trace, tuple(spans)) for trace, spans in self.spans.items()]
        return matching_trace(traces, query)

    def handler(self):
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                is_ours = self.path == "/v1/traces" and self.headers["Content-Type"] == "application/x-protobuf"
                if is_ours:
                    collector.add(body)
                self.send_response(200 if is_ours else 400)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        return Handler


@contextlib.contextmanager
def collecting():
    """A collector that workers started from now on send to, and the extension asks."""
    collector = Collector()
    factory = types.SimpleNamespace(
        name=NAME, supported_exporters=(NAME,), create=lambda _options, region: collector
    )
    exporter = types.SimpleNamespace(
        name=NAME, supported_backends=(NAME,), configure=lambda _options: ExporterConfiguration((), {})
    )
    extension.BUILTIN_BACKENDS[NAME] = lambda: factory
    extension.BUILTIN_EXPORTERS[NAME] = lambda: exporter
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), collector.handler()) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        os.environ.update(
            OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{server.server_port}",
            OTEL_SERVICE_NAME=extension.DEFAULT_OTEL_SERVICE_NAME,
            OTEL_BSP_SCHEDULE_DELAY="200",
        )
        yield
        server.shutdown()


def suites(folder):
    """The official suites, and the long-running one once more as the other view sees it."""
    found = {suite.name: suite for suite in extension.OtelExtension().requirement_suites()}
    by_execution = folder / LONG_BY_EXECUTION
    by_execution.mkdir(exist_ok=True)
    for file in found[LONG].root.glob("*.yaml"):
        requirement = _requirement_for_view(yaml.safe_load(file.read_text()), "execution")
        (by_execution / f"{file.stem}-by-execution.yaml").write_text(yaml.safe_dump(requirement))
    found[LONG_BY_EXECUTION] = dataclasses.replace(found[LONG], name=LONG_BY_EXECUTION, root=by_execution)
    return found


def files(folder):
    """The files of the requirements, by id."""
    return {file.stem: file for suite in suites(folder).values() for file in Path(suite.root).glob("*.yaml")}


def loading(load, folder):
    """The runner's way to find suites, with the one that we add."""

    def load_with_views(*asked, **more):
        registry = load(*asked, **more)
        registry.suites.update(suites(folder))
        return registry

    return load_with_views
