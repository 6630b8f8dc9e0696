"""What all parts of the official tests share: `outlast dev`, a client, and the ledger of steps."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path

import boto3
from botocore.config import Config

OUTLAST = os.environ["OUTLAST"]
PATIENCE_SECONDS = 120


def client(endpoint):
    return boto3.client(
        "lambda",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="dev",
        aws_secret_access_key="dev",
        config=Config(retries={"total_max_attempts": 1}, read_timeout=PATIENCE_SECONDS),
    )


def until(what, question, seconds=PATIENCE_SECONDS):
    """Asks until there is an answer."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        answer = question()
        if answer:
            return answer
        time.sleep(0.05)
    raise AssertionError(f"waited {seconds} s in vain for {what}")


def children(parent):
    """The processes that a process has started."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name in parentheses may have spaces in it.
            state, of, *_ = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(of) == parent:
            found.append(int(entry.parent.name))
    return found


class Dev:
    """`outlast dev` in a folder, with a data folder and a ledger of its own."""

    def __init__(self, project, environment=None, options=()):
        self.project = project
        self.options = options
        self.home = Path(tempfile.mkdtemp(prefix="outlast-official-"))
        self.ledger_file = self.home / "ledger"
        self.environment = {**os.environ, "LEDGER": str(self.ledger_file), **(environment or {})}
        self.listen = "127.0.0.1:0"
        self.log = []
        self.left_behind = []
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [
                OUTLAST, "--json", "dev", str(self.project), "--listen", self.listen,
                "--data", str(self.home / "data"), *self.options,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
        )
        threading.Thread(target=self._read, args=(self.process.stderr,), daemon=True).start()
        first = self.process.stdout.readline()
        if not first:
            self.process.wait()
            raise AssertionError("it did not start:\n" + "\n".join(self.log))
        self.endpoint = json.loads(first)["endpoint"]
        # The same after a restart, for those who know it.
        self.listen = self.endpoint.removeprefix("http://")
        self.client = client(self.endpoint)

    def _read(self, lines):
        for line in lines:
            self.log.append(line.rstrip("\n"))

    def kill(self):
        """As a power cut for the server; its workers stay behind, until the end of the test."""
        self.left_behind += children(self.process.pid)
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(30)
        assert code == 0, f"it ended with {code}:\n" + "\n".join(self.log[-20:])

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        for worker in self.left_behind:
            try:
                os.kill(worker, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if error is None:
            self.stop()
            shutil.rmtree(self.home)
        else:
            self.process.kill()
            print("\n".join(self.log[-60:]), file=sys.stderr)

    def try_with(self, command):
        """Runs a client in another language, which is told where the server is as every AWS SDK is,
        and where the ledger lies.
        """
        environment = {
            **self.environment,
            "AWS_ENDPOINT_URL_LAMBDA": self.endpoint,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "dev",
            "AWS_SECRET_ACCESS_KEY": "dev",
        }
        done = subprocess.run(command, env=environment, timeout=2 * PATIENCE_SECONDS)
        assert done.returncode == 0, f"{command[0]} ended with {done.returncode}"

    def begin(self, function, event, **more):
        reply = self.client.invoke(
            FunctionName=function,
            Qualifier="$LATEST",
            InvocationType="Event",
            Payload=json.dumps(event),
            **more,
        )
        return reply["DurableExecutionArn"]

    def describe(self, arn):
        return self.client.get_durable_execution(DurableExecutionArn=arn)

    def history(self, arn):
        pages = self.client.get_paginator("get_durable_execution_history").paginate(
            DurableExecutionArn=arn, IncludeExecutionData=True
        )
        return [event for page in pages for event in page["Events"]]

    def event(self, arn, kind):
        def find():
            return next((it for it in self.history(arn) if it["EventType"] == kind), None)

        return until(kind, find)

    def ended(self, arn):
        def closed():
            described = self.describe(arn)
            return described if described["Status"] != "RUNNING" else None

        return until(f"the end of {arn}", closed)

    def ledger(self, key):
        """What the steps of an execution wrote: time, process, step, begin or end."""
        if not self.ledger_file.exists():
            return []
        lines = [line.split(" ") for line in self.ledger_file.read_text().splitlines()]
        return [(int(at), int(pid), *rest) for at, pid, of, *rest in lines if of == key]

    def nothing_repeated(self, arn, key):
        """No step began after its success was acknowledged."""
        done = {
            event["Name"]: event["EventTimestamp"].timestamp() * 1000
            for event in self.history(arn)
            if event["EventType"] == "StepSucceeded" and "Name" in event
        }
        for at, _, step, what in self.ledger(key):
            assert what != "begin" or step not in done or at <= done[step] + 1, (
                f"{step} ran again {at - done[step]} ms after it was acknowledged"
            )
        return done


class Aws:
    """The `aws` program beside this interpreter."""

    def __init__(self, endpoint, key="dev", secret="dev"):
        self.program = os.path.join(os.path.dirname(sys.executable), "aws")
        self.environment = {
            **os.environ,
            "AWS_ENDPOINT_URL_LAMBDA": endpoint,
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": key,
            "AWS_SECRET_ACCESS_KEY": secret,
            "AWS_MAX_ATTEMPTS": "1",
            "AWS_PAGER": "",
        }

    def run(self, *arguments):
        command = [self.program, "lambda", *arguments, "--output", "json"]
        return subprocess.run(
            command, capture_output=True, text=True, env=self.environment, timeout=120
        )

    def __call__(self, *arguments):
        done = self.run(*arguments)
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
        return json.loads(done.stdout) if done.stdout.strip() else {}

    def refused(self, code, *arguments):
        done = self.run(*arguments)
        assert done.returncode != 0 and f"({code})" in done.stderr, f"{arguments}: {done.stderr}"

    def invoke(self, function, payload, *more):
        with tempfile.NamedTemporaryFile() as out:
            reply = self(
                "invoke", "--function-name", function, "--payload", json.dumps(payload),
                *more, out.name,
            )
            out.seek(0)
            return reply, out.read().decode()


def new_key():
    return uuid.uuid4().hex
