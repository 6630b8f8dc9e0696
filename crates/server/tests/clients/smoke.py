"""Drives a scripted server through an unmodified boto3: python smoke.py ENDPOINT.

The server is `cargo run -p outlast-server --example scripted`. Every check is an assertion; it
prints how many requests it made when all held.
"""

import json
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import boto3
from botocore.config import Config

ENDPOINT = sys.argv[1]
CLIENT = boto3.client(
    "lambda",
    endpoint_url=ENDPOINT,
    region_name="us-east-1",
    aws_access_key_id="dev",
    aws_secret_access_key="dev",
    config=Config(retries={"total_max_attempts": 1}, read_timeout=30),
)
REQUESTS = 0


def count(**_):
    global REQUESTS
    REQUESTS += 1


CLIENT.meta.events.register("before-send.lambda.*", count)


def refused(error, call, **arguments):
    """The call must raise exactly this exception class of the model, or this code."""
    try:
        call(**arguments)
    except Exception as raised:  # noqa: BLE001
        code = raised.response["Error"]["Code"]
        assert code == error, f"{code} instead of {error}: {raised}"
        model = getattr(CLIENT.exceptions, error, None) if has(error) else None
        assert model is None or isinstance(raised, model), raised
        assert raised.response["Error"]["Message"], raised
        return raised
    raise AssertionError(f"{error} was expected")


def refused_any(call, **arguments):
    """The code of the service's refusal."""
    try:
        call(**arguments)
    except CLIENT.exceptions.ClientError as raised:
        return raised.response["Error"]["Code"]
    raise AssertionError("a refusal was expected")


def has(error):
    try:
        return bool(getattr(CLIENT.exceptions, error))
    except AttributeError:
        return False


def start(script, **arguments):
    reply = CLIENT.invoke(
        FunctionName="play",
        Qualifier="$LATEST",
        InvocationType="Event",
        Payload=json.dumps(script),
        **arguments,
    )
    assert reply["StatusCode"] == 202
    return reply["DurableExecutionArn"]


def until(arn, status):
    for _ in range(500):
        described = CLIENT.get_durable_execution(DurableExecutionArn=arn)
        if described["Status"] == status:
            return described
        time.sleep(0.01)
    raise AssertionError(f"{arn} is {described['Status']}, not {status}")


def event(arn, kind):
    for _ in range(500):
        history = CLIENT.get_durable_execution_history(DurableExecutionArn=arn)
        for found in history["Events"]:
            if found["EventType"] == kind:
                return found
        time.sleep(0.01)
    raise AssertionError(f"no {kind} in {arn}")


def invokes():
    reply = CLIENT.invoke(
        FunctionName="play:$LATEST", Payload=json.dumps([{"step": 1}, {"wait": 1}, {"return": {"a": 1}}])
    )
    assert reply["StatusCode"] == 200 and "FunctionError" not in reply
    assert reply["ExecutedVersion"] == "$LATEST"
    assert json.load(reply["Payload"]) == {"a": 1}
    arn = reply["DurableExecutionArn"]
    described = CLIENT.get_durable_execution(DurableExecutionArn=arn)
    assert described["Status"] == "SUCCEEDED" and described["Result"] == '{"a":1}'
    assert described["StartTimestamp"] <= described["EndTimestamp"]
    assert described["DurableConfig"]["ExecutionTimeout"] == 600
    failed = CLIENT.invoke(FunctionName="play:$LATEST", Payload=json.dumps([{"fail": "no"}]))
    assert failed["FunctionError"] == "Unhandled"
    assert json.load(failed["Payload"])["errorMessage"] == "no"
    dry = CLIENT.invoke(FunctionName="play:$LATEST", InvocationType="DryRun")
    assert dry["StatusCode"] == 204 and "DurableExecutionArn" not in dry
    plain = CLIENT.invoke(FunctionName="plain", Payload=json.dumps({"return": [1]}))
    assert json.load(plain["Payload"]) == [1] and "DurableExecutionArn" not in plain
    refused("InvalidParameterValueException", CLIENT.invoke, FunctionName="play")
    refused("ResourceNotFoundException", CLIENT.invoke, FunctionName="nobody:1")
    refused("InvalidRequestContentException", CLIENT.invoke, FunctionName="play:$LATEST", Payload="{")
    refused(
        "RequestTooLargeException",
        CLIENT.invoke,
        FunctionName="play:$LATEST",
        InvocationType="Event",
        Payload=json.dumps("x" * 1_048_576),
    )


def names():
    name = uuid.uuid4().hex
    script = [{"callback": {}}, {"return": 1}]
    first = start(script, DurableExecutionName=name)
    assert start(script, DurableExecutionName=name) == first
    taken = "DurableExecutionAlreadyStartedException"
    again = {"FunctionName": "play:$LATEST", "DurableExecutionName": name, "InvocationType": "Event"}
    refused(taken, CLIENT.invoke, Payload="[]", **again)
    CLIENT.stop_durable_execution(DurableExecutionArn=first)
    assert start(script, DurableExecutionName=name) == first
    refused(taken, CLIENT.invoke, Payload="[]", **again)
    # A synchronous caller gets the stored outcome of a closed one, and waits for a running one.
    waiting = {"FunctionName": "play:$LATEST", "Payload": json.dumps(script)}
    stopped = CLIENT.invoke(DurableExecutionName=name, **waiting)
    assert stopped["DurableExecutionArn"] == first and stopped["FunctionError"] == "Unhandled"
    refused(taken, CLIENT.invoke, FunctionName="play:$LATEST", Payload="[]", DurableExecutionName=name)
    name = uuid.uuid4().hex
    running = start(script, DurableExecutionName=name)
    with ThreadPoolExecutor() as pool:
        attached = pool.submit(CLIENT.invoke, DurableExecutionName=name, **waiting)
        callback = event(running, "CallbackStarted")["CallbackStartedDetails"]["CallbackId"]
        time.sleep(0.2)
        assert not attached.done()
        CLIENT.send_durable_execution_callback_success(CallbackId=callback)
        reply = attached.result()
    assert reply["DurableExecutionArn"] == running and json.load(reply["Payload"]) == 1
    again = CLIENT.invoke(DurableExecutionName=name, **waiting)
    assert again["DurableExecutionArn"] == running and json.load(again["Payload"]) == 1
    # Without a name, each is another; a name is the function's own, and of a certain shape.
    assert start([]) != start([])
    refused("ResourceNotFoundException", CLIENT.invoke, FunctionName="other:1", DurableExecutionName=name)
    for wrong in ("a b", "x" * 65):
        raised = refused_any(CLIENT.invoke, DurableExecutionName=wrong, **waiting)
        assert raised in ("ValidationException", "InvalidParameterValueException"), raised


def histories():
    arn = start([{"step": n} for n in range(10)])
    until(arn, "SUCCEEDED")
    whole = CLIENT.get_durable_execution_history(DurableExecutionArn=arn, MaxItems=1000)["Events"]
    assert [event["EventId"] for event in whole] == list(range(1, len(whole) + 1))
    for reverse in (False, True):
        pages = CLIENT.get_paginator("get_durable_execution_history").paginate(
            DurableExecutionArn=arn,
            ReverseOrder=reverse,
            IncludeExecutionData=True,
            PaginationConfig={"PageSize": 3},
        )
        seen = [event for page in pages for event in page["Events"]]
        assert (seen[::-1] if reverse else seen) == whole
    bare = CLIENT.get_durable_execution_history(DurableExecutionArn=arn, IncludeExecutionData=False)
    assert bare["Events"][0]["ExecutionStartedDetails"]["Input"] == {"Truncated": True}
    refused(
        "InvalidParameterValueException",
        CLIENT.get_durable_execution_history,
        DurableExecutionArn=arn,
        Marker="zz",
    )
    missing = arn[:-4] + "0000"
    for call in (
        CLIENT.get_durable_execution,
        CLIENT.get_durable_execution_history,
        CLIENT.stop_durable_execution,
    ):
        refused("ResourceNotFoundException", call, DurableExecutionArn=missing)


def lists():
    started = [start([{"wait": 300}]) for _ in range(5)]
    running = CLIENT.list_durable_executions_by_function(FunctionName="play", Statuses=["RUNNING"])
    assert [entry["DurableExecutionArn"] for entry in running["DurableExecutions"]] == started[::-1]
    for reverse in (False, True):
        pages = CLIENT.get_paginator("list_durable_executions_by_function").paginate(
            FunctionName="play",
            Qualifier="$LATEST",
            Statuses=["RUNNING", "STOPPED"],
            ReverseOrder=reverse,
            PaginationConfig={"PageSize": 2},
        )
        seen = [entry["DurableExecutionArn"] for page in pages for entry in page["DurableExecutions"]]
        seen = [arn for arn in seen if arn in started]
        assert seen == (started if reverse else started[::-1])
    first = CLIENT.get_durable_execution(DurableExecutionArn=started[0])["StartTimestamp"]
    after = CLIENT.list_durable_executions_by_function(
        FunctionName="play", StartedAfter=first.replace(year=2020), Statuses=["RUNNING"]
    )
    assert len(after["DurableExecutions"]) == 5
    before = CLIENT.list_durable_executions_by_function(
        FunctionName="play", StartedBefore=first.replace(year=2020)
    )
    assert before["DurableExecutions"] == []
    refused("ResourceNotFoundException", CLIENT.list_durable_executions_by_function, FunctionName="nobody")
    for arn in started:
        stopped = CLIENT.stop_durable_execution(DurableExecutionArn=arn, Error={"ErrorMessage": "enough"})
        assert until(arn, "STOPPED")["EndTimestamp"] == stopped["StopTimestamp"]


def callbacks():
    for send, arguments, outcome in (
        (CLIENT.send_durable_execution_callback_success, {"Result": b'"yes"'}, "CallbackSucceeded"),
        (CLIENT.send_durable_execution_callback_success, {}, "CallbackSucceeded"),
        (CLIENT.send_durable_execution_callback_failure, {"Error": {"ErrorMessage": "no"}}, "CallbackFailed"),
        (CLIENT.send_durable_execution_callback_failure, {}, "CallbackFailed"),
    ):
        arn = start([{"callback": {"TimeoutSeconds": 60, "HeartbeatTimeoutSeconds": 30}}, {"return": 1}])
        callback = event(arn, "CallbackStarted")["CallbackStartedDetails"]["CallbackId"]
        CLIENT.send_durable_execution_callback_heartbeat(CallbackId=callback)
        send(CallbackId=callback, **arguments)
        until(arn, "SUCCEEDED")
        event(arn, outcome)
        refused("CallbackTimeoutException", send, CallbackId=callback, **arguments)
    for call in (
        CLIENT.send_durable_execution_callback_success,
        CLIENT.send_durable_execution_callback_failure,
        CLIENT.send_durable_execution_callback_heartbeat,
    ):
        refused("InvalidParameterValueException", call, CallbackId="abc+/=")


def checkpoints():
    arn = start([{"wait": 300}])
    for token in ("dG9rZW4x", "YQ=="):
        raised = refused(
            "InvalidParameterValueException",
            CLIENT.checkpoint_durable_execution,
            DurableExecutionArn=arn,
            CheckpointToken=token,
            Updates=[],
        )
        assert raised.response["Error"]["Message"].startswith("Invalid checkpoint token")
        refused(
            "InvalidParameterValueException",
            CLIENT.get_durable_execution_state,
            DurableExecutionArn=arn,
            CheckpointToken=token,
        )


def functions():
    name = "made-" + uuid.uuid4().hex[:8]
    made = CLIENT.create_function(
        FunctionName=name,
        Runtime="python3.13",
        Handler="app.handler",
        Role="arn:aws:iam::000000000000:role/r",
        Code={"ZipFile": b"PK"},
        DurableConfig={"ExecutionTimeout": 60, "RetentionPeriodInDays": 1},
        Environment={"Variables": {"A": "1"}},
        Layers=["arn:aws:lambda:us-east-1:000000000000:layer:l:1"],
    )
    assert made["Version"] == "$LATEST" and made["State"] == "Active"
    CLIENT.get_waiter("function_active_v2").wait(FunctionName=name)
    CLIENT.get_waiter("function_updated_v2").wait(FunctionName=name)
    assert CLIENT.get_function(FunctionName=name)["Configuration"]["FunctionArn"] == made["FunctionArn"]
    assert CLIENT.publish_version(FunctionName=name)["Version"] == "1"
    updated = CLIENT.update_function_configuration(FunctionName=name, Timeout=10)
    assert updated["Timeout"] == 10
    CLIENT.update_function_code(FunctionName=name, ZipFile=b"PK")
    assert CLIENT.publish_version(FunctionName=name)["Version"] == "2"
    alias = CLIENT.create_alias(FunctionName=name, Name="live", FunctionVersion="1")
    assert alias["AliasArn"] == made["FunctionArn"] + ":live"
    moved = CLIENT.update_alias(FunctionName=name, Name="live", FunctionVersion="2")
    assert moved["FunctionVersion"] == CLIENT.get_alias(FunctionName=name, Name="live")["FunctionVersion"]
    invoked = CLIENT.invoke(FunctionName=f"{made['FunctionArn']}:live", Payload="1")
    assert invoked["ExecutedVersion"] == "2"
    versions = CLIENT.list_versions_by_function(FunctionName=name)["Versions"]
    assert [version["Version"] for version in versions] == ["$LATEST", "1", "2"]
    assert len(CLIENT.list_aliases(FunctionName=name)["Aliases"]) == 1
    listed = [
        function["FunctionName"]
        for page in CLIENT.get_paginator("list_functions").paginate(PaginationConfig={"PageSize": 1})
        for function in page["Functions"]
    ]
    assert name in listed and "play" in listed
    again = {"FunctionName": name, "Role": "arn:aws:iam::000000000000:role/r", "Code": {"ZipFile": b"PK"}}
    refused("ResourceConflictException", CLIENT.create_function, **again)
    refused(
        "PreconditionFailedException",
        CLIENT.update_function_configuration,
        FunctionName=name,
        RevisionId="old",
    )
    CLIENT.delete_alias(FunctionName=name, Name="live")
    CLIENT.delete_function(FunctionName=name)
    refused("ResourceNotFoundException", CLIENT.get_function, FunctionName=name)


for part in (invokes, names, histories, lists, callbacks, checkpoints, functions):
    part()
    print(f"{part.__name__}: ok", flush=True)
print(f"all held, {REQUESTS} requests")
