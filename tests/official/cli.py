"""The AWS CLI against `outlast dev`: python cli.py PROJECT. The functions are those of the project in
../python; every check is an assertion.
"""

import sys
import time

from stand import Aws, Dev, new_key


def starts_and_names(aws):
    event = {"key": new_key(), "steps": 2}
    name = ["--durable-execution-name", new_key()]
    reply, answer = aws.invoke("Chain:$LATEST", event, *name)
    assert (reply["StatusCode"], answer) == (200, "1"), (reply, answer)
    arn = reply["DurableExecutionArn"]
    again, answer = aws.invoke("Chain:$LATEST", event, *name)
    assert (again["DurableExecutionArn"], answer) == (arn, "1"), "a closed one is given again"
    aws.refused(
        "DurableExecutionAlreadyStartedException", "invoke", "--function-name", "Chain:$LATEST",
        "--payload", "{}", *name, "/dev/null",
    )
    aws.refused(
        "InvalidParameterValueException", "invoke", "--function-name", "Chain", "/dev/null"
    )
    aws.refused("ResourceNotFoundException", "invoke", "--function-name", "nobody:1", "/dev/null")
    return arn


def reads(aws, arn):
    by = ["--durable-execution-arn", arn]
    described = aws("get-durable-execution", *by)
    assert (described["Status"], described["Result"]) == ("SUCCEEDED", "1"), described
    whole = aws("get-durable-execution-history", *by)["Events"]
    ids = [event["EventId"] for event in whole]
    assert ids == list(range(1, len(ids) + 1))
    backwards = aws("get-durable-execution-history", *by, "--reverse-order", "--page-size", "2")
    assert [event["EventId"] for event in backwards["Events"]] == ids[::-1]
    listed = aws(
        "list-durable-executions-by-function", "--function-name", "Chain", "--statuses", "SUCCEEDED"
    )
    assert arn in [it["DurableExecutionArn"] for it in listed["DurableExecutions"]]
    aws.refused(
        "ResourceNotFoundException", "get-durable-execution", "--durable-execution-arn",
        arn[:-4] + "0000",
    )


def stops_and_callbacks(aws, dev):
    reply, _ = aws.invoke("Everything:live", {"key": new_key()}, "--invocation-type", "Event")
    arn = reply["DurableExecutionArn"]
    callback = dev.event(arn, "CallbackStarted")["CallbackStartedDetails"]["CallbackId"]
    by = ["--callback-id", callback]
    aws("send-durable-execution-callback-heartbeat", *by)
    aws("send-durable-execution-callback-success", *by, "--result", '"yes"')
    aws.refused(
        "CallbackTimeoutException", "send-durable-execution-callback-failure", *by, "--error",
        "ErrorMessage=late",
    )
    assert dev.ended(arn)["Status"] == "SUCCEEDED"
    reply, _ = aws.invoke("Everything:live", {"key": new_key()}, "--invocation-type", "Event")
    arn = reply["DurableExecutionArn"]
    aws("stop-durable-execution", "--durable-execution-arn", arn, "--error", "ErrorMessage=enough")
    assert dev.ended(arn)["Status"] == "STOPPED"


def main():
    begun = time.monotonic()
    with Dev(sys.argv[1]) as dev:
        aws = Aws(dev.endpoint)
        reads(aws, starts_and_names(aws))
        stops_and_callbacks(aws, dev)
    print(f"    aws cli: {time.monotonic() - begun:.1f} s", flush=True)


main()
