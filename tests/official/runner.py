"""Our SDK's Lambda home on AWS's own local runner: python runner.py PROGRAM.

PROGRAM is the test program of `outlast --test lambda`. The runner keeps the executions and calls the
function; `outlast dev` is no more than the Lambda it calls.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from stand import Dev, client, until

MANIFEST = """\
[functions.order]
command = ["./program", "program::the_program_under_test", "--exact", "--nocapture"]
timeout = 60
environment = {{ AWS_ENDPOINT_URL_LAMBDA = "{runner}" }}
"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def post(url, document):
    request = urllib.request.Request(url, json.dumps(document).encode(), method="POST")
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def project(program, runner):
    folder = Path(tempfile.mkdtemp(prefix="outlast-runner-"))
    shutil.copy(program, folder / "program")
    (folder / "outlast.toml").write_text(MANIFEST.format(runner=runner))
    return folder


def is_up(url):
    try:
        with urllib.request.urlopen(f"{url}/health") as answer:
            return answer.status == 200
    except OSError:
        return False


def order(runner):
    started = post(
        f"{runner}/start-durable-execution",
        {
            "AccountId": "000000000000",
            "FunctionName": "order",
            "FunctionQualifier": "$LATEST",
            "ExecutionName": "an-order",
            "ExecutionTimeoutSeconds": 7200,
            "ExecutionRetentionPeriodDays": 1,
            "Input": json.dumps(["tea", "milk"]),
        },
    )
    arn = started["ExecutionArn"]
    api = client(runner)

    def callback():
        history = api.get_durable_execution_history(DurableExecutionArn=arn)
        for event in history["Events"]:
            if event["EventType"] == "CallbackStarted":
                return event["CallbackStartedDetails"]["CallbackId"]
        return None

    api.send_durable_execution_callback_success(
        CallbackId=until("the callback", callback), Result=b'"yes"'
    )

    def ended():
        described = api.get_durable_execution(DurableExecutionArn=arn)
        return described if described["Status"] != "RUNNING" else None

    described = until("the end of the order", ended)
    assert described["Status"] == "SUCCEEDED", described
    result = json.loads(described["Result"])
    assert result == "paid, yes, tea packed, milk packed", result


def main():
    begun = time.monotonic()
    port = free_port()
    runner = f"http://127.0.0.1:{port}"
    with Dev(project(sys.argv[1], runner)) as dev:
        environment = {
            **os.environ,
            "AWS_ACCESS_KEY_ID": "dev",
            "AWS_SECRET_ACCESS_KEY": "dev",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        command = [
            os.path.join(os.path.dirname(sys.executable), "dex-local-runner"), "start-server",
            "--host", "127.0.0.1", "--port", str(port), "--lambda-endpoint", dev.endpoint,
            "--local-runner-endpoint", runner, "--local-runner-region", "us-east-1", "--skip-time",
        ]
        with open(dev.home / "runner.log", "wb") as log:
            local = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            until("the local runner", lambda: is_up(runner), 60)
            order(runner)
        except BaseException:
            print((dev.home / "runner.log").read_text()[-3000:], file=sys.stderr)
            raise
        finally:
            local.kill()
            local.wait()
    print(f"    local runner: {time.monotonic() - begun:.1f} s", flush=True)


main()
