"""The engine under test, and the workers that have the handlers: started, read, ended."""

import contextlib
import json
import os
import subprocess
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 60


def build(*packages, features=()):
    """Builds programs of this repository; the folder they are in."""
    chosen = [word for package in packages for word in ("--package", package)]
    more = ["--features", ",".join(features)] if features else []
    subprocess.run(["cargo", "build", "--quiet", "--locked", *chosen, *more], cwd=ROOT, check=True)
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug"


class Logs:
    """What workers print, in the order it came."""

    def __init__(self):
        self.lines = []
        self.lock = threading.Lock()

    def read(self, stream):
        """Reads a worker's output until it ends."""
        for line in stream:
            self.add(line)

    def add(self, line):
        with self.lock:
            self.lines.append((time.time_ns() // 1_000_000, len(self.lines), line.rstrip("\n")))

    def of(self, _function, execution):
        """The lines of an execution as CloudWatch would give them: found by its name in a field."""
        with self.lock:
            lines = list(self.lines)
        return [
            {"timestamp": at, "ingestionTime": number, "message": line}
            for at, number, line in lines
            if execution in line and belongs(line, execution)
        ]


def belongs(line, execution):
    try:
        record = json.loads(line)
    except ValueError:
        return False
    return isinstance(record, dict) and execution in (
        record.get("executionArn"),
        record.get("durableExecutionArn"),
    )


@contextlib.contextmanager
def engine(which, folder):
    """The endpoint of the engine under test."""
    if which != "outlast":
        yield which
        return
    outlast = build("outlast-cli") / "outlast"
    with (folder / "serve.log").open("w") as log:
        served = subprocess.Popen(
            [outlast, "--json", "serve", "--dev", "--listen", "127.0.0.1:0", "--data", folder / "data"],
            stdout=subprocess.PIPE, stderr=log, text=True,
        )
        with ended(served):
            first = served.stdout.readline()
            if not first:
                raise SystemExit("outlast serve did not start:\n" + (folder / "serve.log").read_text())
            yield json.loads(first)["endpoint"]


@contextlib.contextmanager
def ended(process):
    """A process that ends with the block."""
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Rust:
    """The handlers of this repository: one program, as a worker of the engine."""

    is_complete = True

    def __init__(self, _store):
        self.program = build("outlast-conformance") / "outlast-conformance"
        listed = subprocess.run([self.program, "--list"], check=True, capture_output=True, text=True)
        self.all = [json.loads(line) for line in listed.stdout.splitlines()]

    def chosen(self, only):
        return [it for it in self.all if not only or it["id"] in only]

    def template(self, folder, only):
        """What the runner reads to know which function is for which requirement."""
        resources = {
            it["function"]: {
                "Type": "AWS::Serverless::Function",
                "TestingMetadata": {"TestDescription": [it["id"]]},
            }
            for it in self.chosen(only)
        }
        file = folder / "template.yaml"
        file.write_text(json.dumps({"Resources": resources}))
        return file

    @contextlib.contextmanager
    def attached(self, endpoint, logs, only):
        """Runs workers: one for all handlers, and one for each that loses its process."""
        chosen = self.chosen(only)
        together = [it["id"] for it in chosen if not it["losesProcess"]]
        groups = [together] * bool(together) + [[it["id"]] for it in chosen if it["losesProcess"]]
        with contextlib.ExitStack() as stack:
            keepers = [stack.enter_context(Kept([self.program, *ids], endpoint, logs)) for ids in groups]
            for keeper in keepers:
                keeper.await_ready()
            yield


class Kept:
    """A worker that is started again whenever it ends."""

    def __init__(self, command, endpoint, logs):
        self.command = command
        self.environment = {**os.environ, "OUTLAST_ENDPOINT": endpoint}
        self.environment.pop("AWS_LAMBDA_RUNTIME_API", None)
        self.logs = logs
        self.ready = threading.Event()
        self.over = False
        self.lock = threading.Lock()
        self.process = None
        self.said = []
        self.thread = threading.Thread(target=self.keep, daemon=True)

    def keep(self):
        while self.start():
            errors = threading.Thread(target=self.read_errors, args=(self.process.stderr,), daemon=True)
            errors.start()
            self.logs.read(self.process.stdout)
            self.process.wait()
            errors.join()

    def start(self):
        with self.lock:
            if not self.over:
                self.process = subprocess.Popen(
                    self.command, env=self.environment, text=True,
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                )
            return not self.over

    def read_errors(self, stream):
        for line in stream:
            self.said.append(line)
            if line.startswith("outlast: a worker of "):
                self.ready.set()

    def await_ready(self):
        if not self.ready.wait(PATIENCE_SECONDS):
            raise SystemExit("a worker did not come up:\n" + "".join(self.said))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        with self.lock:
            self.over = True
        with ended(self.process):
            pass
        self.thread.join()
