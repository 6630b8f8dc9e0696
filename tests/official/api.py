"""The API through an unmodified boto3: python api.py [signed] [PART...]. Every check is an assertion.

With `signed`, the server has keys, every request is signed, and other clients come in as well.
"""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone

import codes
import signed
import updates
from serving import Api, Serve, skip, unique

MIB = 1_048_576
TAKEN = "DurableExecutionAlreadyStartedException"


def invokes(api):
    """Event, RequestResponse and DryRun, of durable functions and of others."""
    client = api.client
    script = [{"step": 1}, {"wait": 1}, {"return": {"a": 1}}]
    reply = client.invoke(FunctionName="play:$LATEST", Payload=json.dumps(script))
    assert reply["StatusCode"] == 200 and "FunctionError" not in reply, reply
    assert reply["ExecutedVersion"] == "$LATEST"
    assert json.load(reply["Payload"]) == {"a": 1}
    described = api.describe(reply["DurableExecutionArn"])
    assert (described["Status"], described["Result"]) == ("SUCCEEDED", '{"a": 1}'), described
    assert described["StartTimestamp"] < described["EndTimestamp"]
    assert described["DurableConfig"] == {"ExecutionTimeout": 600, "RetentionPeriodInDays": 1}
    assert described["InputPayload"] == json.dumps(script) and described["ExecutionDataIncluded"]
    bare = client.get_durable_execution(
        DurableExecutionArn=reply["DurableExecutionArn"], IncludeExecutionData=False
    )
    assert not {"InputPayload", "Result"} & set(bare) and not bare["ExecutionDataIncluded"], bare
    failed = client.invoke(FunctionName="play:$LATEST", Payload=json.dumps([{"fail": "no"}]))
    assert failed["FunctionError"] == "Unhandled"
    document = json.load(failed["Payload"])
    assert (document["errorMessage"], document["errorType"]) == ("no", "Told"), document
    for function in ("play:$LATEST", "plain"):
        dry = client.invoke(FunctionName=function, InvocationType="DryRun")
        assert dry["StatusCode"] == 204 and "DurableExecutionArn" not in dry, dry
    # An input that is not there is an empty object.
    arn = client.invoke(FunctionName="hand:$LATEST", InvocationType="Event")["DurableExecutionArn"]
    call = api.worker.next()
    assert (call.arn, call.input) == (arn, {})
    call.succeed()
    api.ended(arn)


def plain_functions(api):
    client = api.client
    reply = client.invoke(
        FunctionName="plain", Payload="[1]", ClientContext="eyJhIjoxfQ==", LogType="Tail"
    )
    answer = json.load(reply["Payload"])
    assert answer["event"] == [1] and "DurableExecutionArn" not in reply, reply
    assert answer["told"]["lambda-runtime-client-context"], answer
    assert client.invoke(FunctionName="plain", InvocationType="Event")["StatusCode"] == 202
    failed = client.invoke(FunctionName="plain", Payload='{"raise": "no"}')
    assert failed["FunctionError"] == "Unhandled"
    assert json.load(failed["Payload"])["errorMessage"] == "no"
    api.refused(
        "InvalidParameterValueException", client.invoke, FunctionName="plain",
        DurableExecutionName="named",
    )


def tenants(api):
    """A tenant's id reaches every invocation of a function that keeps tenants apart."""
    told = api.client.invoke(
        FunctionName="play-for:$LATEST", TenantId="acme", Payload=json.dumps([{"wait": 1}, {"told": 1}])
    )
    assert json.load(told["Payload"])["lambda-runtime-aws-tenant-id"] == "acme"
    plain = api.client.invoke(FunctionName="plain-for", TenantId="acme", Payload="1")
    assert json.load(plain["Payload"])["told"]["lambda-runtime-aws-tenant-id"] == "acme"
    for length, fits in ((256, True), (257, False)):
        arguments = {"FunctionName": "play-for:$LATEST", "TenantId": "t" * length, "Payload": "[]"}
        if fits:
            assert "FunctionError" not in api.careless.invoke(**arguments)
        else:
            api.refused("InvalidParameterValueException", api.careless.invoke, **arguments)
    for function in ("play-for:$LATEST", "plain-for"):
        api.refused("InvalidParameterValueException", api.client.invoke, FunctionName=function, Payload="[]")
    for function in ("play:$LATEST", "plain"):
        api.refused(
            "InvalidParameterValueException", api.client.invoke, FunctionName=function, TenantId="acme", Payload="[]",
        )


def limits_of_starts(api):
    client = api.client
    for kind, limit in (("Event", MIB), ("RequestResponse", 6 * MIB)):
        for bytes_, fits in ((limit - 1, True), (limit, True), (limit + 1, False)):
            # A script of nothing, in so many bytes.
            payload = "[" + " " * (bytes_ - 2) + "]"
            arguments = {
                "FunctionName": "play:$LATEST", "InvocationType": kind, "Payload": payload
            }
            if fits:
                api.ended(client.invoke(**arguments)["DurableExecutionArn"])
            else:
                api.refused("RequestTooLargeException", client.invoke, **arguments)
    start = {"FunctionName": "play:$LATEST", "InvocationType": "Event", "Payload": "[]"}
    for length in (1, 63, 64):
        client.invoke(DurableExecutionName=unique("n" * 64)[-length:], **start)
    for wrong in ("x" * 65, "a b", "a.b", ""):
        api.refused(
            "InvalidParameterValueException", api.careless.invoke, DurableExecutionName=wrong, **start
        )
    # No header carries it: the client signs other bytes than it sends.
    code = "InvalidSignatureException" if api.serve.keys else "InvalidRequestContentException"
    api.refused(code, api.careless.invoke, DurableExecutionName="ü", **start)
    # Somebody who waits for an execution waits for 15 minutes at most.
    assert client.invoke(FunctionName="long-enough:$LATEST", InvocationType="DryRun")
    client.invoke(FunctionName="too-long:$LATEST", InvocationType="Event", Payload="[]")
    api.refused(
        "InvalidParameterValueException", client.invoke, FunctionName="too-long:$LATEST", Payload="[]"
    )
    # One that would not fit into any request at all.
    api.refused(
        "RequestTooLargeException", client.invoke, FunctionName="play:$LATEST",
        Payload="[" + " " * (9 * MIB) + "]",
    )


def names(api):
    """Every row of the table of names."""
    client, name = api.client, unique()
    script = [{"callback": {}}, {"return": 1}]
    again = {"FunctionName": "play:$LATEST", "DurableExecutionName": name}
    other = {**again, "Payload": json.dumps([{"return": 1}])}
    same = {**again, "Payload": json.dumps(script)}
    # Without a name, each is another.
    assert api.start([]) != api.start([])
    # Running, the same input: the same execution; whoever waits is attached to it.
    first = api.start(script, DurableExecutionName=name)
    assert first.split("/")[-2] == name
    assert api.start(script, DurableExecutionName=name) == first
    with ThreadPoolExecutor() as pool:
        attached = pool.submit(client.invoke, **same)
        callback = api.callback(first)
        time.sleep(0.3)
        assert not attached.done()
        # Running, another input: refused, however it is asked.
        for kind in ("Event", "RequestResponse"):
            api.refused(TAKEN, client.invoke, InvocationType=kind, **other)
        client.send_durable_execution_callback_success(CallbackId=callback)
        reply = attached.result()
    assert reply["DurableExecutionArn"] == first and json.load(reply["Payload"]) == 1
    # Closed, the same input: its outcome. Closed, another input: refused.
    stored = client.invoke(**same)
    assert stored["DurableExecutionArn"] == first and json.load(stored["Payload"]) == 1
    assert api.start(script, DurableExecutionName=name) == first
    for kind in ("Event", "RequestResponse"):
        api.refused(TAKEN, client.invoke, InvocationType=kind, **other)
    # The same text in other bytes is another input.
    api.refused(TAKEN, client.invoke, **again, Payload=json.dumps(script) + " ")
    # One that failed or was stopped is given again as it ended.
    name = unique()
    failed = {"FunctionName": "play:$LATEST", "Payload": json.dumps([{"fail": "no"}])}
    first = client.invoke(DurableExecutionName=name, **failed)
    second = client.invoke(DurableExecutionName=name, **failed)
    assert first["DurableExecutionArn"] == second["DurableExecutionArn"]
    assert first["FunctionError"] == second["FunctionError"] == "Unhandled"
    assert first["Payload"].read() == second["Payload"].read()
    # A name is the function's own.
    assert client.invoke(FunctionName="long-enough:$LATEST", InvocationType="Event", Payload="[]",
                         DurableExecutionName=name)["DurableExecutionArn"] != first
    # Many at once: one execution.
    name = unique()
    with ThreadPoolExecutor(8) as pool:
        started = pool.map(lambda _: api.start([{"wait": 1}], DurableExecutionName=name), range(24))
        assert len(set(started)) == 1


def names_expire():
    """An ended execution's name is free again when the execution is forgotten."""
    with Serve(options=("--test-clock",)) as serve:
        serve.play("play")
        api = Api(serve)
        name = unique()
        first = api.start([], DurableExecutionName=name)
        api.ended(first)
        assert api.start([], DurableExecutionName=name) == first
        days = 24 * 60 * 60
        # The clock moves with somebody who waits.
        skip(serve, api.hand(), 2 * days)
        codes.until_refused(api, first)
        second = api.start([], DurableExecutionName=name)
        assert second != first and api.ended(second)
        # With it went its history.
        api.refused(
            "ResourceNotFoundException", api.client.get_durable_execution_history,
            DurableExecutionArn=first,
        )


def histories(api):
    client = api.client
    arn = api.start([{"step": n} for n in range(10)])
    api.ended(arn)
    whole = api.history(arn)
    assert [event["EventId"] for event in whole] == list(range(1, len(whole) + 1))
    for size in (1, 3, len(whole) - 1, len(whole), len(whole) + 1):
        for reverse in (False, True):
            pages = list(
                client.get_paginator("get_durable_execution_history").paginate(
                    DurableExecutionArn=arn, ReverseOrder=reverse, IncludeExecutionData=True,
                    PaginationConfig={"PageSize": size},
                )
            )
            seen = [event for page in pages for event in page["Events"]]
            assert (seen[::-1] if reverse else seen) == whole
            assert all(len(page["Events"]) <= size for page in pages)
    bare = api.history(arn, IncludeExecutionData=False)
    assert bare[0]["ExecutionStartedDetails"]["Input"] == {"Truncated": True}
    full = api.history(arn, IncludeExecutionData=True)
    assert full[0]["ExecutionStartedDetails"]["Input"]["Truncated"] is False
    # A marker holds for its direction, and while events are added.
    growing = api.hand()
    page = {"DurableExecutionArn": growing.arn, "MaxItems": 1}
    growing.checkpoint({"Id": "a", "Type": "STEP", "Action": "START"})
    marker = client.get_durable_execution_history(**page)["NextMarker"]
    api.refused(
        "InvalidParameterValueException", client.get_durable_execution_history, Marker=marker,
        ReverseOrder=True, **page,
    )
    growing.checkpoint({"Id": "a", "Type": "STEP", "Action": "SUCCEED"})
    growing.succeed("1")
    api.ended(growing.arn)
    rest = client.get_durable_execution_history(
        DurableExecutionArn=growing.arn, Marker=marker
    )["Events"]
    assert [event["EventId"] for event in rest] == [2, 3, 4, 5], rest
    api.refused(
        "InvalidParameterValueException", client.get_durable_execution_history,
        DurableExecutionArn=arn, Marker="zz",
    )
    for items, fits in ((-1, False), (0, True), (1, True), (999, True), (1000, True), (1001, False)):
        arguments = {"DurableExecutionArn": arn, "MaxItems": items}
        if fits:
            assert api.careless.get_durable_execution_history(**arguments)["Events"]
        else:
            api.refused(
                "ValidationException", api.careless.get_durable_execution_history, **arguments
            )


def lists(api):
    client = api.client
    listing = client.list_durable_executions_by_function
    began = datetime.now(timezone.utc)
    started = []
    for number in range(5):
        started.append(api.start([{"wait": 300}], DurableExecutionName=unique(f"listed{number}")))
        time.sleep(0.005)

    def arns(**filters):
        found = listing(FunctionName="play", **filters)["DurableExecutions"]
        return [it["DurableExecutionArn"] for it in found if it["DurableExecutionArn"] in started]

    assert arns(Statuses=["RUNNING"]) == started[::-1]
    assert arns(Statuses=["RUNNING"], ReverseOrder=True) == started
    assert arns(Qualifier="$LATEST") == started[::-1]
    for reverse in (False, True):
        pages = client.get_paginator("list_durable_executions_by_function").paginate(
            FunctionName="play", Qualifier="$LATEST", Statuses=["RUNNING", "STOPPED"],
            ReverseOrder=reverse, PaginationConfig={"PageSize": 2},
        )
        seen = [it["DurableExecutionArn"] for page in pages for it in page["DurableExecutions"]]
        seen = [arn for arn in seen if arn in started]
        assert seen == (started if reverse else started[::-1]), seen
    # By name, exactly; by the moment of the start, without the bounds.
    name = started[2].split("/")[-2]
    assert arns(DurableExecutionName=name) == [started[2]]
    assert arns(DurableExecutionName=name[:-1]) == []
    # Query strings carry whole seconds.
    second = timedelta(seconds=1)
    assert arns(StartedAfter=began - second) == started[::-1]
    assert arns(StartedAfter=began + 2 * second) == []
    assert arns(StartedBefore=began - second) == []
    assert arns(StartedBefore=began + 3 * second, StartedAfter=began - second) == started[::-1]
    # Every status.
    client.stop_durable_execution(DurableExecutionArn=started[0], Error={"ErrorMessage": "enough"})
    ends = {"STOPPED": started[0], "SUCCEEDED": api.start([]), "FAILED": api.start([{"fail": "no"}])}
    ends["TIMED_OUT"] = api.start([{"wait": 300}], "quick:$LATEST")
    for status, arn in ends.items():
        api.ended(arn, status)
        of = "quick" if status == "TIMED_OUT" else "play"
        found = listing(FunctionName=of, Statuses=[status])["DurableExecutions"]
        assert {it["Status"] for it in found} == {status}
        assert arn in [it["DurableExecutionArn"] for it in found]
        assert all(it["EndTimestamp"] >= it["StartTimestamp"] for it in found)
    ten = ["RUNNING"] * 10
    assert arns(Statuses=ten) == started[:0:-1]
    careless = api.careless.list_durable_executions_by_function
    for wrong in ({"Statuses": ten + ["FAILED"]}, {"Statuses": ["DONE"]}, {"MaxItems": 1001},
                  {"MaxItems": -1}, {"DurableExecutionName": "x" * 65}):
        api.refused("ValidationException", careless, FunctionName="play", **wrong)
    for items in (0, 1, 1000):
        assert listing(FunctionName="play", MaxItems=items)["DurableExecutions"]
    api.refused("InvalidParameterValueException", listing, FunctionName="play", Marker="zz")
    api.refused("ResourceNotFoundException", listing, FunctionName="nobody")
    api.refused("ResourceNotFoundException", listing, FunctionName="play", Qualifier="77")
    # All forms of a function's name.
    for form in ("000000000000:function:play", "arn:aws:lambda:us-east-1:000000000000:function:play"):
        assert listing(FunctionName=form, MaxItems=1)["DurableExecutions"], form
    for arn in started[1:]:
        api.stop(arn)


def stops(api):
    client = api.client
    arn = api.start([{"wait": 300}])
    error = {"ErrorMessage": "enough", "ErrorType": "T", "ErrorData": "d", "StackTrace": ["s"]}
    stopped = client.stop_durable_execution(DurableExecutionArn=arn, Error=error)
    described = api.ended(arn, "STOPPED")
    assert described["EndTimestamp"] == stopped["StopTimestamp"] and described["Error"] == error
    assert api.stop(arn)["StopTimestamp"] == stopped["StopTimestamp"], "it ended once"
    # One whose handler is at work: its next checkpoint is refused, its answer changes nothing.
    call = api.hand()
    api.stop(call.arn)
    stale = api.refused("InvalidParameterValueException", call.checkpoint)
    assert stale.response["Error"]["Message"].startswith("Invalid checkpoint token")
    call.succeed("1")
    described = api.ended(call.arn, "STOPPED")
    assert described["Error"] == {}, described
    # Its parent is told.
    call = api.hand()
    call.checkpoint(
        {"Id": "c", "Type": "CHAINED_INVOKE", "Action": "START", "Payload": '[{"wait": 300}]',
         "ChainedInvokeOptions": {"FunctionName": "play:$LATEST"}}
    )
    child = api.event(call.arn, "ChainedInvokeStarted")["DurableExecutionArn"]
    client.stop_durable_execution(DurableExecutionArn=child, Error=error)
    assert api.event(call.arn, "ChainedInvokeStopped")["Error"]["Payload"] == error
    call.checkpoint()
    assert call.operations["c"]["Status"] == "STOPPED"
    call.succeed()


def callbacks(api):
    client = api.client
    success = client.send_durable_execution_callback_success
    failure = client.send_durable_execution_callback_failure
    heartbeat = client.send_durable_execution_callback_heartbeat
    error = {"ErrorMessage": "no", "ErrorType": "T", "ErrorData": "d", "StackTrace": ["s"]}
    for send, arguments, outcome, details in (
        (success, {"Result": b'"yes"'}, "CallbackSucceeded", {"Result": {"Payload": '"yes"'}}),
        (success, {"Result": "§".encode()}, "CallbackSucceeded", {"Result": {"Payload": "§"}}),
        (success, {}, "CallbackSucceeded", {}),
        (failure, {"Error": error}, "CallbackFailed", {"Error": {"Payload": error}}),
        (failure, {}, "CallbackFailed", {}),
    ):
        arn = api.start([{"callback": {"TimeoutSeconds": 60, "HeartbeatTimeoutSeconds": 30}}])
        callback = api.callback(arn)
        heartbeat(CallbackId=callback)
        send(CallbackId=callback, **arguments)
        api.ended(arn)
        event = api.event(arn, outcome)
        for member, value in details.items():
            assert value.items() <= event[member].items(), event
        for late in (success, failure, heartbeat):
            api.refused("CallbackTimeoutException", late, CallbackId=callback)
    # Too late: its time, the time between two signs of life, the end of the execution.
    for options, kind in (
        ({"TimeoutSeconds": 1}, "Callback.Timeout"),
        ({"TimeoutSeconds": 60, "HeartbeatTimeoutSeconds": 1}, "Callback.Heartbeat"),
    ):
        arn = api.start([{"callback": options}])
        callback = api.callback(arn)
        event = api.event(arn, "CallbackTimedOut")
        assert event["Error"]["Payload"]["ErrorType"] == kind, event
        api.refused("CallbackTimeoutException", success, CallbackId=callback)
        api.ended(arn)
    arn = api.start([{"callback": {"HeartbeatTimeoutSeconds": 2}}])
    callback = api.callback(arn)
    for _ in range(6):
        time.sleep(0.5)
        heartbeat(CallbackId=callback)
    api.stop(arn)
    api.refused("CallbackTimeoutException", success, CallbackId=callback)
    # Sizes, and bytes that are no text.
    for bytes_, fits in ((MIB - 1, True), (MIB, True), (MIB + 1, False)):
        arn = api.start([{"callback": {}}])
        arguments = {"CallbackId": api.callback(arn), "Result": b"x" * bytes_}
        if fits:
            success(**arguments)
            api.ended(arn)
        else:
            api.refused("InvalidParameterValueException", success, **arguments)
            api.refused(
                "InvalidParameterValueException", success, **{**arguments, "Result": b"\xff"}
            )
            api.refused(
                "InvalidParameterValueException", failure, CallbackId=arguments["CallbackId"],
                Error={"ErrorMessage": "x" * (MIB + 1)},
            )
            api.stop(arn)
    for wrong in ("abc+/=", "x", "A" * 1024, "A" * 1025):
        for send in (success, failure, heartbeat):
            api.refused("InvalidParameterValueException", send, CallbackId=wrong)


def versions(api):
    """Functions, versions and aliases; an execution stays with the version it began on."""
    client = api.client
    name = unique("made")
    role = "arn:aws:iam::000000000000:role/r"
    made = client.create_function(
        FunctionName=name, Runtime="python3.13", Handler="app.handler", Role=role,
        Code={"ZipFile": b"PK"}, DurableConfig={"ExecutionTimeout": 60, "RetentionPeriodInDays": 1},
        Environment={"Variables": {"A": "1"}}, Timeout=30,
        Layers=["arn:aws:lambda:us-east-1:000000000000:layer:l:1"],
    )
    assert made["Version"] == "$LATEST" and made["State"] == "Active"
    client.get_waiter("function_active_v2").wait(FunctionName=name)
    client.get_waiter("function_updated_v2").wait(FunctionName=name)
    got = client.get_function(FunctionName=name)["Configuration"]
    assert got["FunctionArn"] == made["FunctionArn"] and got["Environment"] == made["Environment"]
    assert client.publish_version(FunctionName=name)["Version"] == "1"
    assert client.create_alias(FunctionName=name, Name="live", FunctionVersion="1")["AliasArn"] == (
        made["FunctionArn"] + ":live"
    )
    # One begins on version 1, by the alias; then the alias moves on.
    execution_name = unique()
    start = {"FunctionName": f"{name}:live", "DurableExecutionName": execution_name,
             "InvocationType": "Event", "Payload": json.dumps([{"callback": {}}, {"told": 1}])}
    reply = client.invoke(**start)
    arn = reply["DurableExecutionArn"]
    assert reply["ExecutedVersion"] == "1" and f":{name}:1/" in arn, reply
    api.serve.play(f"{name}:1")
    callback = api.callback(arn)
    updated = client.update_function_configuration(
        FunctionName=name, Timeout=10, DurableConfig={"ExecutionTimeout": 120}
    )
    assert updated["Timeout"] == 10
    client.update_function_code(FunctionName=name, ZipFile=b"PK")
    assert client.publish_version(FunctionName=name)["Version"] == "2"
    assert client.publish_version(FunctionName=name)["Version"] == "2", "nothing has changed since"
    client.update_alias(FunctionName=name, Name="live", FunctionVersion="2")
    assert client.get_alias(FunctionName=name, Name="live")["FunctionVersion"] == "2"
    api.serve.play(f"{name}:2")
    # The same start by the alias is now another one.
    api.refused(TAKEN, client.invoke, **start)
    again = client.invoke(**{**start, "FunctionName": f"{name}:1"})
    assert again["DurableExecutionArn"] == arn
    moved = client.invoke(FunctionName=name, Qualifier="live", Payload=json.dumps([{"told": 1}]))
    assert moved["ExecutedVersion"] == "2"
    told = json.load(moved["Payload"])
    assert told["lambda-runtime-invoked-function-arn"] == f"{made['FunctionArn']}:2", told
    client.send_durable_execution_callback_success(CallbackId=callback)
    described = api.ended(arn)
    assert described["Version"] == "1" and described["FunctionArn"] == f"{made['FunctionArn']}:1"
    assert described["DurableConfig"]["ExecutionTimeout"] == 60, "as when it began"
    told = json.loads(described["Result"])
    assert told["lambda-runtime-invoked-function-arn"] == f"{made['FunctionArn']}:1", told
    # Lists by qualifier see the version; without one, all.
    listing = client.list_durable_executions_by_function
    for qualifier, count in (("1", 1), ("2", 1), ("live", 1), (None, 2)):
        more = {"Qualifier": qualifier} if qualifier else {}
        found = listing(FunctionName=name, **more)["DurableExecutions"]
        assert len(found) == count, (qualifier, found)
    shown = client.list_versions_by_function(FunctionName=name)["Versions"]
    assert [version["Version"] for version in shown] == ["$LATEST", "1", "2"]
    assert len(client.list_aliases(FunctionName=name)["Aliases"]) == 1
    listed = [
        function["FunctionName"]
        for page in client.get_paginator("list_functions").paginate(PaginationConfig={"PageSize": 1})
        for function in page["Functions"]
    ]
    assert name in listed and "play" in listed
    # All ways to write it, and those that contradict themselves.
    for form in (f"{name}:2", f"000000000000:function:{name}:2", f"{made['FunctionArn']}:live"):
        reply = client.invoke(FunctionName=form, InvocationType="DryRun")
        assert reply["ExecutedVersion"] == "2", form
    assert client.invoke(FunctionName=f"{name}:2", Qualifier="2", InvocationType="DryRun")
    refused = "InvalidParameterValueException"
    api.refused(refused, client.invoke, FunctionName=f"{name}:2", Qualifier="1", Payload="[]")
    api.refused(refused, client.invoke, FunctionName=name, Payload="[]")
    missing = "ResourceNotFoundException"
    api.refused(missing, client.invoke, FunctionName=f"{name}:3", Payload="[]")
    api.refused(missing, client.invoke, FunctionName=f"{name}:staging", Payload="[]")
    elsewhere = f"arn:aws:lambda:eu-west-1:000000000000:function:{name}:1"
    api.refused(missing, client.invoke, FunctionName=elsewhere, Payload="[]")
    api.refused("ResourceConflictException", client.delete_function, FunctionName=name, Qualifier="2")
    client.delete_alias(FunctionName=name, Name="live")
    client.delete_function(FunctionName=name, Qualifier="2")
    api.refused(missing, client.get_function, FunctionName=name, Qualifier="2")
    client.delete_function(FunctionName=name)
    api.refused(missing, client.get_function, FunctionName=name)
    # What has been executed can still be looked at.
    assert api.describe(arn)["Status"] == "SUCCEEDED"


PARTS = (
    invokes, plain_functions, tenants, limits_of_starts, names, histories, lists, stops, callbacks,
    versions, updates.rules, updates.limits, updates.tokens, updates.outputs, codes.every_code,
)


def main():
    keys = "signed" in sys.argv[1:]
    label = "api, signed" if keys else "api"
    with Serve(keys=keys) as serve:
        for function in ("play", "long-enough", "too-long", "quick", "plain", "play-for", "plain-for"):
            serve.play(function, 4 if function == "play" else 1)
        api = Api(serve)
        wanted = [it for it in sys.argv[1:] if it != "signed"]
        for part in PARTS:
            if wanted and part.__name__ not in wanted:
                continue
            begun = time.monotonic()
            part(api)
            print(f"    {label}: {part.__name__}: {time.monotonic() - begun:.1f} s", flush=True)
        if keys:
            signed.every_client(api)
    if not keys:
        names_expire()


main()
