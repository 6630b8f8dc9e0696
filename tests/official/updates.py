"""Checkpoints through boto3: what a batch may hold, its limits, tokens, and what handlers answer."""

import json
import random
from concurrent.futures import ThreadPoolExecutor

MIB = 1_048_576
REFUSED = "InvalidParameterValueException"


def step(action, id="s", **more):
    return {"Id": id, "Type": "STEP", "Action": action, **more}


def context(action, id="c", **more):
    return {"Id": id, "Type": "CONTEXT", "Action": action, **more}


def invoke(id="i", **options):
    return {"Id": id, "Type": "CHAINED_INVOKE", "Action": "START",
            "ChainedInvokeOptions": {"FunctionName": "play:$LATEST", **options}}


def wait(seconds=300, id="w", action="START"):
    return {"Id": id, "Type": "WAIT", "Action": action,
            **({} if seconds is None else {"WaitOptions": {"WaitSeconds": seconds}})}


def callback(id="cb", **options):
    return {"Id": id, "Type": "CALLBACK", "Action": "START", "CallbackOptions": options}


def execution(action, **more):
    return {"Id": "e", "Type": "EXECUTION", "Action": action, **more}


ERROR = {"ErrorMessage": "no"}
ELSEWHERE = "arn:aws:lambda:us-east-1:111111111111:function:play:1"
ABROAD = "arn:aws:lambda:eu-west-1:000000000000:function:play:1"
# What a batch breaks: against an execution in which everything named `old-` exists already.
BROKEN = {
    "two updates of the execution": [execution("SUCCEED"), execution("SUCCEED")],
    "an update of the execution that is not last": [execution("SUCCEED"), step("START")],
    "an id that is started twice": [step("START"), step("START")],
    "an id three times": [step("START"), step("SUCCEED"), step("SUCCEED")],
    "an end before its start": [step("SUCCEED"), step("START")],
    "a wait that is started and cancelled": [wait(), wait(None, action="CANCEL")],
    "a parent that is not there": [step("START", ParentId="nobody")],
    "a parent that comes later": [step("START", ParentId="c"), context("START")],
    "a parent that is no context": [step("START", ParentId="old-step")],
    "another type": [{**wait(), "Id": "old-step"}],
    "another name": [step("SUCCEED", "old-step", Name="other")],
    "another subtype": [step("SUCCEED", "old-step", SubType="Other")],
    "another parent": [step("SUCCEED", "old-step", ParentId="old-context")],
    "an unknown type": [{"Id": "x", "Type": "DANCE", "Action": "START"}],
    "an unknown action": [step("DANCE")],
    "a wait that succeeds": [wait(action="SUCCEED")],
    "a context that is tried again": [context("RETRY", StepOptions={"NextAttemptDelaySeconds": 1})],
    "a callback that is cancelled": [{**callback(), "Id": "old-callback", "Action": "CANCEL"}],
    "an execution that is started": [execution("START")],
    "a step that is running already": [step("START", "old-step")],
    "a step that has ended": [step("SUCCEED", "old-done")],
    "a step that waits for its next attempt": [step("SUCCEED", "old-pending")],
    "a context that has ended": [context("SUCCEED", "old-closed")],
    "a wait that is not there": [wait(None, "nobody", "CANCEL")],
    "a success with an error": [step("SUCCEED", Error=ERROR)],
    "a failure with a payload": [step("FAIL", Payload="1")],
    "a context's success with an error": [context("SUCCEED", Error=ERROR)],
    "an execution's failure with a payload": [execution("FAIL", Payload="1")],
    "a retry without a delay": [step("RETRY")],
    "a retry with payload and error": [
        step("RETRY", Payload="1", Error=ERROR, StepOptions={"NextAttemptDelaySeconds": 1})
    ],
    "a wait without seconds": [wait(None)],
    "an invoke without options": [{"Id": "i", "Type": "CHAINED_INVOKE", "Action": "START"}],
    "an invoke of nothing that could be a function": [invoke(FunctionName="a b")],
    "an invoke in another account": [invoke(FunctionName=ELSEWHERE)],
    "an invoke in another region": [invoke(FunctionName=ABROAD)],
}


def rules(api):
    """A batch that breaks a rule is refused as a whole, and its token is still good."""
    call = api.hand()
    later = {"NextAttemptDelaySeconds": 300}
    call.checkpoint(
        step("START", "old-step", Name="old", SubType="Step"), step("SUCCEED", "old-done"),
        step("RETRY", "old-pending", StepOptions=later), context("START", "old-context"),
        context("SUCCEED", "old-closed"), callback("old-callback"),
    )
    events = len(api.history(call.arn))
    for why, batch in BROKEN.items():
        good = step("SUCCEED", "good")
        try:
            error = refused(api, call, [good, *batch])
        except AssertionError as failed:
            raise AssertionError(f"{why}: {failed}") from failed
        assert "token" not in error.response["Error"]["Message"], why
    assert len(api.history(call.arn)) == events, "a refused batch left something behind"
    # What looks odd and is allowed.
    call.checkpoint(
        context("START"), step("START", ParentId="c"), step("SUCCEED"), context("SUCCEED"),
        step("SUCCEED", "late", ParentId="c"), context("FAIL", "never-begun", Error=ERROR),
    )
    # A target that is not there is no mistake of the batch.
    call.checkpoint(invoke("to-nobody", FunctionName="nobody:1"), invoke("unqualified", FunctionName="play"))
    for id, kind in (("to-nobody", "ResourceNotFoundException"), ("unqualified", REFUSED)):
        operation = call.operations[id]
        assert operation["Status"] == "FAILED", operation
        assert operation["ChainedInvokeDetails"]["Error"]["ErrorType"] == kind, operation
    call.succeed()
    api.ended(call.arn)


def refused(api, call, batch, **more):
    return api.refused(REFUSED, lambda: call.checkpoint(*batch, **more))


def limits(api):
    """Every limit of an update: the last value that fits, and the first that does not."""
    call = api.hand()
    number = iter(range(10_000))

    def id(length=8):
        return f"{next(number):0{length}}"

    def sized(bytes_):
        return "x" * bytes_

    longest = "x" * 250 + ":$LATEST"
    taken = [
        [step("SUCCEED", id(1))], [step("SUCCEED", id(64))],
        [step("SUCCEED", id(), Name="n")], [step("SUCCEED", id(), Name="~" * 256)],
        [step("SUCCEED", id(), SubType="t" * 32)],
        *([step("SUCCEED", id(), Payload=sized(bytes_))] for bytes_ in (0, MIB - 1, MIB)),
        [context("SUCCEED", id(), Payload=sized(MIB))],
        [step("FAIL", id(), Error={"ErrorMessage": sized(MIB - 1024)})],
        [wait(1, id())], [wait(31_622_400, id())],
        [step("RETRY", id(), StepOptions={"NextAttemptDelaySeconds": 1})],
        [step("RETRY", id(), StepOptions={"NextAttemptDelaySeconds": 31_622_400})],
        [callback(id(), TimeoutSeconds=0, HeartbeatTimeoutSeconds=0)],
        [callback(id(), TimeoutSeconds=99_999_999, HeartbeatTimeoutSeconds=99_999_999)],
        [invoke(id(), FunctionName=longest[-256:])],
        [invoke(id(), TenantId="t" * 256)], [invoke(id(), XAmznTraceId="r" * 8192)],
        [{**invoke(id(), FunctionName="plain"), "Payload": json.dumps(sized(MIB - 2))}],
        [step("SUCCEED", id()) for _ in range(1000)],
        [],
    ]
    for batch in taken:
        call.checkpoint(*batch)
    call.checkpoint(ClientToken="c" * 64)
    not_taken = [
        [step("SUCCEED", "")], [step("SUCCEED", id(65))], [step("SUCCEED", "a b")],
        [step("SUCCEED", id(), Name="")], [step("SUCCEED", id(), Name="~" * 257)],
        [step("SUCCEED", id(), Name="ü")], [step("SUCCEED", id(), Name="a\tb")],
        [step("SUCCEED", id(), SubType="t" * 33)], [step("SUCCEED", id(), SubType="")],
        [step("SUCCEED", id(), Payload=sized(MIB + 1))],
        # Bytes count, not characters.
        [step("SUCCEED", id(), Payload="ü" * (MIB // 2) + "x")],
        [context("SUCCEED", id(), Payload=sized(MIB + 1))],
        [step("FAIL", id(), Error={"ErrorMessage": sized(MIB + 1)})],
        [step("FAIL", id(), Error={"ErrorMessage": sized(MIB // 2), "ErrorData": sized(MIB // 2 + 1)})],
        [wait(0, id())], [wait(31_622_401, id())], [wait(-1, id())],
        [step("RETRY", id(), StepOptions={"NextAttemptDelaySeconds": 31_622_401})],
        [step("RETRY", id(), StepOptions={"NextAttemptDelaySeconds": -1})],
        [callback(id(), TimeoutSeconds=100_000_000)], [callback(id(), TimeoutSeconds=-1)],
        [callback(id(), HeartbeatTimeoutSeconds=100_000_000)],
        [invoke(id(), FunctionName="x" * 257)],
        [invoke(id(), TenantId="t" * 257)], [invoke(id(), TenantId="")],
        [invoke(id(), XAmznTraceId="r" * 8193)],
        [{**invoke(id(), FunctionName="plain"), "Payload": json.dumps(sized(MIB))}],
        [step("SUCCEED", id()) for _ in range(1001)],
    ]
    for batch in not_taken:
        try:
            refused(api, call, batch)
        except AssertionError as failed:
            raise AssertionError(f"{str(batch)[:200]}: {failed}") from failed
    refused(api, call, [], ClientToken="c" * 65)
    pages_of_state(api, call)
    call.succeed()
    api.ended(call.arn)


def pages_of_state(api, call):
    """All pages of what a handler replays, in whatever portions."""
    client = call.client
    state = {"DurableExecutionArn": call.arn, "CheckpointToken": call.token}
    whole = set(call.operations)
    for items in (0, 7, 1000):
        seen, marker = [], {}
        while True:
            page = client.get_durable_execution_state(MaxItems=items, **marker, **state)
            seen += [it["Id"] for it in page["Operations"]]
            assert len(page["Operations"]) <= (items or 100)
            if not page.get("NextMarker"):
                break
            marker = {"Marker": page["NextMarker"]}
        assert len(seen) == len(set(seen)) and set(seen) == whole, (items, len(seen), len(whole))
    pages = client.get_paginator("get_durable_execution_state").paginate(**state)
    assert len([it for page in pages for it in page["Operations"]]) == len(whole)
    for items in (-1, 1001):
        api.refused("ValidationException", client.get_durable_execution_state, MaxItems=items, **state)
    api.refused(REFUSED, client.get_durable_execution_state, Marker="zz", **state)


def tokens(api):
    """Each token is good for one checkpoint, of one execution, by whoever holds the invocation."""
    call, other = api.hand(), None
    first = call.token
    reply = call.checkpoint(step("START"), ClientToken="once")

    def again(token, client_token, arn=call.arn, batch=(step("START"),)):
        return call.client.checkpoint_durable_execution(
            DurableExecutionArn=arn, CheckpointToken=token, ClientToken=client_token,
            Updates=list(batch),
        )

    # A repeated request gets the same answer.
    repeated = again(first, "once")
    assert repeated["CheckpointToken"] == reply["CheckpointToken"]
    assert repeated["NewExecutionState"] == reply["NewExecutionState"]
    stale = [
        lambda: again(first, "twice"),
        lambda: again("dG9rZW4x", "t"), lambda: again("YQ==", "t"), lambda: again("A" * 2048, "t"),
        lambda: again(call.token, "t", arn=call.arn[:-4] + "0000"),
        lambda: call.client.get_durable_execution_state(
            DurableExecutionArn=call.arn, CheckpointToken=first
        ),
    ]
    stale.append(lambda: again(mutated(call.token), "t"))
    for ask in stale:
        error = api.refused(REFUSED, ask)
        assert error.response["Error"]["Message"].startswith("Invalid checkpoint token"), error
    # Of another execution.
    other = api.hand()
    error = api.refused(REFUSED, lambda: again(other.token, "t"))
    assert error.response["Error"]["Message"].startswith("Invalid checkpoint token"), error
    call.checkpoint(step("SUCCEED"))
    # An empty one uses up its token too.
    used = call.token
    call.checkpoint()
    api.refused(REFUSED, lambda: again(used, "t", batch=()))
    last = call.token
    call.succeed()
    api.ended(call.arn)
    api.refused(REFUSED, lambda: again(last, "t", batch=()))
    other.checkpoint(execution("SUCCEED", Payload="1"))
    assert other.token is None, "an execution that has ended gives no token"
    assert other.succeed("")[0] == 202, "what an SDK answers after that is nobody's fault"
    assert api.ended(other.arn)["Result"] == "1"
    # Clients wait for a history that ends with the end of its execution.
    kinds = [it["EventType"] for it in api.history(other.arn)]
    assert kinds == ["ExecutionStarted", "InvocationCompleted", "ExecutionSucceeded"], kinds


def mutated(token):
    place = random.Random(token).randrange(len(token.rstrip("=")))
    letter = "A" if token[place] != "A" else "B"
    return token[:place] + letter + token[place + 1 :]


# What a handler answers, and what becomes of its execution.
OUTPUTS = [
    ({"Status": "SUCCEEDED", "Result": "1"}, "SUCCEEDED", None),
    ({"Status": "SUCCEEDED", "Result": None}, "SUCCEEDED", None),
    ({"Status": "SUCCEEDED", "Error": None}, "SUCCEEDED", None),
    ({"Status": "SUCCEEDED", "Result": "x" * MIB}, "SUCCEEDED", None),
    ({"Status": "SUCCEEDED", "Result": "x" * (MIB + 1)}, "FAILED", None),
    ({"Status": "FAILED", "Error": {"ErrorType": "T", "ErrorMessage": "m"}}, "FAILED", "T"),
    ({"Status": "FAILED"}, "FAILED", None),
    ({"Status": "FAILED", "Result": "1"}, "FAILED", REFUSED),
    ({"Status": "SUCCEEDED", "Error": {}}, "FAILED", REFUSED),
    ({"Status": "SUCCEEDED", "Result": 1}, "FAILED", REFUSED),
    ({"Status": "DANCING"}, "FAILED", REFUSED),
    ({"Result": "1"}, "FAILED", REFUSED),
    ([1], "FAILED", REFUSED),
    (b"{", "FAILED", REFUSED),
    (b'"\xff"', "FAILED", REFUSED),
]


def outputs(api):
    for output, status, kind in OUTPUTS:
        call = api.hand()
        answered, _, body = call.answer(output)
        assert answered == 202, (answered, body)
        described = api.ended(call.arn, status)
        found = described.get("Error", {}).get("ErrorType")
        assert kind is None or found == kind, (str(output)[:80], described["Error"])
    # What waits for nothing is asked again, and fails in the end.
    call = api.hand()
    arn = call.arn
    call.pend()
    for _ in range(2):
        call = api.worker.next()
        assert call.arn == arn
        call.pend()
    described = api.ended(arn, "FAILED")
    assert described["Error"]["ErrorType"] == REFUSED, described
    # What a handler raises is no end: it is called again.
    call = api.hand()
    arn = call.arn
    call.fail("as it was told")
    call = api.worker.next()
    assert call.arn == arn
    call.succeed("1")
    api.ended(arn)
    errors = [
        event["InvocationCompletedDetails"].get("Error", {}).get("Payload", {}).get("ErrorMessage")
        for event in api.history(arn)
        if event["EventType"] == "InvocationCompleted"
    ]
    assert errors == ["as it was told", None], errors
    # Nobody answers twice.
    status, _, _ = call.succeed("2")
    assert status == 400, status
    # A result for somebody who waits may be larger, and then comes by a checkpoint.
    large(api)


def large(api):
    with ThreadPoolExecutor() as pool:
        for bytes_, fits in ((6 * MIB, True), (6 * MIB + 1, False)):
            waiting = pool.submit(api.client.invoke, FunctionName="hand:$LATEST", Payload="[]")
            call = api.worker.next()
            result = execution("SUCCEED", Payload="x" * bytes_)
            if fits:
                call.checkpoint(result)
                call.succeed("")
                assert len(waiting.result()["Payload"].read()) == bytes_
            else:
                refused(api, call, [result])
                call.succeed()
                waiting.result()
