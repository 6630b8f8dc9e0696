"""Requirements as handlers on the official Python SDK; template.yaml says which is which."""

import json
import os
import sys
import time

from aws_durable_execution_sdk_python import DurableContext, durable_execution
from aws_durable_execution_sdk_python.config import (
    CallbackConfig,
    Duration,
    JitterStrategy,
    MapConfig,
    ParallelConfig,
    StepConfig,
    StepSemantics,
)
from aws_durable_execution_sdk_python.plugin import DurableInstrumentationPlugin, OperationType
from aws_durable_execution_sdk_python.retries import (
    RetryPresets,
    RetryStrategyConfig,
    create_retry_strategy,
)
from aws_durable_execution_sdk_python.waits import (
    WaitForConditionConfig,
    WaitStrategyConfig,
    create_wait_strategy,
)


def seconds(number):
    return Duration.from_seconds(number)


def retrying(attempts):
    return create_retry_strategy(
        RetryStrategyConfig(
            max_attempts=attempts,
            initial_delay=seconds(1),
            backoff_rate=1,
            jitter_strategy=JitterStrategy.NONE,
        )
    )


NEVER = StepConfig(retry_strategy=RetryPresets.none())


def refuse(_step):
    raise ValueError("failed as required")


def hello(name):
    return lambda _step: f"Hello, {name}!"


def lose_process():
    # A start is durable before its body loses the process.
    time.sleep(0.5)
    sys.stdout.flush()
    os._exit(1)


@durable_execution
def greet(event, context: DurableContext):
    return context.step(hello(event))


@durable_execution
def named(event, context: DurableContext):
    return context.step(hello(event), name="custom_step_name")


@durable_execution
def sequential(_event, context: DurableContext):
    first = context.step(lambda _: "first")
    return context.step(lambda _: f"{first}_second")


@durable_execution
def logging(event, context: DurableContext):
    def body(step):
        step.logger.info(f"Greeting step started for: {event}")
        greeting = f"Hello, {event}!"
        step.logger.info(f"Greeting step completed with: {greeting}")
        return greeting

    return context.step(body)


@durable_execution
def then_wait(_event, context: DurableContext):
    value = context.step(lambda _: "computed")
    context.wait(seconds(2))
    return value


@durable_execution
def retried(_event, context: DurableContext):
    def body(step):
        return refuse(step) if step.attempt < 2 else "Operation succeeded"

    return context.step(body, config=StepConfig(retry_strategy=retrying(3)))


@durable_execution
def exhausted(_event, context: DurableContext):
    return context.step(refuse, config=StepConfig(retry_strategy=retrying(4)))


@durable_execution
def lost_for_good(event, context: DurableContext):
    def body(step):
        step.logger.info(event)
        lose_process()

    at_most_once = StepConfig(
        retry_strategy=RetryPresets.none(), step_semantics=StepSemantics.AT_MOST_ONCE_PER_RETRY
    )
    return context.step(body, name="at_most_once_flaky_step", config=at_most_once)


@durable_execution
def lost_then_retried(event, context: DurableContext):
    def body(step):
        step.logger.info(event)
        if step.attempt == 1:
            lose_process()
        return "succeeded on second attempt"

    at_most_once = StepConfig(
        retry_strategy=retrying(3), step_semantics=StepSemantics.AT_MOST_ONCE_PER_RETRY
    )
    return context.step(body, config=at_most_once)


@durable_execution
def fails(_event, context: DurableContext):
    return context.step(refuse, config=NEVER)


@durable_execution
def failure_handled(_event, context: DurableContext):
    try:
        value = context.step(refuse, config=NEVER)
    except Exception:
        value = "fallback"
    return context.step(lambda _: f"{value}_result")


@durable_execution
def wait(_event, context: DurableContext):
    context.wait(seconds(2))


@durable_execution
def waits(_event, context: DurableContext):
    context.wait(seconds(2), name="wait-1")
    context.wait(seconds(2), name="wait-2")
    return {"completedWaits": 2}


@durable_execution
def child(event, context: DurableContext):
    return context.run_in_child_context(lambda inner: inner.step(lambda _: event))


@durable_execution
def child_fails(_event, context: DurableContext):
    return context.run_in_child_context(
        lambda inner: inner.step(refuse, config=NEVER), name="failing"
    )


@durable_execution
def interrupted(event, context: DurableContext):
    # Nothing in the new process remembers the lost one, but the record does.
    is_first = not context.is_replaying()

    def body(_step):
        if is_first:
            lose_process()
        return event

    return context.run_in_child_context(lambda inner: inner.step(body))


@durable_execution
def callback(event, context: DurableContext):
    return context.create_callback(name=event).result()


@durable_execution
def callback_timeout(event, context: DurableContext):
    config = CallbackConfig(timeout=seconds(5))
    return context.create_callback(name=event, config=config).result()


@durable_execution
def callback_heartbeat(event, context: DurableContext):
    config = CallbackConfig(heartbeat_timeout=seconds(10))
    return context.create_callback(name=event, config=config).result()


@durable_execution
def callback_after_wait(event, context: DurableContext):
    created = context.create_callback(name=event)
    context.wait(seconds(5))
    return created.result()


@durable_execution
def invoke(event, context: DurableContext):
    return context.invoke(os.environ["ECHO"], event)


@durable_execution
def invoke_fails(_event, context: DurableContext):
    return context.invoke(os.environ["FAILING"], None)


@durable_execution
def invoke_failure_handled(_event, context: DurableContext):
    try:
        return context.invoke(os.environ["FAILING"], None)
    except Exception:
        return "fallback"


@durable_execution
def echo(event, context: DurableContext):
    """A target; it waits so that its caller has suspended before it answers."""
    context.wait(seconds(1))
    return event


@durable_execution
def failing(_event, context: DurableContext):
    context.wait(seconds(1))
    raise ValueError("failed as required")


def polling(initial, is_open, attempts=60):
    strategy = create_wait_strategy(
        WaitStrategyConfig(
            should_continue_polling=is_open,
            max_attempts=attempts,
            initial_delay=seconds(1),
            backoff_rate=1,
            jitter_strategy=JitterStrategy.NONE,
        )
    )
    return WaitForConditionConfig(wait_strategy=strategy, initial_state=initial)


@durable_execution
def condition(event, context: DurableContext):
    config = polling(0, lambda state: state < event)
    return context.wait_for_condition(lambda state, _: state + 1, config=config)


@durable_execution
def condition_exhausted(event, context: DurableContext):
    config = polling(event, lambda _: True, attempts=3)
    return context.wait_for_condition(lambda state, _: state + 1, config=config)


@durable_execution
def wait_for_callback(event, context: DurableContext):
    return context.wait_for_callback(lambda _id, _context: None, name=event)


ONE_AT_A_TIME = ParallelConfig(max_concurrency=1)


@durable_execution
def parallel(_event, context: DurableContext):
    branches = [lambda inner, text=text: inner.step(lambda _: text) for text in ("task-1", "task-2")]
    return context.parallel(branches, name="parallel", config=ONE_AT_A_TIME).get_results()


@durable_execution
def parallel_unnamed(_event, context: DurableContext):
    branches = [lambda _, text=text: text for text in ("alpha", "beta")]
    return context.parallel(branches, config=ONE_AT_A_TIME).get_results()


@durable_execution
def greet_all(event, context: DurableContext):
    def item(inner, name, _index, _names):
        return inner.step(hello(name))

    return context.map(event, item, name="map", config=MapConfig(max_concurrency=1)).get_results()


@durable_execution
def named_items(event, context: DurableContext):
    config = MapConfig(max_concurrency=1, item_namer=lambda item, _: f"item-{item}")
    tenfold = context.map(
        event, lambda _, item, _index, _items: item * 10, name="named-items", config=config
    )
    return tenfold.get_results()


class Recorder(DurableInstrumentationPlugin):
    """Writes a record of each hook it sees."""

    def __init__(self, info):
        self.arn = info.execution_arn

    @classmethod
    def create_plugin(cls, info):
        return cls(info)

    def write(self, hook, **fields):
        record = {"plugin": "CONFPLUGIN", "hook": hook, "durableExecutionArn": self.arn, **fields}
        print(json.dumps(record), flush=True)

    def on_invocation_start(self, info):
        for operation in info.updated_operations.values():
            if operation.operation_type == OperationType.WAIT:
                self.write(
                    "updated-on-invoke", op=operation.operation_id,
                    status=operation.status.value, first=info.is_first_invocation,
                )
        self.write("invocation-start", first=info.is_first_invocation)

    def on_invocation_end(self, info):
        self.write("invocation-end", status=info.status.value)

    def on_operation_start(self, info):
        self.write("operation-start", op=info.operation_id, type=info.operation_type.value)

    def on_operation_end(self, info):
        self.write(
            "operation-end", op=info.operation_id, type=info.operation_type.value,
            status=info.status.value,
        )


@durable_execution(plugins=[Recorder])
def greet_observed(event, context: DurableContext):
    def body(step):
        step.logger.info(f"Greeting step running for: {event}")
        return f"Hello, {event}!"

    return context.step(body)


@durable_execution(plugins=[Recorder])
def wait_observed(_event, context: DurableContext):
    context.wait(seconds(2))
