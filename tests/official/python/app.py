"""Handlers on the official Python SDK, and what they leave behind for the test to read.

Every step writes down when it begins and ends in a file that is only ever added to, so that the
test can tell what was done twice.
"""

import os
import time

from aws_durable_execution_sdk_python import DurableContext, durable_execution
from aws_durable_execution_sdk_python.config import (
    CallbackConfig,
    Duration,
    JitterStrategy,
    StepConfig,
    StepSemantics,
)
from aws_durable_execution_sdk_python.exceptions import StepError
from aws_durable_execution_sdk_python.retries import (
    RetryDecision,
    RetryStrategyConfig,
    create_retry_strategy,
)

SOON = create_retry_strategy(
    RetryStrategyConfig(
        max_attempts=3,
        initial_delay=Duration.from_seconds(1),
        jitter_strategy=JitterStrategy.NONE,
    )
)
ONCE = StepConfig(
    step_semantics=StepSemantics.AT_MOST_ONCE_PER_RETRY,
    retry_strategy=lambda _error, _attempt: RetryDecision.no_retry(),
)


def ledger(*words):
    """Adds a line with the time and this process; returns how often it was added before."""
    path = os.environ["LEDGER"]
    line = " ".join(map(str, words))
    try:
        with open(path, encoding="utf-8") as lines:
            before = sum(1 for known in lines if known.rstrip("\n").split(" ", 2)[2] == line)
    except FileNotFoundError:
        before = 0
    with open(path, "a", encoding="utf-8") as lines:
        lines.write(f"{int(time.time() * 1000)} {os.getpid()} {line}\n")
    return before


def noted(key, name, work=lambda: None):
    """A step's body that writes down that it ran."""

    def body(_context):
        ledger(key, name, "begin")
        result = work()
        ledger(key, name, "end")
        return result

    return body


def fails_once(key):
    def body(_context):
        if ledger(key, "flaky", "begin") == 0:
            raise RuntimeError("the first attempt fails")
        ledger(key, "flaky", "end")
        return "in the end"

    return body


def hangs_once(key):
    def body(_context):
        if ledger(key, "crash", "begin") == 0:
            time.sleep(600)
        ledger(key, "crash", "end")
        return "survived"

    return body


@durable_execution
def everything(event, context: DurableContext):
    key = event["key"]
    flaky = context.step(fails_once(key), name="flaky", config=StepConfig(retry_strategy=SOON))
    context.wait(Duration.from_seconds(1), name="pause")
    callback = context.create_callback(
        name="approval", config=CallbackConfig(timeout=Duration.from_minutes(5))
    )
    context.step(noted(key, "ask"), name="ask")
    approval = callback.result()
    doubled = context.invoke(os.environ["DOUBLE"], {"n": 21}, name="double")
    chained = context.invoke(os.environ["CHAIN"], {"key": f"{key}-chained", "steps": 4}, name="chain")

    def child(inner: DurableContext):
        one = inner.step(noted(key, "child-one", lambda: 1), name="child-one")
        inner.wait(Duration.from_seconds(1), name="child-pause")
        return one + inner.step(noted(key, "child-two", lambda: 2), name="child-two")

    inside = context.run_in_child_context(child, name="child")

    def squared(branch: DurableContext, item, index, _items):
        return branch.step(noted(key, f"square-{index}", lambda: item * item), name=f"square-{index}")

    squares = context.map([1, 2, 3], squared, name="squares").get_results()
    both = context.parallel(
        [
            lambda branch: branch.step(noted(key, "left", lambda: "l"), name="left"),
            lambda branch: branch.step(noted(key, "right", lambda: "r"), name="right"),
        ],
        name="both",
    ).get_results()
    crash = context.step(hangs_once(key), name="crash") if event.get("crash") else None
    return {
        "flaky": flaky,
        "approval": approval,
        "doubled": doubled,
        "chained": chained,
        "inside": inside,
        "squares": squares,
        "both": both,
        "crash": crash,
    }


@durable_execution
def chain(event, context: DurableContext):
    """Steps one after another, slow enough to be killed in."""
    total = 0
    for number in range(event["steps"]):
        body = noted(event["key"], f"link-{number}", lambda number=number: time.sleep(0.02) or number)
        total += context.step(body, name=f"link-{number}")
        if number % 10 == 9:
            context.wait(Duration.from_seconds(1))
    return total


@durable_execution
def storm(event, context: DurableContext):
    """Steps that may run again when nobody heard of their end, and steps that never may."""
    total = interrupted = 0
    for number in range(event["steps"]):
        link, once = f"link-{number}", f"once-{number}"
        total += context.step(written(event["key"], link, number), name=link)
        try:
            total += context.step(written(event["key"], once, number), name=once, config=ONCE)
        except StepError:
            interrupted += number
        if number % 4 == 3:
            context.wait(Duration.from_seconds(1))
    return {"total": total, "interrupted": interrupted}


def written(key, name, result):
    """As `noted`, without a look at what others wrote."""

    def body(_context):
        for what in ("begin", "end"):
            line = f"{int(time.time() * 1000)} {os.getpid()} {key} {name} {what}\n"
            with open(os.environ["LEDGER"], "a", encoding="utf-8") as lines:
                lines.write(line)
            if what == "begin":
                time.sleep(0.01)
        return result

    return body


@durable_execution
def load(event, context: DurableContext):
    """Nothing but the SDK's own work: steps, and a wait in the middle."""
    for number in range(event["steps"]):
        context.step(lambda _context, number=number: number, name=f"step-{number}")
        if number == event["steps"] // 2:
            context.wait(Duration.from_seconds(1))


@durable_execution
def fails(_event, _context: DurableContext):
    raise ValueError("as it was told")


def double(event, _context):
    """Not durable."""
    return {"n": event["n"] * 2}
