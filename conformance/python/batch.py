"""Suites 8 and 9: parallel and map."""

import json

from aws_durable_execution_sdk_python import durable_execution
from aws_durable_execution_sdk_python.concurrency.models import BatchResult
from aws_durable_execution_sdk_python.config import (
    CompletionConfig,
    MapConfig,
    NestingType,
    ParallelBranch,
    ParallelConfig,
)
from common import Codec, giving, refuse, seconds

COUNTS = ("successCount", "failureCount", "totalCount")
OUTCOME = ("completionReason", "status", *COUNTS)


def numbers(batch, wanted):
    """What a handler tells of a batch: some of its numbers, by name."""
    known = {
        "completionReason": batch.completion_reason.value,
        "status": batch.status.value,
        "successCount": batch.success_count,
        "failureCount": batch.failure_count,
        "totalCount": batch.total_count,
        "hasFailure": batch.has_failure,
        "errorCount": len(batch.get_errors()),
    }
    return {name: known[name] for name in wanted}


def echo(context, value):
    return context.step(giving(value))


def stepping(value):
    return lambda inner: echo(inner, value)


def branches(name, bodies, **config):
    """A handler that runs these side by side, in turn unless told otherwise."""
    config = ParallelConfig(**{"max_concurrency": 1, **config})

    @durable_execution
    def handler(_event, context):
        return context.parallel(bodies, name=name, config=config).get_results()

    return handler


def settled(operation, name, outcomes, wanted, **completion):
    """A handler whose branches or items succeed (True) or fail, and that tells how it ended."""
    completion = CompletionConfig(**completion)

    def item(succeeds):
        return "ok" if succeeds else refuse()

    def run(context):
        if operation == "parallel":
            bodies = [lambda _inner, it=it: item(it) for it in outcomes]
            config = ParallelConfig(max_concurrency=1, completion_config=completion)
            return context.parallel(bodies, name=name, config=config)
        config = MapConfig(max_concurrency=1, completion_config=completion)
        return context.map(outcomes, lambda _inner, it, *_: item(it), name=name, config=config)

    @durable_execution
    def handler(_event, context):
        batch = run(context)
        if wanted is None:
            batch.throw_if_error()
        return numbers(batch, wanted or OUTCOME)

    return handler


def parallel(*asked, **completion):
    return settled("parallel", *asked, **completion)


def mapped(*asked, **completion):
    return settled("map", *asked, **completion)


parallel_basic = branches("parallel", [stepping("task-1"), stepping("task-2")])
parallel_unnamed = branches(None, [giving("alpha"), giving("beta")])
parallel_named = branches(
    "named", [ParallelBranch(giving("one"), name="first"), ParallelBranch(giving("two"), name="second")]
)
parallel_types = branches("hetero", [giving("hello"), giving(42), giving({"k": "v"})])
parallel_empty = branches("empty", [])
parallel_concurrent = branches("concurrent", [giving("r0"), giving("r1"), giving("r2")], max_concurrency=2)
parallel_flat = branches("flat", [stepping("fa"), stepping("fb")], nesting_type=NestingType.FLAT)


def wait_then_b1(inner):
    inner.wait(seconds(2))
    return "b1"


parallel_replay = branches("replay", [stepping("b0"), wait_then_b1])
parallel_codec = branches(
    "serde", [giving("x"), giving("y")],
    item_serdes=Codec(
        lambda value: json.dumps({"wrapped": value}), lambda text: json.loads(text)["wrapped"]
    ),
)


def inner_parallel(inner):
    config = ParallelConfig(max_concurrency=1)
    return inner.parallel([stepping("i1"), stepping("i2")], name="inner", config=config).get_results()


parallel_nested = branches("outer", [inner_parallel])

parallel_fail_fast = parallel("failfast", [True, False, True], OUTCOME, tolerated_failure_count=0)
parallel_thrown = parallel("throwing", [False, True], None, tolerated_failure_count=0)
parallel_enough = parallel(
    "min-successful", [True] * 4, ("completionReason", "successCount", "totalCount"), min_successful=2
)
parallel_tolerated = parallel("tolerated", [True, False, True], OUTCOME, tolerated_failure_count=1)
parallel_exceeded = parallel(
    "tolerated-exceeded", [False, False, True], ("completionReason", *COUNTS), tolerated_failure_count=1
)
parallel_percentage = parallel(
    "tolerated-pct", [False, False, True, True], ("completionReason", *COUNTS),
    tolerated_failure_percentage=25,
)
parallel_all_fail = parallel("all-fail", [False] * 3, OUTCOME, tolerated_failure_count=3)
parallel_too_few = parallel("min-not-reached", [True, False, True], OUTCOME, min_successful=3)
parallel_both_criteria = parallel(
    "combined", [False, False, True, True], ("completionReason", *COUNTS),
    min_successful=3, tolerated_failure_count=1,
)
parallel_accessors = parallel(
    "accessors", [True, False, True], ("hasFailure", "successCount", "failureCount", "errorCount"),
    tolerated_failure_count=1,
)
parallel_just_tolerated = parallel(
    "pct-boundary", [False, True, True, True], OUTCOME, tolerated_failure_percentage=25
)


@durable_execution
def parallel_no_concurrency(_event, context):
    config = ParallelConfig(max_concurrency=0)
    return context.parallel([giving("ok")] * 2, name="bad-concurrency", config=config).get_results()


def items(name, body, given=None, wait=None, **config):
    """A handler that does the same with every item; its input are the items unless they are given."""
    config = MapConfig(**{"max_concurrency": 1, **config})

    @durable_execution
    def handler(event, context):
        inputs = event if given is None else given
        batch = context.map(inputs, body, name=name, config=config)
        if wait:
            context.wait(wait)
        return batch.get_results()

    return handler


def shout(_inner, item, *_):
    return item.upper()


def echo_item(inner, item, *_):
    return echo(inner, item)


def echo_later(inner, item, index, _items):
    if index == 1:
        inner.wait(seconds(1))
    return echo(inner, item)


def read_marked(text):
    values = text.removeprefix("OPSERDE:").split(",")
    all_items = [{"index": i, "status": "SUCCEEDED", "result": value} for i, value in enumerate(values)]
    return BatchResult.from_dict({"all": all_items, "completionReason": "ALL_COMPLETED"})


# Stores a batch as the list of its values.
MARKED = Codec(lambda batch: "OPSERDE:" + ",".join(batch.get_results()), read_marked)
# Otherwise the one for the batch is used for its items as well.
PLAIN = Codec(json.dumps, json.loads)

map_basic = items("map", lambda inner, name, *_: echo(inner, f"Hello, {name}!"))
map_unnamed = items(None, lambda _inner, item, *_: item * 2)
map_index = items("indexed", lambda _inner, item, index, _items: item + index)
map_empty = items("empty", shout)
map_concurrent = items("concurrent", lambda _inner, item, *_: item, ["r0", "r1", "r2"], max_concurrency=2)
map_flat = items("flat", echo_item, ["fa", "fb"], nesting_type=NestingType.FLAT)
map_named_items = items(
    "named-items", lambda _inner, item, *_: item * 10, item_namer=lambda item, _index: f"item-{item}"
)
map_item_codec = items(
    "serdes", shout, ["x", "y"],
    item_serdes=Codec(lambda value: f"wrapped:{value}", lambda text: text.removeprefix("wrapped:")),
)
map_suspends = items("suspend", echo_later, ["r0", "r1"])
map_then_wait = items("then-wait", shout, ["a", "b"], wait=seconds(1))
map_codec = items("op-serde", shout, ["x", "y"], serdes=MARKED, item_serdes=PLAIN)
map_codec_replay = items(
    "op-serde-replay", shout, ["x", "y"], wait=seconds(1), serdes=MARKED, item_serdes=PLAIN
)

map_fail_fast = mapped("failfast", [True, False, True], OUTCOME, tolerated_failure_count=0)
map_thrown = mapped("throwing", [False, True], None, tolerated_failure_count=0)
map_enough = mapped(
    "min-successful", [True] * 4, ("completionReason", "successCount", "totalCount"), min_successful=2
)
map_tolerated = mapped("tolerated", [True, False, True], OUTCOME, tolerated_failure_count=1)
map_exceeded = mapped(
    "tolerated-exceeded", [False, False, True], ("completionReason", *COUNTS), tolerated_failure_count=1
)
map_percentage = mapped(
    "tolerated-pct", [False, False, True, True], ("completionReason", *COUNTS),
    tolerated_failure_percentage=25,
)


@durable_execution
def map_large(_event, context):
    batch = context.map(
        list("abcd"), lambda _inner, letter, *_: letter * 70 * 1024, name="large",
        config=MapConfig(max_concurrency=1),
    )
    return numbers(batch, ("successCount", "totalCount"))


@durable_execution
def map_failure_then_wait(_event, context):
    config = MapConfig(max_concurrency=1, completion_config=CompletionConfig(tolerated_failure_count=1))
    batch = context.map(
        [True, False], lambda _inner, it, *_: "ok" if it else refuse(), name="fail-then-wait", config=config
    )
    context.wait(seconds(1))
    return numbers(batch, OUTCOME)
