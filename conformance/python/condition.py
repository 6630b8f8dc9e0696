"""Suite 6: conditions."""

from aws_durable_execution_sdk_python import durable_execution
from aws_durable_execution_sdk_python.config import JitterStrategy
from aws_durable_execution_sdk_python.waits import (
    WaitForConditionConfig,
    WaitStrategyConfig,
    create_wait_strategy,
)
from common import Codec, giving, refuse, seconds


def polling(initial, is_open, attempts=60, delay=1, codec=None):
    strategy = create_wait_strategy(
        WaitStrategyConfig(
            should_continue_polling=is_open,
            max_attempts=attempts,
            initial_delay=seconds(delay),
            backoff_rate=1,
            jitter_strategy=JitterStrategy.NONE,
        )
    )
    return WaitForConditionConfig(wait_strategy=strategy, initial_state=initial, serdes=codec)


def count(state, _check):
    return state + 1


def counted(context, initial, threshold, name=None, delay=1):
    """Counts to a threshold."""
    config = polling(initial, lambda state: state < threshold, delay=delay)
    return context.wait_for_condition(count, name=name, config=config)


@durable_execution
def basic(event, context):
    return counted(context, 0, event)


@durable_execution
def met_at_once(event, context):
    config = polling(5, lambda state: state < event)
    return context.wait_for_condition(lambda state, _check: state, config=config)


@durable_execution
def named(event, context):
    return counted(context, 0, event, name="poll-status")


@durable_execution
def initial_state(event, context):
    return counted(context, 5, event)


@durable_execution
def fixed_delay(event, context):
    return counted(context, 0, event, delay=2)


@durable_execution
def exhausted(event, context):
    return context.wait_for_condition(count, config=polling(event, giving(True), attempts=3))


@durable_execution
def fails(_event, context):
    return context.wait_for_condition(refuse, config=polling(0, giving(True)))


@durable_execution
def failure_handled(_event, context):
    try:
        return context.wait_for_condition(refuse, config=polling(0, giving(True)))
    except Exception:
        return "recovered"


@durable_execution
def complex_state(_event, context):
    def check(state, _check):
        attempts = state["attempts"] + 1
        return {"status": "DONE" if attempts >= 2 else "PENDING", "attempts": attempts}

    pending = {"status": "PENDING", "attempts": 0}
    return context.wait_for_condition(check, config=polling(pending, lambda state: state["status"] == "PENDING"))


@durable_execution
def null_state(_event, context):
    return context.wait_for_condition(giving(None), config=polling(None, giving(False)))


@durable_execution
def custom_codec(_event, context):
    marked = Codec(lambda state: f"state:{state}", lambda text: text.removeprefix("state:"))
    config = polling("", lambda state: len(state) < 2, codec=marked)
    return context.wait_for_condition(lambda state, _check: state + "x", config=config)


@durable_execution
def then_step(event, context):
    return context.step(giving(counted(context, 0, event) * 10))


@durable_execution
def sequential(_event, context):
    return counted(context, counted(context, 0, 2), 4)
