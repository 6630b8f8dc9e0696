"""Suites 1 and 2: steps and waits."""

import os
import sys
import time

from aws_durable_execution_sdk_python import durable_execution
from aws_durable_execution_sdk_python.config import Duration, StepConfig, StepSemantics
from aws_durable_execution_sdk_python.retries import RetryDecision, RetryPresets
from common import NEVER, SHOUTING, failing_until, giving, refuse, retrying, seconds


def hello(name):
    return giving(f"Hello, {name}!")


def lose_process():
    # A start is durable before its body loses the process.
    time.sleep(0.5)
    sys.stdout.flush()
    os._exit(1)


@durable_execution
def greet(event, context):
    return context.step(hello(event))


@durable_execution
def named(event, context):
    return context.step(hello(event), name="custom_step_name")


@durable_execution
def sequential(_event, context):
    first = context.step(giving("first"))
    return context.step(giving(f"{first}_second"))


@durable_execution
def complex_result(event, context):
    return context.step(giving({"user": event, "count": len(event["tags"])}))


@durable_execution
def null_result(_event, context):
    return context.step(giving(None))


@durable_execution
def custom_codec(event, context):
    return context.step(giving(event), config=StepConfig(serdes=SHOUTING))


@durable_execution
def logging(event, context):
    def body(step):
        step.logger.info(f"Greeting step started for: {event}")
        greeting = f"Hello, {event}!"
        step.logger.info(f"Greeting step completed with: {greeting}")
        return greeting

    return context.step(body)


@durable_execution
def then_wait(_event, context):
    value = context.step(giving("computed"))
    context.wait(seconds(2))
    return value


@durable_execution
def replay_skips(_event, context):
    def body(step):
        step.logger.info("step executed")
        return "cached_value"

    value = context.step(body)
    context.wait(seconds(1))
    return value


@durable_execution
def replay_throws_again(_event, context):
    def body(step):
        step.logger.info("step executed")
        refuse()

    try:
        message = context.step(body, config=NEVER)
    except Exception as error:
        message = str(error)
    context.wait(seconds(1))
    return message


def retried(retry_strategy, succeeds_in=None):
    """A handler of one step that fails and is retried."""
    body = failing_until(succeeds_in, "Operation succeeded") if succeeds_in else refuse

    @durable_execution
    def handler(_event, context):
        return context.step(body, config=StepConfig(retry_strategy=retry_strategy))

    return handler


retried_once = retried(retrying(3), succeeds_in=2)
exhausted = retried(retrying(4))
default_retry = retried(None, succeeds_in=3)
own_numbers = retried(retrying(5, delay=2, backoff=3), succeeds_in=3)


class TransientError(Exception):
    """A disturbance that passes."""


def of_transient(decision, otherwise):
    return lambda error, _attempt: decision if isinstance(error, TransientError) else otherwise


AGAIN = RetryDecision.retry(seconds(1))
GIVE_UP = RetryDecision.no_retry()


@durable_execution
def this_error_retried(_event, context):
    def body(step):
        if step.attempt == 1:
            raise TransientError("not available right now")
        return "available"

    return context.step(body, config=StepConfig(retry_strategy=of_transient(AGAIN, GIVE_UP)))


@durable_execution
def this_error_not_retried(_event, context):
    def body(_step):
        raise TransientError("not available right now")

    return context.step(body, config=StepConfig(retry_strategy=of_transient(GIVE_UP, AGAIN)))


def at_most_once(retry_strategy):
    return StepConfig(retry_strategy=retry_strategy, step_semantics=StepSemantics.AT_MOST_ONCE_PER_RETRY)


@durable_execution
def lost_for_good(event, context):
    def body(step):
        step.logger.info(event)
        lose_process()

    return context.step(body, name="at_most_once_flaky_step", config=at_most_once(RetryPresets.none()))


@durable_execution
def lost_then_retried(event, context):
    def body(step):
        step.logger.info(event)
        if step.attempt == 1:
            lose_process()
        return "succeeded on second attempt"

    return context.step(body, config=at_most_once(retrying(3)))


@durable_execution
def fails(_event, context):
    return context.step(refuse, config=NEVER)


@durable_execution
def failure_handled(_event, context):
    try:
        value = context.step(refuse, config=NEVER)
    except Exception:
        value = "fallback"
    return context.step(giving(f"{value}_result"))


def waiting(duration, name=None):
    @durable_execution
    def handler(_event, context):
        context.wait(duration, name=name)

    return handler


wait = waiting(seconds(2))
named_wait = waiting(seconds(2), name="custom_wait_name")
one_minute = waiting(Duration.from_minutes(1))
one_hour = waiting(Duration.from_hours(1))


@durable_execution
def waits(_event, context):
    context.wait(seconds(2), name="wait-1")
    context.wait(seconds(2), name="wait-2")
    return {"completedWaits": 2}
