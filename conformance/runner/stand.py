"""The engine under test, and the workers that have the handlers: started, read, ended."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import actions
import attached
import ending
import local_runner
from aws_durable_execution_conformance_tests.validate import parse_function_descriptions

ROOT = Path(__file__).resolve().parents[2]
# What `outlast dev` gives interpreters, and anybody may.
CLIENTS = ROOT / "crates/cli/src/dev"
PATIENCE_SECONDS = 120


def build(*packages, features=()):
    """Builds programs of this repository; the folder they are in."""
    needs("cargo", "rustup.rs")
    chosen = [word for package in packages for word in ("--package", package)]
    more = ["--features", ",".join(features)] if features else []
    subprocess.run(["cargo", "build", "--quiet", "--locked", *chosen, *more], cwd=ROOT, check=True)
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug"


def needs(program, where):
    """Ends with a clear word where a program is missing."""
    if not shutil.which(program):
        raise SystemExit(f"run: {program} is not installed; get it from {where} or your package manager")


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


class ServerLogs:
    """What the server keeps of what workers print that it has started itself."""

    def __init__(self, endpoint):
        self.endpoint = endpoint

    def of(self, function, execution):
        url = f"{self.endpoint}/outlast/v1/functions/{function}/logs?MaxItems=1000"
        with urllib.request.urlopen(url) as answer:
            lines = json.load(answer)["Lines"]
        return [
            {"timestamp": line["Timestamp"], "ingestionTime": line["Number"], "message": line["Text"]}
            for line in lines
            if belongs(line["Text"], execution)
        ]


def workers(endpoint):
    """How many workers ask the server for work."""
    with urllib.request.urlopen(f"{endpoint}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return sum(int(float(line.rsplit(" ", 1)[1])) for line in lines if line.startswith("outlast_workers{"))


def await_workers(endpoint, wanted):
    """All at once they start slowly, and a requirement may be about seconds."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while workers(endpoint) < wanted:
        if time.monotonic() > deadline:
            raise SystemExit(f"{workers(endpoint)} of {wanted} workers came up")
        time.sleep(0.5)


class Outlast:
    """An `outlast serve` or `outlast dev`."""

    def __init__(self, folder, *command, environment=None):
        self.program = build("outlast-cli") / "outlast"
        self.folder = folder
        self.command = command
        self.environment = {**os.environ, **(environment or {})}
        self.listen = "127.0.0.1:0"
        self.log = folder / "outlast.log"

    def start(self):
        command = [
            self.program, "--json", *self.command, "--listen", self.listen, "--data", self.folder / "data",
        ]
        with self.log.open("a") as lines:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=lines, text=True, env=self.environment
            )
        first = self.process.stdout.readline()
        if not first:
            raise SystemExit(f"outlast {self.command[0]} did not start:\n{self.log.read_text()}")
        self.endpoint = json.loads(first)["endpoint"]
        # The same after a restart.
        self.listen = self.endpoint.removeprefix("http://")

    def groups(self, descriptions):
        """What is judged at the same time: all that is asked for."""
        yield descriptions

    def kill(self, down_seconds):
        """As a power cut, and then the power comes back."""
        self.process.kill()
        self.process.wait()
        time.sleep(down_seconds)
        self.start()

    def __enter__(self):
        self.start()
        # Another process after each restart.
        self.open = ending.closing(lambda: end(self.process))
        self.open.__enter__()
        return self

    def __exit__(self, *_):
        self.open.__exit__(None, None, None)


class Project(Outlast):
    """An `outlast dev` of a SAM project, of which it runs some functions at a time.

    Each has a process of its own, and a machine has no room for all of them.
    """

    functions_at_once = 40

    def __init__(self, folder, project, environment):
        super().__init__(folder, "dev", project, environment=environment)
        self.template = project / "template.yaml"
        self.whole = self.template.read_text().splitlines(keepends=True)
        # The runner has to know it before the first start.
        self.listen = f"127.0.0.1:{local_runner.free_port()}"
        self.endpoint = f"http://{self.listen}"

    def groups(self, descriptions):
        for start in range(0, len(descriptions), self.functions_at_once):
            group = descriptions[start : start + self.functions_at_once]
            lines = list(self.without_all_but({function for function, _ in group}))
            self.template.write_text("".join(lines))
            self.start()
            with ended(self.process):
                await_workers(self.endpoint, sum("Handler:" in line for line in lines))
                yield group

    def without_all_but(self, functions):
        """The template, in which a function is a line; targets of others have no requirements."""
        for line in self.whole:
            if "TestingMetadata" not in line or line.split(":")[0].strip() in functions:
                yield line


class Elsewhere:
    """An engine that runs already, and is not ours to kill."""

    def __init__(self, endpoint):
        self.endpoint = endpoint
        try:
            urllib.request.urlopen(endpoint, timeout=PATIENCE_SECONDS).close()
        except urllib.error.HTTPError:
            pass
        except (OSError, ValueError) as error:
            raise SystemExit(f"the engine at {endpoint} cannot be reached: {error}") from error

    groups = Outlast.groups


class Place:
    """What a requirement has for itself: workers, for some an engine, and power over them."""

    def __init__(self, engine, command, logs):
        self.engine = engine
        self.endpoint = engine.endpoint
        self.command = command
        self.logs = logs
        self.workers = contextlib.ExitStack()

    def kill_engine(self, DownSeconds=0):
        self.engine.kill(DownSeconds)

    def stop_handlers(self):
        self.workers.close()

    def start_handlers(self):
        self.serve_version(Version="$LATEST")

    def serve_version(self, Version):
        worker = Kept(self.command, self.endpoint, self.logs, version=Version)
        self.workers.enter_context(worker)
        worker.await_ready()

    def __enter__(self):
        self.start_handlers()
        return self

    def __exit__(self, *_):
        self.stop_handlers()


@contextlib.contextmanager
def ended(process):
    """A process that ends with the block."""
    with ending.closing(lambda: end(process)):
        yield process


def end(process):
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Rust:
    """The handlers of this repository: one program, as a worker of the engine."""

    is_complete = True
    parallel = 16

    @staticmethod
    def powers(engine):
        """What can be done to an engine and to workers that are judged on it."""
        if engine == "local-runner":
            return set()
        return actions.POWERS if engine == "outlast" else actions.POWERS - {"kill-engine"}

    def __init__(self, store):
        self.store = store
        self.program = build("outlast-conformance") / "outlast-conformance"
        listed = subprocess.run([self.program, "--list"], check=True, capture_output=True, text=True)
        self.all = [json.loads(line) for line in listed.stdout.splitlines()]

    def covered(self):
        """The requirements that there are handlers for."""
        return {it["id"] for it in self.all}

    def chosen(self, only):
        return [it for it in self.all if it["id"] in only]

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
    def standing(self, engine, folder, only, apart):
        """The handlers at work for an engine, one of our own unless another is given; and places
        for those that need more than others can bear."""
        if engine == "local-runner":
            with self.local_runner(folder, only) as standing:
                yield *standing, {}
            return
        logs = Logs()
        own = engine == "outlast"
        with contextlib.ExitStack() as stack:
            engine = stack.enter_context(Outlast(folder, "serve", "--dev")) if own else Elsewhere(engine)
            stack.enter_context(self.attached(engine.endpoint, logs, only - apart.keys()))
            places = {}
            for it in self.chosen(apart):
                its_own = engine
                if "kill-engine" in apart[it["id"]]:
                    its_folder = folder / it["id"]
                    its_folder.mkdir()
                    its_own = stack.enter_context(Outlast(its_folder, "serve", "--dev"))
                place = Place(its_own, [self.program, it["id"]], logs)
                places[it["function"]] = stack.enter_context(place)
            yield engine, logs, places

    @contextlib.contextmanager
    def local_runner(self, folder, only):
        """The handlers as Lambda functions of AWS's own local runner."""
        program = build("outlast-conformance", features=["lambda"]) / "outlast-conformance"
        shutil.copy(program, folder / "program")
        runner, port = local_runner.install(self.store), local_runner.free_port()
        names = {name for it in self.chosen(only) for name in (it["function"], *it["targets"])}
        function = '[functions.{}]\ncommand = ["./program"]\ntimeout = 60\n'
        function += f'environment = {{{{ AWS_ENDPOINT_URL_LAMBDA = "http://127.0.0.1:{port}" }}}}\n'
        (folder / "outlast.toml").write_text("".join(map(function.format, sorted(names))))
        with Outlast(folder, "dev", folder) as host:
            await_workers(host.endpoint, len(names))
            with local_runner.running(runner, port, host.endpoint, names, folder) as endpoint:
                yield Elsewhere(endpoint), ServerLogs(host.endpoint)

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


class Official:
    """Handlers on an official SDK: a SAM project, run by `outlast dev`, or as workers of another server."""

    is_complete = False
    parallel = 8

    @staticmethod
    def powers(_engine):
        return set()

    def __init__(self, store):
        self.project = store / self.name
        shutil.copytree(ROOT / "conformance" / self.name, self.project, dirs_exist_ok=True)

    def covered(self):
        """The requirements that there are handlers for."""
        pairs = parse_function_descriptions(str(self.project / "template.yaml"))
        return {requirement for _, requirement in pairs}

    def template(self, folder, only):
        """The project's own, without the requirements that are not asked for."""
        pairs = parse_function_descriptions(str(self.project / "template.yaml"))
        resources = {}
        for function, requirement in pairs:
            if requirement in only:
                resource = {"Type": "AWS::Serverless::Function", "TestingMetadata": {"TestDescription": []}}
                resource = resources.setdefault(function, resource)
                resource["TestingMetadata"]["TestDescription"].append(requirement)
        file = folder / "template.yaml"
        file.write_text(json.dumps({"Resources": resources}))
        return file

    @contextlib.contextmanager
    def standing(self, engine, folder, _only, _apart):
        if engine == "local-runner":
            raise SystemExit(f"the local runner is for our own handlers: leave out --sdk {self.name}")
        if engine == "outlast":
            engine = Project(folder, self.project, self.environment)
            yield engine, ServerLogs(engine.endpoint), {}
            return
        logs, program = Logs(), build("outlast-cli") / "outlast"
        at_once = Project.functions_at_once
        yield attached.Attached(Elsewhere(engine), program, self.project, self.command, logs, at_once), logs, {}

    def installed(self, packages, install):
        """Installs what is needed, once for each list of it."""
        made_of = self.project / "made-of"
        if not made_of.exists() or made_of.read_text() != packages:
            for command in install:
                subprocess.run(command, check=True)
            made_of.write_text(packages)


class Python(Official):
    name = "python"
    packages = ("aws-durable-execution-sdk-python==3.0.0",)

    def __init__(self, store):
        super().__init__(store)
        folder = store / "python-packages"
        self.installed(
            " ".join(self.packages),
            [
                [sys.executable, "-m", "venv", "--clear", folder],
                [folder / "bin/python", "-m", "pip", "install", "--quiet", *self.packages],
            ],
        )
        self.environment = {"VIRTUAL_ENV": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
        self.command = [folder / "bin/python", CLIENTS / "bootstrap.py"]


class JavaScript(Official):
    name = "js"
    environment = None
    command = ["node", CLIENTS / "bootstrap.mjs"]

    def __init__(self, store):
        super().__init__(store)
        needs("node", "nodejs.org")
        needs("npm", "nodejs.org")
        packages = (self.project / "package.json").read_text()
        # The SDK asks for a newer Node than many machines have, and runs on 20.
        install = ["npm", "install", "--prefix", self.project, "--no-audit", "--no-fund", "--loglevel=error"]
        self.installed(packages, [install])


class Kept:
    """A worker that is started again whenever it ends."""

    def __init__(self, command, endpoint, logs, version="$LATEST"):
        self.command = command
        self.environment = {
            **os.environ, "OUTLAST_ENDPOINT": endpoint, "OUTLAST_FUNCTION_VERSION": version,
        }
        self.environment.pop("AWS_LAMBDA_RUNTIME_API", None)
        self.logs = logs
        self.ready = threading.Event()
        self.over = self.refused = False
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
            if not self.ready.is_set():
                # It was refused, and would be again.
                self.refused = True
                self.ready.set()
                return

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
        if not self.ready.wait(PATIENCE_SECONDS) or self.refused:
            raise SystemExit("a worker did not come up:\n" + "".join(self.said))

    def end(self):
        with self.lock:
            self.over = True
            process = self.process
        if process:
            end(process)
        self.thread.join()

    def __enter__(self):
        self.thread.start()
        self.open = ending.closing(self.end)
        self.open.__enter__()
        return self

    def __exit__(self, *_):
        self.open.__exit__(None, None, None)
