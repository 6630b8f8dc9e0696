"""Suite 5: invoking other functions."""

import json
import os

from aws_durable_execution_sdk_python import durable_execution
from aws_durable_execution_sdk_python.config import InvokeConfig
from common import Codec, giving, refuse, seconds

ECHO = os.environ.get("ECHO")
TENANT_ECHO = os.environ.get("TENANT_ECHO")
FAILING = os.environ.get("FAILING")


@durable_execution
def echo(event, context):
    """A target; it waits so that its caller has suspended before it answers."""
    context.wait(seconds(1))
    return event


@durable_execution
def failing(_event, context):
    context.wait(seconds(1))
    refuse()


@durable_execution
def basic(event, context):
    return context.invoke(ECHO, event)


@durable_execution
def null(_event, context):
    return context.invoke(ECHO, None)


@durable_execution
def named(event, context):
    return context.invoke(ECHO, event["payload"], name=event["name"])


@durable_execution
def fails(_event, context):
    return context.invoke(FAILING, None)


@durable_execution
def failure_handled(_event, context):
    try:
        return context.invoke(FAILING, None)
    except Exception:
        return "fallback"


@durable_execution
def large_payload(_event, context):
    return len(context.invoke(ECHO, "x" * 200_000))


@durable_execution
def for_a_tenant(event, context):
    return context.invoke(TENANT_ECHO, event["payload"], config=InvokeConfig(tenant_id=event["tenantId"]))


@durable_execution
def replay_skips(_event, context):
    answer = context.invoke(ECHO, "once")
    context.wait(seconds(1))
    return answer


@durable_execution
def replay_throws_again(_event, context):
    try:
        answer = context.invoke(FAILING, None)
    except Exception as error:
        answer = str(error)
    context.wait(seconds(1))
    return answer


@durable_execution
def after_a_step(_event, context):
    return context.invoke(ECHO, context.step(giving("from the step")))


@durable_execution
def before_a_step(_event, context):
    return context.step(giving(context.invoke(ECHO, "from the function")))


@durable_execution
def inside_a_child(_event, context):
    return context.run_in_child_context(lambda inner: inner.invoke(ECHO, "inside"))


@durable_execution
def sequential(_event, context):
    first = context.invoke(ECHO, "first")
    return context.invoke(ECHO, f"{first}, second")


@durable_execution
def payload_codec(event, context):
    shouting = Codec(lambda value: json.dumps(value).upper(), json.loads)
    return context.invoke(ECHO, event, config=InvokeConfig(serdes_payload=shouting))


@durable_execution
def result_codec(event, context):
    # The answer's text as it came, quotes included.
    shouting = Codec(json.dumps, str.upper)
    return context.invoke(ECHO, event, config=InvokeConfig(serdes_result=shouting))
