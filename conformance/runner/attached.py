"""Handlers on an official SDK as workers of a server that runs already.

`outlast dev` brings its own server; for another one, the functions of the SAM project are made there,
and each has an `outlast worker` here with a process of the handler. All of it goes away again.
"""

import contextlib
import json
import re
import subprocess
import threading
import time
import urllib.error
import urllib.request

import actions
import ending
import official
import yaml
from aws_durable_execution_conformance_tests import app

PATIENCE_SECONDS = 120
# How a function that an earlier run could not delete is told from somebody's own.
MARK = "made by conformance/run"
# The runtime interface of a function, which in Lambda comes from its LoggingConfig.
LOG_FORMAT = "AWS_LAMBDA_LOG_FORMAT"


class Template(yaml.SafeLoader):
    """A SAM template; `!Sub` stays text."""


Template.add_constructor("!Sub", lambda loader, node: loader.construct_scalar(node))


def must_be_outlast(endpoint):
    """Refuses an engine that has no workers of ours."""
    with contextlib.suppress(OSError, ValueError):
        with urllib.request.urlopen(f"{endpoint}/health", timeout=PATIENCE_SECONDS) as answer:
            if {"store", "invocations"} <= json.load(answer).keys():
                return
    raise SystemExit(
        f"{endpoint} is no Outlast server, and handlers on an official SDK can be attached to nothing else: "
        "name the endpoint of an `outlast serve`, or leave out --engine or --sdk"
    )


class Attached:
    """An Outlast server, and some functions of a SAM project at a time as workers of it."""

    def __init__(self, elsewhere, program, project, command, logs, at_once):
        self.endpoint = elsewhere.endpoint
        must_be_outlast(self.endpoint)
        self.program = program
        self.project = project
        # What runs a handler, whose name it finds in its environment.
        self.command = command
        self.logs = logs
        self.at_once = at_once
        self.api = official.client(self.endpoint, app.DEFAULT_REGION)
        template = yaml.load((project / "template.yaml").read_text(), Template)
        self.common = template["Globals"]["Function"]
        self.functions = {name: it["Properties"] for name, it in template["Resources"].items()}
        described = {name for name, it in template["Resources"].items() if "TestingMetadata" in it}
        # What others invoke; nobody judges it.
        self.targets = [name for name in self.functions if name not in described]

    def groups(self, descriptions):
        with contextlib.ExitStack() as stack:
            arns = {name: self.made(name, {}, stack) for name in self.targets}
            variables = {**self.variables(arns), LOG_FORMAT: self.common["LoggingConfig"]["LogFormat"]}
            stack.enter_context(self.working(self.targets))
            for start in range(0, len(descriptions), self.at_once):
                group = descriptions[start : start + self.at_once]
                names = sorted({function for function, _ in group})
                with contextlib.ExitStack() as made:
                    for name in names:
                        self.made(name, variables, made)
                    with self.working(names):
                        yield group

    def variables(self, arns):
        """The variables that all functions have, with the ARNs of others filled in."""
        variables = self.common["Environment"]["Variables"]
        fill = lambda found: arns[found[1]]  # noqa: E731
        return {name: re.sub(r"\$\{(\w+)\.Arn\}", fill, value) for name, value in variables.items()}

    def made(self, name, variables, stack):
        """Makes a function until the end of the stack; its ARN."""
        configuration = {
            "FunctionName": name,
            "Description": MARK,
            "Runtime": self.common["Runtime"],
            "Role": "arn:aws:iam::000000000000:role/none",
            **self.functions[name],
            "Timeout": self.common["Timeout"],
            "DurableConfig": self.common["DurableConfig"],
            "Environment": {"Variables": variables},
            "Code": {"ZipFile": b"none"},
        }
        try:
            made = self.api.create_function(**configuration)
        except self.api.exceptions.ResourceConflictException:
            known = self.api.get_function_configuration(FunctionName=name)
            if known.get("Description") != MARK:
                raise SystemExit(
                    f"{self.endpoint} has a function {name} of somebody else: delete it there, or judge another engine"
                ) from None
            # Not all of a function can be changed later.
            self.api.delete_function(FunctionName=name)
            made = self.api.create_function(**configuration)
        except self.api.exceptions.ClientError as error:
            raise SystemExit(
                f"{self.endpoint} refuses to make functions: {error}; OUTLAST_TOKEN, or AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY, must be those of an admin"
            ) from error
        stack.enter_context(ending.closing(lambda: self.deleted(name)))
        return made["FunctionArn"]

    def deleted(self, name):
        # What is gone already need not be deleted, nor what is on a server that is gone.
        with contextlib.suppress(Exception):
            self.api.delete_function(FunctionName=name)

    @contextlib.contextmanager
    def working(self, names):
        """A worker for each function; all of them end with the block."""
        workers = []
        with ending.closing(lambda: end_all(workers)):
            for name in names:
                workers.append(Worker(self, name))
            self.await_workers(workers)
            yield

    def await_workers(self, workers):
        """All at once they start slowly, and a requirement may be about seconds."""
        missing = {worker.name: worker for worker in workers}
        deadline = time.monotonic() + PATIENCE_SECONDS
        while missing:
            for name in self.present() & missing.keys():
                missing.pop(name)
            for name, worker in missing.items():
                if worker.process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"the worker of {name} did not come up:\n" + "".join(worker.said[-30:]))
            time.sleep(0.2)

    def present(self):
        """The functions that have a worker."""
        found = set()
        for line in actions.asked(self.api, "GET", "/metrics").decode().splitlines():
            worker = re.match(r'outlast_workers\{function="([^"]*)".*\} (\d+)', line)
            if worker and int(worker[2]) > 0:
                found.add(worker[1])
        return found


def end_all(workers):
    for worker in workers:
        worker.process.terminate()
    for worker in workers:
        worker.end()


class Worker:
    """An `outlast worker` of one function."""

    def __init__(self, attached, name):
        self.name = name
        # What it said itself, and not its handler.
        self.said = []
        command = [attached.program, "worker", "--server", attached.endpoint, "--function", name]
        self.process = subprocess.Popen(
            [*command, "--", *attached.command], cwd=attached.project, text=True, errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )
        self.thread = threading.Thread(target=self.read, args=(attached.logs,), daemon=True)
        self.thread.start()

    def read(self, logs):
        """A line of the handler comes after the function and the process in brackets."""
        for line in self.process.stderr:
            self.said.append(line)
            if line.startswith(f"[{self.name} "):
                logs.add(line.partition("] ")[2])

    def end(self):
        try:
            self.process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.thread.join()
