"""Suite 3: child contexts."""

from aws_durable_execution_sdk_python import durable_execution
from aws_durable_execution_sdk_python.config import ChildConfig, StepConfig
from common import NEVER, SHOUTING, failing_until, giving, refuse, retrying, seconds
from step import lose_process


def echo(context, value):
    return context.step(giving(value))


def echoed_and_waited(context, value):
    value = echo(context, value)
    context.wait(seconds(1))
    return value


@durable_execution
def basic(event, context):
    return context.run_in_child_context(lambda inner: echo(inner, event))


@durable_execution
def named(event, context):
    return context.run_in_child_context(lambda inner: echo(inner, event["value"]), name=event["name"])


@durable_execution
def sequential(event, context):
    return context.run_in_child_context(lambda inner: echo(inner, echo(inner, event)), name="sequential")


def fail_in(context):
    return context.run_in_child_context(lambda inner: inner.step(refuse, config=NEVER), name="failing")


@durable_execution
def fails(_event, context):
    return fail_in(context)


@durable_execution
def failure_handled(event, context):
    try:
        return fail_in(context)
    except Exception:
        return echo(context, event)


@durable_execution
def nested(event, context):
    def outer(inner):
        value = echo(inner, event)
        return inner.run_in_child_context(lambda innermost: echo(innermost, value), name="inner")

    return context.run_in_child_context(outer, name="outer")


@durable_execution
def step_retried(event, context):
    config = StepConfig(retry_strategy=retrying())
    return context.run_in_child_context(
        lambda inner: inner.step(failing_until(2, event), config=config), name="retried"
    )


@durable_execution
def step_exhausted(_event, context):
    config = StepConfig(retry_strategy=retrying(2))
    return context.run_in_child_context(lambda inner: inner.step(refuse, config=config), name="exhausted")


@durable_execution
def replay_skips(event, context):
    value = context.run_in_child_context(lambda inner: echo(inner, event))
    context.wait(seconds(1))
    return value


@durable_execution
def step_and_wait(event, context):
    return context.run_in_child_context(lambda inner: echoed_and_waited(inner, event), name="step-and-wait")


def log_always(context, text):
    """Logs, also while the context replays."""
    context.logger.with_is_replaying(giving(False)).info(text)


@durable_execution
def large_result(event, context):
    def body(inner):
        log_always(inner, event)
        return echo(inner, "x") * 300 * 1024

    large = context.run_in_child_context(body, name="large")
    context.wait(seconds(1))
    return len(large)


@durable_execution
def interrupted(event, context):
    # Nothing in the new process remembers the lost one, but the record does.
    is_first = not context.is_replaying()

    def body(_step):
        if is_first:
            lose_process()
        return event

    return context.run_in_child_context(lambda inner: inner.step(body))


@durable_execution
def wait_inside(event, context):
    def body(inner):
        inner.wait(seconds(1))
        return event

    return echo(context, context.run_in_child_context(body, name="waiting"))


@durable_execution
def custom_codec(event, context):
    config = ChildConfig(serdes=SHOUTING)
    return context.run_in_child_context(lambda inner: echo(inner, event), name="shouting", config=config)


@durable_execution
def fails_without_step(_event, context):
    return context.run_in_child_context(refuse, name="failing")


@durable_execution
def null_result(_event, context):
    return context.run_in_child_context(giving(None), name="nothing")


@durable_execution
def only_logs(event, context):
    def body(inner):
        log_always(inner, event)
        return event

    value = context.run_in_child_context(body, name="logging")
    context.wait(seconds(1))
    return value


@durable_execution
def inside_and_after(event, context):
    value = context.run_in_child_context(lambda inner: echoed_and_waited(inner, event), name="inside")
    return echoed_and_waited(context, value)
