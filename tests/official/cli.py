"""The API through an unmodified AWS CLI: python cli.py. Every check is an assertion."""

import json
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

from serving import BACKGROUND_MAX, Api, Serve, unique
from stand import Aws

TAKEN = "DurableExecutionAlreadyStartedException"
PLAY = ("--function-name", "play:$LATEST")
EVENT = ("--invocation-type", "Event")
NOWHERE = "/dev/null"


def starts(aws, api):
    reply, answer = aws.invoke("play:$LATEST", [{"step": 1}, {"return": {"ü": "1 2"}}])
    assert (reply["StatusCode"], json.loads(answer)) == (200, {"ü": "1 2"}), (reply, answer)
    reply, answer = aws.invoke("play:$LATEST", [{"fail": "no"}])
    assert reply["FunctionError"] == "Unhandled" and json.loads(answer)["errorMessage"] == "no"
    reply, answer = aws.invoke("play:$LATEST", [], "--invocation-type", "DryRun")
    assert reply["StatusCode"] == 204 and "DurableExecutionArn" not in reply, reply
    reply, answer = aws.invoke("plain-for", {"n": 1}, "--tenant-id", "acme", "--log-type", "Tail")
    told = json.loads(answer)
    assert told["event"] == {"n": 1} and told["told"]["lambda-runtime-aws-tenant-id"] == "acme"


def names(aws, api):
    """Every row of the table of names."""
    script = [{"callback": {}}, {"return": 1}]
    name = unique()
    named = ("--durable-execution-name", name)
    first, _ = aws.invoke("play:$LATEST", script, *EVENT, *named)
    arn = first["DurableExecutionArn"]
    again, _ = aws.invoke("play:$LATEST", script, *EVENT, *named)
    assert again["DurableExecutionArn"] == arn
    other = ("invoke", *PLAY, *named, "--payload", "[]")
    aws.refused(TAKEN, *other, *EVENT, NOWHERE)
    with ThreadPoolExecutor() as pool:
        attached = pool.submit(aws.invoke, "play:$LATEST", script, *named)
        time.sleep(2)
        assert not attached.done()
        by = ("--callback-id", api.callback(arn))
        aws("send-durable-execution-callback-success", *by, "--result", "1")
        reply, answer = attached.result()
    assert (reply["DurableExecutionArn"], answer) == (arn, "1"), "attached to the running one"
    reply, answer = aws.invoke("play:$LATEST", script, *named)
    assert (reply["DurableExecutionArn"], answer) == (arn, "1"), "a closed one is given again"
    aws.refused(TAKEN, *other, NOWHERE)


def reads(aws, api):
    name = unique()
    arn = api.start([{"step": n} for n in range(5)], DurableExecutionName=name)
    api.ended(arn)
    by = ("--durable-execution-arn", arn)
    described = aws("get-durable-execution", *by)
    assert (described["Status"], described["DurableExecutionName"]) == ("SUCCEEDED", name), described
    whole = aws("get-durable-execution-history", *by)["Events"]
    ids = [event["EventId"] for event in whole]
    assert ids == list(range(1, len(ids) + 1)) and len(ids) > 10
    paged = ("get-durable-execution-history", *by, "--page-size", "4")
    assert aws(*paged)["Events"] == whole
    assert aws(*paged, "--reverse-order")["Events"] == whole[::-1]
    waiting = api.start([{"wait": 300}])
    for filters, expected in (
        (("--durable-execution-name", name), [arn]),
        (("--statuses", "SUCCEEDED", "FAILED", "--page-size", "1"), [arn]),
        (("--statuses", "RUNNING", "--qualifier", "$LATEST"), [waiting]),
        (("--started-before", "2020-01-01"), []),
        (("--started-after", "2020-01-01T00:00:00+01:00", "--reverse-order"), [arn, waiting]),
    ):
        found = aws("list-durable-executions-by-function", "--function-name", "play", *filters)
        found = [it["DurableExecutionArn"] for it in found["DurableExecutions"]]
        ours = [it for it in found if it in (arn, waiting)]
        assert ours == expected, (filters, found)
    aws("stop-durable-execution", "--durable-execution-arn", waiting, "--error", "ErrorMessage=enough")
    assert api.ended(waiting, "STOPPED")["Error"] == {"ErrorMessage": "enough"}


def callbacks(aws, api):
    for send, more, outcome in (
        ("success", ("--result", '"yes"'), "CallbackSucceeded"),
        ("failure", ("--error", "ErrorMessage=no,ErrorType=T"), "CallbackFailed"),
    ):
        arn = api.start([{"callback": {"HeartbeatTimeoutSeconds": 60}}])
        by = ("--callback-id", api.callback(arn))
        aws("send-durable-execution-callback-heartbeat", *by)
        aws(f"send-durable-execution-callback-{send}", *by, *more)
        api.event(arn, outcome)
        api.ended(arn)


def versions(aws, api):
    name = unique("cli")
    aws(
        "create-function", "--function-name", name, "--runtime", "python3.13", "--handler", "a.b",
        "--role", "arn:aws:iam::000000000000:role/r", "--code", "S3Bucket=bucket,S3Key=k",
        "--durable-config", "ExecutionTimeout=60,RetentionPeriodInDays=1", "--publish",
    )
    of = ("--function-name", name)
    aws("create-alias", *of, "--name", "live", "--function-version", "1")
    api.serve.play(f"{name}:1")
    reply, answer = aws.invoke(name, [{"return": 1}], "--qualifier", "live")
    assert (reply["ExecutedVersion"], answer) == ("1", "1"), reply
    aws("delete-function", *of)


def codes(aws, api):
    """Every code that a command of the program can provoke."""
    running = api.start([{"callback": {}}])
    callback = api.callback(running)
    api.stop(running)
    name = unique()
    api.start([], DurableExecutionName=name)
    for _ in range(BACKGROUND_MAX):
        api.client.invoke(FunctionName="nobody-works-here", InvocationType="Event")
    with tempfile.NamedTemporaryFile("w") as large:
        large.write('"' + "x" * 1_048_576 + '"')
        large.flush()
        rows = [
            ("InvalidParameterValueException", "invoke", "--function-name", "play", NOWHERE),
            ("InvalidParameterValueException", "send-durable-execution-callback-heartbeat",
             "--callback-id", "abc"),
            ("ValidationException", "get-durable-execution", "--durable-execution-arn", "nothing"),
            ("ResourceNotFoundException", "invoke", "--function-name", "nobody:1", NOWHERE),
            ("ResourceNotFoundException", "get-durable-execution-history",
             "--durable-execution-arn", running[:-4] + "0000"),
            ("CallbackTimeoutException", "send-durable-execution-callback-failure",
             "--callback-id", callback),
            (TAKEN, "invoke", *PLAY, "--durable-execution-name", name, "--payload", "[1]", NOWHERE),
            ("TooManyRequestsException", "invoke", "--function-name", "nobody-works-here", *EVENT,
             NOWHERE),
            ("RequestTooLargeException", "invoke", *PLAY, *EVENT, "--payload",
             f"file://{large.name}", NOWHERE),
            ("InvalidRequestContentException", "invoke", *PLAY, "--payload", "{", NOWHERE),
            ("ConflictException", "invoke", *PLAY, "--payload", '[{"wait": 300}]', NOWHERE),
            ("ResourceConflictException", "create-function", "--function-name", "play", "--role",
             "arn:aws:iam::000000000000:role/r", "--code", "S3Bucket=bucket,S3Key=k"),
            ("PreconditionFailedException", "publish-version", "--function-name", "play",
             "--revision-id", "old"),
            ("UnknownOperationException", "list-layers"),
        ]
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda row: aws.refused(*row), rows))


def main():
    begun = time.monotonic()
    with Serve() as serve:
        serve.play("play", 2)
        serve.play("plain-for")
        api, aws = Api(serve), Aws(serve.endpoint)
        # Starting the program takes longer than anything it asks for.
        with ThreadPoolExecutor() as pool:
            parts = [
                pool.submit(part, aws, api)
                for part in (starts, names, reads, callbacks, versions, codes)
            ]
        for part in parts:
            part.result()
    print(f"    aws cli: {time.monotonic() - begun:.1f} s", flush=True)


main()
