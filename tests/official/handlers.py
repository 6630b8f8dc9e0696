"""Real handlers on an official SDK under `outlast dev`: python handlers.py NAME PROJECT CLIENT [PART...]

CLIENT is what the log has to say the handlers were started with. Without a part, all of them.
"""

import json
import os
import signal
import sys
import time

from stand import Dev, new_key, until

EXPECTED = {
    "flaky": "in the end",
    "doubled": {"n": 42},
    "chained": 6,
    "inside": 3,
    "squares": [1, 4, 9],
    "both": ["l", "r"],
}


def approve(dev, arn, answer):
    callback = dev.event(arn, "CallbackStarted")["CallbackStartedDetails"]["CallbackId"]
    # Not before the handler waits for it, so that it has to be woken.
    dev.event(arn, "InvocationCompleted")
    dev.client.send_durable_execution_callback_heartbeat(CallbackId=callback)
    dev.client.send_durable_execution_callback_success(
        CallbackId=callback, Result=json.dumps(answer).encode()
    )


def everything(dev):
    """All operations, and a worker killed in the middle of a step."""
    key = new_key()
    arn = dev.begin("Everything", {"key": key, "crash": True})
    approve(dev, arn, "yes")
    hanging = until("the crash step", lambda: [it for it in dev.ledger(key) if it[2] == "crash"])
    time.sleep(0.2)
    os.kill(hanging[0][1], signal.SIGKILL)
    described = dev.ended(arn)
    assert described["Status"] == "SUCCEEDED", described
    result = json.loads(described["Result"])
    assert result.pop("approval") in ("yes", '"yes"'), result
    assert result.pop("crash") == "survived"
    assert result == EXPECTED, result
    events = dev.history(arn)
    kinds = {event["EventType"] for event in events}
    wanted = {
        "ExecutionStarted", "StepStarted", "StepFailed", "StepSucceeded", "WaitStarted",
        "WaitSucceeded", "CallbackStarted", "CallbackSucceeded", "ChainedInvokeStarted",
        "ChainedInvokeSucceeded", "ContextStarted", "ContextSucceeded", "InvocationCompleted",
        "ExecutionSucceeded",
    }
    assert wanted <= kinds, wanted - kinds
    crashed = [
        event["InvocationCompletedDetails"].get("Error", {}).get("Payload", {}).get("ErrorType")
        for event in events
        if event["EventType"] == "InvocationCompleted"
    ]
    assert crashed.count("Runtime.ExitError") == 1, crashed
    targets = [
        event["ChainedInvokeStartedDetails"].get("DurableExecutionArn")
        for event in events
        if event["EventType"] == "ChainedInvokeStarted"
    ]
    assert targets[0] is None and dev.describe(targets[1])["Result"] == "6", targets
    assert len(dev.nothing_repeated(targets[1], f"{key}-chained")) == 4
    done = dev.nothing_repeated(arn, key)
    began = [step for _, _, step, what in dev.ledger(key) if what == "begin"]
    assert sorted(began) == sorted([*done, "flaky", "crash"]), began


def failure(dev):
    reply = dev.client.invoke(FunctionName="Fails", Qualifier="$LATEST", Payload="{}")
    assert reply["FunctionError"] == "Unhandled"
    error = json.load(reply["Payload"])
    assert error["errorMessage"] == "as it was told", error
    assert error["errorType"] in ("ValueError", "RangeError", "HandlerError"), error
    described = dev.describe(reply["DurableExecutionArn"])
    assert described["Status"] == "FAILED"
    assert described["Error"]["ErrorMessage"] == "as it was told"


def waiting_for_the_end(dev):
    """A synchronous caller, by the alias of the template."""
    key = new_key()
    reply = dev.client.invoke(
        FunctionName="Chain", Qualifier="$LATEST", Payload=json.dumps({"key": key, "steps": 5})
    )
    assert json.load(reply["Payload"]) == 10
    dry = dev.client.invoke(FunctionName="Everything:live", InvocationType="DryRun")
    assert dry["StatusCode"] == 204


def many(dev):
    """More calls than one worker has time for: more workers, and all get their own answer."""
    keys = [new_key() for _ in range(12)]
    arns = [dev.begin("Chain", {"key": key, "steps": 15}) for key in keys]
    for arn, key in zip(arns, keys):
        described = dev.ended(arn)
        assert (described["Status"], described["Result"]) == ("SUCCEEDED", "105"), described
        done = dev.nothing_repeated(arn, key)
        assert len(done) == 15
    processes = {line[1] for key in keys for line in dev.ledger(key)}
    assert 1 < len(processes) <= 4, f"{len(processes)} processes"


def server_killed(dev):
    """The server goes away under running workers, twice; nothing acknowledged is repeated."""
    keys = [new_key() for _ in range(6)]
    arns = [dev.begin("Chain", {"key": key, "steps": 25}) for key in keys]
    for kill in (6, 14):
        def far_enough():
            return len([it for it in dev.ledger(keys[0]) if it[3] == "end"]) >= kill

        until(f"{kill} steps", far_enough)
        dev.kill()
        dev.start()
    for arn, key in zip(arns, keys):
        described = dev.ended(arn)
        assert (described["Status"], described["Result"]) == ("SUCCEEDED", "300"), described
        assert len(dev.nothing_repeated(arn, key)) == 25


def main():
    name, project, runtime_client, *parts = sys.argv[1:]
    with Dev(project) as dev:
        for part in (everything, failure, waiting_for_the_end, many, server_killed):
            if parts and part.__name__ not in parts:
                continue
            begun = time.monotonic()
            part(dev)
            print(f"    {name} {part.__name__}: {time.monotonic() - begun:.1f} s", flush=True)
        started = [line for line in dev.log if "! started with" in line]
        assert started and all(runtime_client in line for line in started), started


main()
