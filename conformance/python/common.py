"""What the handlers of several suites share."""

from aws_durable_execution_sdk_python.config import Duration, JitterStrategy, StepConfig
from aws_durable_execution_sdk_python.retries import (
    RetryPresets,
    RetryStrategyConfig,
    create_retry_strategy,
)
from aws_durable_execution_sdk_python.serdes import SerDes


def seconds(number):
    return Duration.from_seconds(number)


def retrying(attempts=3, delay=1, backoff=1):
    return create_retry_strategy(
        RetryStrategyConfig(
            max_attempts=attempts,
            initial_delay=seconds(delay),
            backoff_rate=backoff,
            jitter_strategy=JitterStrategy.NONE,
        )
    )


NEVER = StepConfig(retry_strategy=RetryPresets.none())


def refuse(*_):
    raise ValueError("failed as required")


def giving(value):
    """A body that gives back a value, of a step or of anything else."""
    return lambda *_: value


def failing_until(attempt, value):
    """The body of a step that fails in all its attempts before this one."""
    return lambda step: value if step.attempt >= attempt else refuse()


class Codec(SerDes):
    """A way to write values, made of two functions."""

    def __init__(self, write, read):
        self.write = write
        self.read = read

    def serialize(self, value, _):
        return self.write(value)

    def deserialize(self, data, _):
        return self.read(data)


SHOUTING = Codec(str.upper, str)
