"""The SDKs' own test runners for the cloud, unmodified, against `outlast dev`: they are told where it
is and nothing else.

    python cloud.py JS_PROJECT PYTHON_PROJECT
"""

import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from stand import Dev  # noqa: E402

from aws_durable_execution_sdk_python.lambda_service import ErrorObject, InvocationStatus  # noqa: E402
from aws_durable_execution_sdk_python_testing.runner import DurableFunctionCloudTestRunner  # noqa: E402

KEYS = {"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "dev", "AWS_SECRET_ACCESS_KEY": "dev"}


def step(name, value, **more):
    error = {"name": "OddError", "message": "told to fail"}
    told = {"op": "step", "name": name, "value": value, "once": False, "fails": 0, "attempts": 1}
    return {**told, "error": error, **more}


def program(*body, pad=0, fail=None):
    return {"body": list(body), "pad": pad, "fail": fail}


def everything(runner):
    items = {"op": "map", "name": "m", "items": 3, "body": [step("x", {"value": 1})], "failing": -1}
    ended = runner.run(input=program(
        step("flaky", {"value": "ümlaut 🎈"}, fails=1, attempts=2),
        {"op": "wait", "name": "w", "seconds": 1},
        {"op": "child", "name": "k", "body": [step("inside", {"value": None})], "pad": 0, "virtual": False},
        items | {"pad": 0, "flat": False, "concurrency": 0},
        {"op": "condition", "name": "p", "polls": 2, "failsAt": 0, "state": "s"},
        {"op": "invoke", "name": "i", "target": "Plain", "input": {"value": {"value": 5}}},
        {"op": "invoke", "name": "j", "target": "Child", "input": program(step("theirs", {"value": 6}))},
    ))
    assert ended.status is InvocationStatus.SUCCEEDED, ended
    assert ended.get_step("flaky").attempt == 2, ended.get_step("flaky")
    assert ended.get_wait("w").scheduled_end_timestamp, ended.get_wait("w")
    assert len(ended.get_context("k").child_operations) == 1
    assert len(ended.get_context("m").child_operations) == 3
    assert ended.get_invoke("i").result == "5", ended.get_invoke("i")
    assert ended.get_invoke("j").result == "[6]", ended.get_invoke("j")


def failure(runner):
    ended = runner.run(input=program(fail={"name": "OddError", "message": "ümlaut"}))
    assert ended.status is InvocationStatus.FAILED, ended
    assert (ended.error.message, ended.error.type) == ("ümlaut", "app.OddError"), ended.error


def callbacks(runner):
    limits = {"timeout": 60, "heartbeat": 60, "work": False}
    arn = runner.run_async(input=program(
        {"op": "callback", "name": "c", **limits},
        {"op": "callback", "name": "empty", **limits},
        {"op": "callback", "name": "d", **limits, "catch": True},
        {"op": "callback", "name": "late", "timeout": 1, "heartbeat": 0, "work": False, "catch": True},
    ))
    asked = runner.wait_for_callback(arn, name="c")
    runner.send_callback_heartbeat(asked)
    runner.send_callback_success(asked, b"yes")
    runner.send_callback_success(runner.wait_for_callback(arn, name="empty"))
    refused = ErrorObject(message="no", type="Refused", data=None, stack_trace=None)
    runner.send_callback_failure(runner.wait_for_callback(arn, name="d"), refused)
    ended = runner.wait_for_result(arn)
    assert ended.status is InvocationStatus.SUCCEEDED, ended
    assert ended.get_callback("c").result == "yes", ended.get_callback("c")
    assert ended.get_callback("d").error.type == "Refused", ended.get_callback("d")
    assert ended.get_callback("late").error.message == "Callback timed out", ended.get_callback("late")


def large(runner):
    """More than an answer may carry: the SDK writes it with a checkpoint, which ends the execution."""
    size = 6 * 1024 * 1024 - 60
    ended = runner.run(input=program(pad=size))
    assert ended.status is InvocationStatus.SUCCEEDED, ended.error
    assert len(ended.result) > size


def main():
    javascript, python = sys.argv[1:3]
    os.environ |= KEYS
    with Dev(javascript) as dev:
        there = {**os.environ, "AWS_ENDPOINT_URL_LAMBDA": dev.endpoint}
        subprocess.run(["node", "cloud.mjs"], cwd=javascript, check=True, env=there)
    with Dev(python) as dev:
        runner = DurableFunctionCloudTestRunner("Main:$LATEST", lambda_endpoint=dev.endpoint, poll_interval=0.1)
        for part in (everything, failure, callbacks, large):
            begun = time.monotonic()
            part(runner)
            print(f"    cloud python {part.__name__}: {time.monotonic() - begun:.1f} s", flush=True)


main()
