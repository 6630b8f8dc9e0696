"""One handler on the official Python SDK that does what its input says, as ../js/app.mjs does."""

import json

from aws_durable_execution_sdk_python import durable_execution
from aws_durable_execution_sdk_python.config import (
    CallbackConfig,
    ChildConfig,
    CompletionConfig,
    Duration,
    MapConfig,
    NestingType,
    ParallelBranch,
    ParallelConfig,
    StepConfig,
    StepSemantics,
    WaitForCallbackConfig,
)
from aws_durable_execution_sdk_python.exceptions import SuspendExecution
from aws_durable_execution_sdk_python.retries import RetryDecision, WithRetryConfig, with_retry
from aws_durable_execution_sdk_python.waits import WaitForConditionConfig, WaitForConditionDecision


class OddError(Exception):
    """An error with a class of its own, as users have them."""


def failure(error):
    kinds = {"RangeError": ValueError, "OddError": OddError}
    return kinds.get(error["name"], RuntimeError)(error["message"])


def value_of(it):
    return "x" * it["size"] if "size" in it else it.get("value")


def short(value):
    """What is large is told by its length: results are compared as texts."""
    text = json.dumps(value)
    return {"length": len(text)} if len(text) > 4000 else value


def told(error):
    named = {"caught": type(error).__name__, "message": str(error)}
    for field in ("error_type", "data"):
        if isinstance(getattr(error, field, None), str):
            named[field] = getattr(error, field)
    return named


def retry(attempts):
    def decide(_error, attempt):
        if attempt < attempts:
            return RetryDecision.retry(Duration.from_seconds(1))
        return RetryDecision.no_retry()

    return decide


def step(ctx, it, at):
    def work(context):
        if context.attempt <= it["fails"]:
            raise failure(it["error"])
        return value_of(it["value"])

    semantics = StepSemantics.AT_MOST_ONCE_PER_RETRY if it["once"] else StepSemantics.AT_LEAST_ONCE_PER_RETRY
    config = StepConfig(retry_strategy=retry(it["attempts"]), step_semantics=semantics)
    return ctx.step(work, name=None if it["name"] is None else it["name"] + at, config=config)


def wait(ctx, it, at):
    return ctx.wait(Duration.from_seconds(it["seconds"]), name=None if it["name"] is None else it["name"] + at)


def condition(ctx, it, at):
    def check(state, _context):
        if state["polls"] + 1 == it["failsAt"]:
            raise failure(it["error"])
        return {**state, "polls": state["polls"] + 1}

    def strategy(state, _attempt):
        if state["polls"] < it["polls"]:
            return WaitForConditionDecision.continue_waiting(Duration.from_seconds(1))
        return WaitForConditionDecision.stop_polling()

    config = WaitForConditionConfig(wait_strategy=strategy, initial_state={"polls": 0, "state": it["state"]})
    return ctx.wait_for_condition(check, config, name=it["name"] + at)


def limits(it):
    return {
        "timeout": Duration.from_seconds(it["timeout"]),
        "heartbeat_timeout": Duration.from_seconds(it["heartbeat"]),
    }


def callback(ctx, it, at):
    made = ctx.create_callback(name=it["name"] + at, config=CallbackConfig(**limits(it)))
    if it["work"]:
        ctx.step(lambda _: None, name=f"{it['name']}{at}-work")
    return made.result()


def wait_callback(ctx, it, at):
    def submit(_id, _context):
        if it["fails"]:
            raise failure(it["error"])

    config = WaitForCallbackConfig(**limits(it), retry_strategy=retry(it["attempts"]))
    return ctx.wait_for_callback(submit, name=it["name"] + at, config=config)


def invoke(ctx, it, at):
    target = "Child:$LATEST" if it["target"] == "Child" else it["target"]
    return ctx.invoke(target, it["input"], name=it["name"] + at)


def throw(_ctx, it, _at):
    raise failure(it["error"])


def child(ctx, it, at):
    return ctx.run_in_child_context(
        lambda inner: padded(everything(inner, it["body"], at), it["pad"]),
        name=it["name"] + at,
        config=ChildConfig(is_virtual=it["virtual"]),
    )


def options(it):
    rule = {
        ours: it[key]
        for key, ours in (
            ("least", "min_successful"),
            ("tolerated", "tolerated_failure_count"),
            ("percentage", "tolerated_failure_percentage"),
        )
        if key in it
    }
    return {
        **({"max_concurrency": it["concurrency"]} if it["concurrency"] else {}),
        **({"completion_config": CompletionConfig(**rule)} if rule else {}),
        **({"nesting_type": NestingType.FLAT} if it["flat"] else {}),
    }


def batch(done):
    items = [
        {
            "index": item.index,
            "status": item.status.value,
            "result": short(item.result),
            "error": item.error and {"type": item.error.type, "message": item.error.message},
        }
        for item in done.all
    ]
    return {"reason": done.completion_reason.value, "items": items}


def map_(ctx, it, at):
    def work(inner, item, index, _items):
        done = everything(inner, it["body"], f"{at}.{index}")
        if index == it["failing"]:
            raise RuntimeError(f"item {index} fails")
        return padded([item["text"], *done], it["pad"])

    items = [{"index": index, "text": f"item {index}"} for index in range(it["items"])]
    return batch(ctx.map(items, work, name=it["name"] + at, config=MapConfig(**options(it))))


def parallel(ctx, it, at):
    def branch(index, body):
        def work(inner):
            return everything(inner, body, at)

        return ParallelBranch(work, name=f"{it['name']}{at}-{index}") if index % 2 else work

    branches = [branch(index, body) for index, body in enumerate(it["bodies"])]
    return batch(ctx.parallel(branches, name=it["name"] + at, config=ParallelConfig(**options(it))))


def retried(ctx, it, at):
    def work(inner, attempt):
        done = everything(inner, it["body"], at)
        if attempt <= it["fails"]:
            raise failure(it["error"])
        return done

    return with_retry(ctx, work, WithRetryConfig(retry_strategy=retry(it["attempts"])), name=it["name"] + at)


def heavy(ctx, it, at):
    total = 0
    for index in range(it["count"]):
        total += len(ctx.step(lambda _: "h" * it["size"], name=f"{it['name']}{at}-{index}"))
    ctx.wait(Duration.from_seconds(1), name=f"{it['name']}{at}-wait")
    return total


KINDS = {
    "step": step, "wait": wait, "condition": condition, "callback": callback,
    "waitCallback": wait_callback, "invoke": invoke, "throw": throw, "child": child, "map": map_,
    "parallel": parallel, "retry": retried, "heavy": heavy,
}


def padded(value, pad):
    return {"value": value, "pad": "p" * pad} if pad else value


def everything(ctx, body, at):
    done = []
    for node in body:
        try:
            done.append(short(KINDS[node["op"]](ctx, node, at)))
        except SuspendExecution:
            raise
        except Exception as error:
            if not node.get("catch"):
                raise
            done.append(told(error))
    return done


@durable_execution
def handler(program, ctx):
    done = everything(ctx, program["body"], "")
    if program["fail"]:
        raise failure(program["fail"])
    return None if program.get("nothing") else padded(done, program["pad"])


def plain(event, _context):
    """Not durable."""
    if "fail" in event:
        raise failure(event["fail"])
    return value_of(event["value"])
