"""Our SDK's Lambda home on AWS's own local runner: python runner.py PROGRAM.

PROGRAM is the test program of `outlast --test lambda`, which has the handlers of the examples. The
runner keeps the executions and calls the functions; `outlast dev` is no more than the Lambda that it
calls.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from stand import Dev, client, new_key, until

EXAMPLES = "examples::the_examples_as_a_program"
OTHERS = "program::the_program_under_test"
FUNCTIONS = {
    "agent": EXAMPLES, "thumbnails": EXAMPLES, "order": EXAMPLES, "export": EXAMPLES,
    "book-trip": EXAMPLES, "describe": OTHERS, "explode": OTHERS,
}
MANIFEST = """\
[functions.{function}]
command = ["{program}", "{test}", "--exact", "--nocapture"]
timeout = 60
environment = {{ AWS_ENDPOINT_URL_LAMBDA = "{runner}" }}
"""
ITEMS = [
    {"sku": "lamp", "price_cents": 100, "available_in_days": 0},
    {"sku": "table", "price_cents": 200, "available_in_days": 3},
]
# Function, input, what callbacks are answered with, how it ends, and a test of what it leaves.
RUNS = [
    ("order", {"number": 7, "card": "flaky", "items": ITEMS}, {"approved": True, "by": "Ada"},
     "SUCCEEDED", lambda it: it["Shipped"]["approved_by"] == "Ada" and len(it["Shipped"]["parcels"]) == 2),
    ("order", {"number": 8, "card": "good", "items": ITEMS}, {"approved": False, "by": "Bob"},
     "SUCCEEDED", lambda it: "Refunded" in it),
    ("thumbnails", {"name": "a", "pictures": 9, "broken_every": 4, "tolerated": 2}, None,
     "SUCCEEDED", lambda it: (it["thumbnails"], len(it["broken"]), it["given_up"]) == (7, 2, False)),
    ("thumbnails", {"name": "a", "pictures": 9, "broken_every": 4, "tolerated": 1}, None,
     "SUCCEEDED", lambda it: it["given_up"]),
    ("export", {"table": "sales", "percent_per_check": 34}, None,
     "SUCCEEDED", lambda it: it == "contents of export-of-sales.csv"),
    ("export", {"table": "locked", "percent_per_check": 60}, None,
     "FAILED", lambda it: it["ErrorMessage"] == "the table is locked"),
    ("book-trip", {"city": "Lisbon", "sold_out": None, "stubborn": None}, None,
     "SUCCEEDED", lambda it: it["car"] == "car in Lisbon"),
    ("book-trip", {"city": "Lisbon", "sold_out": "car", "stubborn": None}, None,
     "FAILED", lambda it: it["ErrorMessage"] == "no car left in Lisbon"),
    ("agent", "Can I go to Ghent tomorrow?", {"approved": True, "comment": "go"},
     "SUCCEEDED", lambda it: it["answer"] and len(it["messages"]) > 3),
    ("describe", None, None, "SUCCEEDED", lambda it: it["name"] == "describe" and it["signals"]),
    ("explode", None, None, "FAILED", lambda it: "boom" in it["ErrorMessage"]),
]


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
    manifest = [
        MANIFEST.format(function=name, program=program, test=test, runner=runner)
        for name, test in FUNCTIONS.items()
    ]
    (folder / "outlast.toml").write_text("".join(manifest))
    return folder


def is_up(url):
    try:
        with urllib.request.urlopen(f"{url}/health") as answer:
            return answer.status == 200
    except OSError:
        return False


def start(runner, function, event):
    started = post(
        f"{runner}/start-durable-execution",
        {
            "AccountId": "000000000000",
            "FunctionName": function,
            "FunctionQualifier": "$LATEST",
            "ExecutionName": new_key(),
            "ExecutionTimeoutSeconds": 7 * 24 * 3600,
            "ExecutionRetentionPeriodDays": 1,
            "Input": json.dumps(event),
        },
    )
    return started["ExecutionArn"]


def finish(api, arn, reply):
    """Answers every callback until the execution has ended."""
    answered = set()

    def ended():
        described = api.get_durable_execution(DurableExecutionArn=arn)
        if described["Status"] != "RUNNING":
            return described
        history = api.get_durable_execution_history(DurableExecutionArn=arn)
        for event in history["Events"]:
            callback = event.get("CallbackStartedDetails", {}).get("CallbackId")
            if callback and reply is not None and callback not in answered:
                answered.add(callback)
                api.send_durable_execution_callback_success(
                    CallbackId=callback, Result=json.dumps(reply).encode()
                )
        return None

    return until(f"the end of {arn}", ended)


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
            api = client(runner)
            started = [(start(runner, function, event), *rest) for function, event, *rest in RUNS]
            for arn, reply, status, holds in started:
                described = finish(api, arn, reply)
                assert described["Status"] == status, described
                left = json.loads(described["Result"]) if status == "SUCCEEDED" else described["Error"]
                assert holds(left), described
        except BaseException:
            print((dev.home / "runner.log").read_text()[-3000:], file=sys.stderr)
            raise
        finally:
            local.kill()
            local.wait()
    print(f"    local runner: {len(RUNS)} executions: {time.monotonic() - begun:.1f} s", flush=True)


main()
