"""Suite 10: plugins."""

import json
import sys

from aws_durable_execution_sdk_python import durable_execution
from aws_durable_execution_sdk_python.config import ParallelBranch, ParallelConfig, StepConfig
from aws_durable_execution_sdk_python.plugin import DurableInstrumentationPlugin, OperationType
from common import NEVER, failing_until, giving, refuse, retrying, seconds

NONE = "NONE"
ENDED = ("SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED", "STOPPED")


def token(value):
    return value.value if value else None


def moment(time):
    return time.isoformat() if time else None


def message(error):
    return error.message if error else None


class Recorder(DurableInstrumentationPlugin):
    """Writes a record of each hook it sees, short or with everything the hook was told."""

    def __init__(self, factory, info):
        self.asked = factory
        self.arn = info.execution_arn

    def write(self, hook, fields):
        if self.asked.whole:
            # What is absent is left out.
            fields = {name: value for name, value in fields.items() if value is not None}
        record = {"plugin": self.asked.name, "hook": hook, "durableExecutionArn": self.arn, **fields}
        # In one piece: hooks are called on several threads.
        sys.stdout.write(f"{json.dumps(record)}\n")
        sys.stdout.flush()
        if self.asked.fails:
            refuse()

    def wants(self, info):
        return self.asked.only in (None, info.operation_type)

    def invocation(self, info):
        if not self.asked.whole:
            return {"first": info.is_first_invocation}
        return {
            "isFirstInvocation": info.is_first_invocation,
            "requestId": info.request_id,
            "operationsCount": len(info.operations),
            "executionStartTimestamp": moment(info.execution_start_time),
        }

    def operation(self, info):
        if self.asked.whole:
            return {
                "id": info.operation_id,
                "name": info.name,
                "type": token(info.operation_type),
                "subType": info.sub_type,
                "parentId": info.parent_id,
                "status": token(info.status),
                "startTimestamp": moment(info.start_time),
                "endTimestamp": moment(info.end_time),
                "error": message(info.error),
                "attempt": info.attempt,
                "isReplay": info.is_replayed,
            }
        return {
            "op": info.operation_id,
            "type": token(info.operation_type),
            "name": info.name,
            "parent": info.parent_id or NONE,
            "status": token(info.status),
        }

    def on_invocation_start(self, info):
        for operation in info.updated_operations.values():
            if self.asked.only == operation.operation_type:
                fields = {"first": info.is_first_invocation, **self.operation(operation)}
                self.write("updated-on-invoke", fields)
        updated = {"updatedOperationsCount": len(info.updated_operations)}
        self.write("invocation-start", {**self.invocation(info), **updated})

    def on_invocation_end(self, info):
        end = {"status": token(info.status), "terminal": token(info.status) in ENDED}
        end["executionError"] = message(info.error)
        self.write("invocation-end", {**self.invocation(info), **end})

    def on_operation_start(self, info):
        if self.wants(info):
            replay = {"replay": info.is_replayed, "pending": token(info.status) not in ENDED}
            self.write("operation-start", {**self.operation(info), **replay})

    def on_operation_end(self, info):
        if self.wants(info):
            end = {"result": info.result or NONE}
            if not self.asked.whole:
                end["error"] = message(info.error) or NONE
            self.write("operation-end", {**self.operation(info), **end})

    def on_operation_change(self, info):
        for operation in filter(self.wants, info.updated_operations.values()):
            is_known = operation.operation_id in info.operations
            change = {
                "in_full_map": is_known,
                "inFullMap": is_known,
                "executionArn": info.execution_arn,
                "updatedOperationsCount": len(info.updated_operations),
                "operationsCount": len(info.operations),
            }
            self.write("operation-change", {**self.operation(operation), **change})

    def body(self, info, hook, **fields):
        # The bodies of contexts are not counted in attempts.
        kind = "fn" if info.operation_type == OperationType.CONTEXT else "attempt"
        fields |= {"n": info.attempt, "isReplayingChildren": info.is_replay_children}
        self.write(f"{kind}-{hook}", {**self.operation(info), **fields})

    def on_user_function_start(self, info):
        if self.wants(info):
            self.body(info, "start")

    def on_user_function_end(self, info):
        if self.wants(info):
            self.body(info, "end", outcome=token(info.outcome))


class Recording:
    """Makes a recorder for each invocation."""

    def __init__(self, name="CONFPLUGIN", only=None, whole=False, fails=False):
        self.name = name
        self.only = only
        self.whole = whole
        self.fails = fails

    def create_plugin(self, info):
        return Recorder(self, info)


def seen_by(*plugins):
    """A decorator: a handler, observed."""
    return durable_execution(plugins=list(plugins))


ANY = Recording()
STEPS = Recording(only=OperationType.STEP)
WAITS = Recording(only=OperationType.WAIT)
CONTEXTS = Recording(only=OperationType.CONTEXT)
WHOLE_STEPS = Recording(only=OperationType.STEP, whole=True)
FAULTY = Recording("CONFPLUGIN-FAULTY", OperationType.STEP, fails=True)
HEALTHY = Recording("CONFPLUGIN-HEALTHY", OperationType.STEP)


def greeting(event, context):
    def body(step):
        step.logger.info(f"Greeting step running for: {event}")
        return f"Hello, {event}!"

    return context.step(body)


def waiting(_event, context):
    context.wait(seconds(2))


greet = seen_by(STEPS)(greeting)
greet_faulty = seen_by(FAULTY)(greeting)
greet_two = seen_by(Recording("CONFPLUGIN-A"), Recording("CONFPLUGIN-B"))(greeting)
greet_faulty_and_healthy = seen_by(FAULTY, HEALTHY)(greeting)
wait = seen_by(WAITS)(waiting)


def succeed_later(context, result, name=None):
    return context.step(
        failing_until(2, result), name=name, config=StepConfig(retry_strategy=retrying())
    )


@seen_by(STEPS)
def retried(_event, context):
    return succeed_later(context, "Operation succeeded")


@seen_by(ANY)
def fails(_event, context):
    return context.step(refuse, config=NEVER)


@seen_by(ANY)
def greet_in_a_child(event, context):
    return context.run_in_child_context(lambda inner: greeting(event, inner))


@seen_by(CONTEXTS)
def branches(_event, context):
    bodies = [giving("task-1"), giving("task-2")]
    return context.parallel(bodies, name="parallel", config=ParallelConfig(max_concurrency=1)).get_results()


@seen_by(STEPS)
def one_retried(_event, context):
    context.step(giving(None))
    return succeed_later(context, "Operation succeeded")


@seen_by(STEPS)
def second_fails(_event, context):
    def boom(_step):
        raise ValueError("boom")

    context.step(giving("task-a"))
    context.step(boom, config=NEVER)


@seen_by(STEPS)
def exhausted(_event, context):
    return context.step(refuse, config=StepConfig(retry_strategy=retrying(2)))


@seen_by(WAITS)
def two_waits(_event, context):
    def waiter(name, duration):
        def body(inner):
            inner.wait(seconds(duration), name=name)
            return f"{name}-done"

        return body

    return context.parallel([waiter("short", 2), waiter("long", 8)], name="waits").get_results()


@seen_by(Recording(whole=True))
def wait_then_answer(event, context):
    context.wait(seconds(2))
    return f"done-{event}"


@seen_by(WHOLE_STEPS)
def named_step(_event, context):
    return context.step(giving("task-a"), name="greet")


@seen_by(WHOLE_STEPS)
def flaky(_event, context):
    return succeed_later(context, "ok", name="flaky")


@seen_by(Recording(only=OperationType.CONTEXT, whole=True))
def named_branches(_event, context):
    def first(inner):
        inner.step(giving("x"), name="inner")
        inner.wait(seconds(2))
        return "a-done"

    bodies = [ParallelBranch(first, name="branch-a"), ParallelBranch(giving("b-done"), name="branch-b")]
    return context.parallel(bodies, name="ctx", config=ParallelConfig(max_concurrency=1)).get_results()
