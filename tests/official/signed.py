"""A server with keys: who comes in, with which clients."""

import json
import os
import subprocess
import time
from pathlib import Path

from serving import unique
from stand import OUTLAST, Aws

JS = Path(os.environ.get("JS_PROJECT", ""))


def every_client(api):
    for part in (aws_cli, javascript, revoked):
        begun = time.monotonic()
        part(api)
        print(f"    api, signed: {part.__name__}: {time.monotonic() - begun:.1f} s", flush=True)


def aws_cli(api):
    key, secret = api.serve.keys["operator"]
    aws = Aws(api.serve.endpoint, key, secret)
    name = unique()
    reply, answer = aws.invoke(
        "play:$LATEST", [{"return": "ü/:$ +"}], "--durable-execution-name", name
    )
    assert (reply["StatusCode"], json.loads(answer)) == (200, "ü/:$ +"), (reply, answer)
    arn = reply["DurableExecutionArn"]
    assert aws("get-durable-execution", "--durable-execution-arn", arn)["DurableExecutionName"] == name
    listed = aws(
        "list-durable-executions-by-function", "--function-name", "play", "--statuses", "SUCCEEDED",
        "FAILED", "--durable-execution-name", name, "--started-after", "2020-01-01T00:00:00+01:00",
    )
    assert [it["DurableExecutionArn"] for it in listed["DurableExecutions"]] == [arn]
    # The role is enough for this, and not for that; a wrong secret for nothing.
    aws.refused("AccessDeniedException", "delete-function", "--function-name", "play")
    wrong = Aws(api.serve.endpoint, key, secret[::-1])
    wrong.refused("InvalidSignatureException", "get-durable-execution", "--durable-execution-arn", arn)
    nobody = Aws(api.serve.endpoint, "AKIDNOBODY", secret)
    nobody.refused("UnrecognizedClientException", "list-functions")


def javascript(api):
    """The client that comes with the official SDK."""
    key, secret = api.serve.keys["operator"]
    environment = {
        **os.environ, "AWS_ENDPOINT_URL_LAMBDA": api.serve.endpoint, "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret,
    }
    done = subprocess.run(
        ["node", str(JS / "client.mjs")], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0 and "all held" in done.stdout, done.stdout + done.stderr


def revoked(api):
    """A key that is taken away opens nothing, and one that replaces another does."""
    data = ["--data", str(api.serve.home / "data")]
    key, secret = api.serve.keys["viewer"]
    viewer = api.serve.client("viewer")
    viewer.list_functions()
    made = outlast("keys", "rotate", key, "--keep-hours", "0", *data)
    time.sleep(2.5)
    api.refused("UnrecognizedClientException", viewer.list_functions)
    newer = api.serve.client_with(made["access_key_id"], made["secret_access_key"])
    newer.list_functions()
    outlast("keys", "revoke", made["access_key_id"], *data)
    time.sleep(2.5)
    api.refused("UnrecognizedClientException", newer.list_functions)


def outlast(*arguments):
    done = subprocess.run(
        [OUTLAST, "--json", *arguments], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)
