"""Runs programs on the SDK's own in-memory runner, as ../js/local.mjs does on its."""

import json
import logging
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from aws_durable_execution_sdk_python.lambda_service import ErrorObject
from aws_durable_execution_sdk_python_testing.runner import DurableFunctionTestRunner

from app import handler, plain

logging.disable(logging.CRITICAL)
written = threading.Lock()


def history(runner, arn):
    """The runner's own function for this gives the first hundred events."""
    return runner._executor.get_execution_history(arn, include_execution_data=True, max_items=1000).events


def answer(runner, arn, answers, ended):
    """Answers what is asked, until the end."""
    names, given = {}, set()
    while answers and not ended.is_set():
        for event in history(runner, arn):
            names[event.operation_id] = event.name
            if event.event_type != "CallbackStarted":
                continue
            # The callback of a wait_for_callback has a name that the SDK made of its context's.
            name = event.name if event.name in answers else names.get(event.parent_id)
            callback = event.callback_started_details.callback_id
            # A block that is retried asks once more.
            if name in answers and callback not in given:
                given.add(callback)
                give(runner, callback, **answers[name])
        time.sleep(0.1)


def give(runner, callback, kind, text=None, error=None, submitted=False):
    try:
        if kind == "heartbeat":
            runner.send_callback_heartbeat(callback)
        if kind in ("heartbeat", "success"):
            runner.send_callback_success(callback, None if text is None else text.encode())
        if kind == "failure":
            runner.send_callback_failure(callback, ErrorObject.from_dict(error))
    except Exception as failed:
        print("answer:", repr(failed), file=sys.stderr)


def run(program, answers):
    with DurableFunctionTestRunner(handler, poll_interval=0.1, skip_time=False) as runner:
        runner.register_durable_function("Child:$LATEST", handler)
        runner.register_function("Plain", plain)
        arn = runner.run_async(input=json.dumps(program), execution_timeout=300)
        ended = threading.Event()
        helper = threading.Thread(target=answer, args=(runner, arn, answers, ended), daemon=True)
        helper.start()
        try:
            result = runner.wait_for_result(arn, timeout=60)
        finally:
            ended.set()
            helper.join()
        events = history(runner, arn)
        return {
            "status": result.status.value,
            "result": result.result,
            "error": result.error.to_dict() if result.error else None,
            "events": [event.to_dict() for event in events],
        }


def line(text, target):
    asked = json.loads(text)
    try:
        outcome = run(asked["program"], asked["answers"])
    except Exception as error:
        outcome = {"broken": repr(error)}
    with written, open(target, "a") as out:
        out.write(json.dumps({"seed": asked["program"]["seed"], **outcome}, default=str) + "\n")


def main():
    source, target = sys.argv[1:3]
    with open(source) as lines, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda text: line(text, target), lines.read().splitlines()))
    # A program that did not end has left threads behind, which nobody else can end.
    os._exit(0)


main()
