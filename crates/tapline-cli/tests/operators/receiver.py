"""A receiver of OTLP over HTTP that reads with OpenTelemetry's own messages, and tapline in a folder of its own."""

import http.server
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
import time

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest, ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse

ROOT = pathlib.Path(os.environ["TAPLINE_ROOT"])
TAPLINE = os.environ["TAPLINE"]
FIXTURES = ROOT / "fixtures"
TOKEN = "operators-0123456789abcdef0123456789"
# Whoever takes longer hangs. No speed is tested by it.
HANG = 600


def until(what, is_so):
    """Waits until this is so, and returns it."""
    end = time.monotonic() + HANG
    while True:
        found = is_so()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"it never came to this: {what}")
        time.sleep(0.02)


class Receiver:
    """Takes requests. `answers` are the first statuses, with a Retry-After; after them everything is taken."""

    def __init__(self, answers=(), reject=0):
        self.spans, self.metrics, self.requests = [], [], []
        self.resources = []
        self.answers, self.reject = list(answers), reject
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status, after, answer = receiver.take(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
                self.send_response(status)
                if after is not None:
                    self.send_header("Retry-After", str(after))
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.lock = threading.Lock()
        self.url = "http://127.0.0.1:%d" % self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, path, headers, body):
        with self.lock:
            self.requests.append((path, headers, body))
            if self.answers:
                status, after = self.answers.pop(0)
                return status, after, b""
            if path == "/v1/traces":
                request = ExportTraceServiceRequest.FromString(body)
                assert not unknown(request), "fields that OpenTelemetry does not know"
                for one in request.resource_spans:
                    self.resources.append(one.resource)
                    for scope in one.scope_spans:
                        assert scope.scope.name == "tapline" and scope.scope.version
                        self.spans.extend(scope.spans)
                answer = ExportTraceServiceResponse()
                if self.reject:
                    answer.partial_success.rejected_spans = self.reject
                    answer.partial_success.error_message = "too old"
                return 200, None, answer.SerializeToString()
            if path == "/v1/metrics":
                request = ExportMetricsServiceRequest.FromString(body)
                assert not unknown(request), "fields that OpenTelemetry does not know"
                self.metrics.append([metric for one in request.resource_metrics for scope in one.scope_metrics for metric in scope.metrics])
                self.resources.extend(one.resource for one in request.resource_metrics)
                return 200, None, ExportMetricsServiceResponse().SerializeToString()
            return 404, None, b""

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def unknown(message):
    """Whether a message has fields that its definition does not have: reading and writing it again would keep them."""
    known = type(message)()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    return known.SerializeToString(deterministic=True) != message.SerializeToString(deterministic=True)


class Home:
    """A user with nothing, and tapline for them."""

    def __init__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="tapline-operators-"))
        self.env = {"PATH": os.environ["PATH"], "HOME": str(self.path), "TAPLINE_HOME": str(self.path / "tapline"), "TZ": "UTC"}
        self.children = []

    def tapline(self, *args, check=True, **env):
        ran = subprocess.run([TAPLINE, *map(str, args)], env={**self.env, **env}, cwd=self.path, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=HANG)
        if check:
            assert ran.returncode == 0, (args, ran.stderr)
        return ran

    def start(self, *args, **env):
        child = subprocess.Popen([TAPLINE, *map(str, args)], env={**self.env, **env}, cwd=self.path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.children.append(child)
        return child

    def serve(self, *args, **env):
        """Starts a server. Returns it, and its address."""
        token = self.path / "token"
        token.write_text(TOKEN)
        child = self.start("serve", "--no-open", "--token-file", token, *args, **env)
        link = child.stdout.readline()
        assert link.startswith("http://"), child.stderr.read()
        return child, link.split("/")[2]

    def agent(self, script):
        """Puts an agent into the PATH that does as this shell script says."""
        folder = self.path / "bin"
        folder.mkdir(exist_ok=True)
        program = folder / "claude"
        program.write_text("#!/bin/sh\n" + script)
        program.chmod(0o755)
        self.env["PATH"] = f"{folder}:{self.env['PATH']}"

    def close(self):
        for child in self.children:
            if child.poll() is None:
                child.kill()
            child.communicate()
        shutil.rmtree(self.path, ignore_errors=True)
