"""AWS's own local runner, `dex-local-runner`, as the engine: the backend that nobody here wrote.

It starts executions by a call of its own instead of Invoke, and calls functions through the Lambda
Invoke API; for that, `outlast dev` hosts the handlers as ordinary functions. Nothing that is judged
goes through Outlast.
"""

import contextlib
import io
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
import uuid

import ending

PACKAGE = "aws-durable-execution-sdk-python-testing==1.4.0"
PATIENCE_SECONDS = 120
EXECUTION_SECONDS_MAX = 900
ENDED = {"SUCCEEDED", "FAILED", "TIMED_OUT", "STOPPED"}


def install(store):
    """The program, installed once."""
    folder = store / "local-runner"
    made_of = folder / "made-of"
    if not made_of.exists() or made_of.read_text() != PACKAGE:
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([folder / "bin/python", "-m", "pip", "install", "--quiet", PACKAGE], check=True)
        made_of.write_text(PACKAGE)
    return folder / "bin/dex-local-runner"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextlib.contextmanager
def running(program, port, lambda_endpoint, functions, folder):
    """The runner, calling functions at an endpoint."""
    endpoint = f"http://127.0.0.1:{port}"
    configs = folder / "functions.json"
    durable = {"DurableConfig": {"ExecutionTimeout": EXECUTION_SECONDS_MAX, "RetentionPeriodInDays": 1}}
    configs.write_text(json.dumps({name: durable for name in functions}))
    command = [
        program, "start-server", "--host", "127.0.0.1", "--port", str(port),
        "--lambda-endpoint", lambda_endpoint, "--local-runner-endpoint", endpoint,
        "--local-runner-region", "us-east-1", "--function-configs", f"file://{configs}",
    ]
    account = {"AWS_ACCESS_KEY_ID": "dev", "AWS_SECRET_ACCESS_KEY": "dev", "AWS_DEFAULT_REGION": "us-east-1"}
    log = folder / "local-runner.log"
    with log.open("w") as lines:
        runner = subprocess.Popen(command, env={**os.environ, **account}, stdout=lines, stderr=lines)
        with ending.closing(lambda: killed(runner)):
            deadline = time.monotonic() + PATIENCE_SECONDS
            while not is_up(endpoint):
                if runner.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"dex-local-runner did not start:\n{log.read_text()[-3000:]}")
                time.sleep(0.2)
            yield endpoint


def killed(process):
    process.kill()
    process.wait()


def is_up(endpoint):
    try:
        with urllib.request.urlopen(f"{endpoint}/health") as answer:
            return answer.status == 200
    except OSError:
        return False


class Client:
    """A Lambda client whose executions are started as the runner wants it."""

    def __init__(self, client, endpoint, fills_in):
        self.client = client
        self.endpoint = endpoint
        self.fills_in = fills_in

    def __getattr__(self, name):
        return getattr(self.client, name)

    def invoke(self, FunctionName, InvocationType, Payload, **_):
        arn = self.start(FunctionName, Payload.decode())
        answer = {"StatusCode": 202, "Payload": io.BytesIO(), "DurableExecutionArn": arn}
        if InvocationType == "RequestResponse":
            deadline = time.monotonic() + PATIENCE_SECONDS
            while time.monotonic() < deadline:
                if self.client.get_durable_execution(DurableExecutionArn=arn)["Status"] in ENDED:
                    break
                time.sleep(0.2)
            answer["StatusCode"] = 200
        return answer

    def start(self, function, payload):
        document = {
            "AccountId": "000000000000",
            "FunctionName": function,
            "FunctionQualifier": "$LATEST",
            "ExecutionName": uuid.uuid4().hex,
            "ExecutionTimeoutSeconds": EXECUTION_SECONDS_MAX,
            "ExecutionRetentionPeriodDays": 1,
            "Input": payload,
        }
        request = urllib.request.Request(
            f"{self.endpoint}/start-durable-execution", json.dumps(document).encode(),
            {"Content-Type": "application/json"}, method="POST",
        )
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)["ExecutionArn"]

    def get_durable_execution_history(self, **asked):
        history = self.client.get_durable_execution_history(**asked)
        if self.fills_in:
            for event in history["Events"]:
                if event["EventType"] == "InvocationCompleted":
                    event.setdefault("InvocationCompletedDetails", {})
        return history
