"""Suites 4 and 7: callbacks, without and with a submitter."""

import json
from datetime import datetime

from aws_durable_execution_sdk_python import durable_execution
from aws_durable_execution_sdk_python.config import CallbackConfig, WaitForCallbackConfig
from common import Codec, giving, refuse, retrying, seconds


def answered(**config):
    """A handler that awaits a callback which is named by its input."""

    @durable_execution
    def handler(event, context):
        return context.create_callback(name=event, config=CallbackConfig(**config)).result()

    return handler


basic = answered()
timeout = answered(timeout=seconds(5))
heartbeat_timeout = answered(heartbeat_timeout=seconds(5))
heartbeat = answered(heartbeat_timeout=seconds(10))


@durable_execution
def named(_event, context):
    return context.create_callback(name="approval").result()


def answered_after(work, **config):
    """A handler that does something else between creating a callback and awaiting it."""

    @durable_execution
    def handler(event, context):
        callback = context.create_callback(name=event, config=CallbackConfig(**config))
        work(context)
        return callback.result()

    return handler


after_step = answered_after(lambda context: context.step(giving(None)))
step_then_timeout = answered_after(lambda context: context.step(giving(None)), timeout=seconds(5))
after_wait = answered_after(lambda context: context.wait(seconds(5)))
wait_past_timeout = answered_after(lambda context: context.wait(seconds(6)), timeout=seconds(3))


@durable_execution
def then_wait(event, context):
    reply = context.create_callback(name=event).result()
    context.wait(seconds(2))
    return reply


def handled_then_wait(**config):
    @durable_execution
    def handler(event, context):
        try:
            reply = context.create_callback(name=event, config=CallbackConfig(**config)).result()
        except Exception as error:
            reply = str(error)
        context.wait(seconds(2))
        return reply

    return handler


failure_then_wait = handled_then_wait()
timeout_then_wait = handled_then_wait(timeout=seconds(3))


def read_reply(text):
    reply = json.loads(text)
    reply["timestamp"] = int(datetime.fromisoformat(reply["timestamp"]).timestamp())
    return reply


@durable_execution
def typed_reply(event, context):
    config = CallbackConfig(serdes=Codec(json.dumps, read_reply))
    return {"received": context.create_callback(name=event, config=config).result()}


@durable_execution
def numeric_reply(event, context):
    config = CallbackConfig(serdes=Codec(str, int))
    count = context.create_callback(name=event, config=config).result()
    return {"count": count, "doubled": count * 2}


@durable_execution
def one_after_another(event, context):
    return [context.create_callback(name=name).result() for name in event]


@durable_execution
def both_in_order(event, context):
    callbacks = [context.create_callback(name=name) for name in event]
    return [callback.result() for callback in callbacks]


@durable_execution
def both_in_reverse(event, context):
    first, second = [context.create_callback(name=name) for name in event]
    reply = second.result()
    return [first.result(), reply]


def submitted(**config):
    """A handler that awaits a reply; the one who replies finds the id in the history."""

    @durable_execution
    def handler(event, context):
        return context.wait_for_callback(giving(None), name=event, config=WaitForCallbackConfig(**config))

    return handler


submitted_basic = submitted()
submitted_timeout = submitted(timeout=seconds(3))
submitted_heartbeat_timeout = submitted(heartbeat_timeout=seconds(5))
submitted_heartbeat = submitted(heartbeat_timeout=seconds(10))


@durable_execution
def submitted_named(_event, context):
    return context.wait_for_callback(giving(None), name="approval")


@durable_execution
def submitted_unnamed(_event, context):
    return context.wait_for_callback(giving(None))


def submitted_handled(fallback, **config):
    @durable_execution
    def handler(event, context):
        try:
            config_ = WaitForCallbackConfig(**config)
            return context.wait_for_callback(giving(None), name=event, config=config_)
        except Exception:
            return fallback

    return handler


submitted_failure_handled = submitted_handled("recovered")
submitted_timeout_handled = submitted_handled("timed-out-handled", timeout=seconds(3))


@durable_execution
def submitter_fails(event, context):
    config = WaitForCallbackConfig(retry_strategy=retrying(2))
    return context.wait_for_callback(refuse, name=event, config=config)


@durable_execution
def submitted_in_a_child(event, context):
    return context.run_in_child_context(
        lambda inner: inner.wait_for_callback(giving(None), name=event), name="wrapper"
    )


@durable_execution
def submitted_twice(_event, context):
    context.wait_for_callback(giving(None), name="first")
    return context.wait_for_callback(giving(None), name="second")


@durable_execution
def submitted_after_wait_and_step(event, context):
    context.wait(seconds(1))
    context.step(giving("fixed data"))
    return context.wait_for_callback(giving(None), name=event)


@durable_execution
def submitted_typed(event, context):
    config = WaitForCallbackConfig(serdes=Codec(json.dumps, json.loads))
    return context.wait_for_callback(giving(None), name=event, config=config)["status"]
