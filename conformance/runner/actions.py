"""What our own requirements add to the official form: calls before, during and after an execution.

The official runner starts and judges an execution; this does the rest and says what went wrong.
`conformance/requirements/README.md` describes the form.
"""

import dataclasses
import threading
import time
import urllib.parse
import urllib.request

from aws_durable_execution_conformance_tests.history import EventHistoryMatcher, load_yaml_file
from aws_durable_execution_conformance_tests.variables import PlaceholderContext
from botocore.exceptions import ClientError

PATIENCE_SECONDS = 240
PAUSE_SECONDS = 0.3


class Actions:
    """The calls of the requirements in a folder."""

    def __init__(self, client, endpoint, engine):
        self.client = client
        self.endpoint = endpoint
        self.engine = engine
        # By function: what its requirement says.
        self.requirements = {}
        # By execution: the thread that acts on it, its names for values, and what went wrong.
        self.running = {}

    def know(self, function, file):
        self.requirements[function] = load_yaml_file(str(file))

    def __getattr__(self, name):
        return getattr(self.client, name)

    def invoke(self, FunctionName, **asked):
        """Starts an execution for the runner."""
        requirement = self.requirements.get(FunctionName, {})
        context = PlaceholderContext()
        context.bind("FUNCTION", FunctionName)
        problems = []
        for call in requirement.get("Before", []):
            problems += self.make(call, context)
        answer = self.client.invoke(FunctionName=FunctionName, **asked)
        context.bind("ARN", answer["DurableExecutionArn"])
        thread = threading.Thread(target=self.act, args=(requirement, context, problems), daemon=True)
        self.running[answer["DurableExecutionArn"]] = (thread, context, problems)
        thread.start()
        return answer

    def act(self, requirement, context, problems):
        for call in requirement.get("Actions", []):
            problem = self.await_event(call["After"], context)
            problems += [problem] if problem else self.make(call, context)

    def await_event(self, pattern, context):
        """Waits for an event that matches; binds its names."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        pages = self.client.get_paginator("get_durable_execution_history")
        while time.monotonic() < deadline:
            history = pages.paginate(DurableExecutionArn=context.get("ARN"), IncludeExecutionData=True)
            for event in (event for page in history for event in page["Events"]):
                if not differences(pattern, event, None):
                    return "; ".join(differences(pattern, event, context))
            time.sleep(PAUSE_SECONDS)
        return f"no event came that matches {pattern}"

    def check(self, validation):
        """The runner's hook: calls to make when the official part has passed."""
        thread, context, problems = self.running[validation.execution_arn]
        thread.join(PATIENCE_SECONDS)
        for name, value in validation.placeholders.items():
            if not context.has(name):
                context.bind(name, value)
        for call in validation.requirement.get("Checks", []):
            problems += self.make(call, context)
        return problems

    def make(self, call, context):
        """Makes a call; what is wrong with its answer."""
        name = call["Call"]
        asked = context.substitute(call.get("With", {}))
        try:
            answer = self.call(name, asked, context)
        except ClientError as error:
            code = error.response["Error"]["Code"]
            wanted = call.get("Error")
            return [] if code == wanted else [f"{name}: expected {wanted or 'an answer'}, got {error}"]
        if "Error" in call:
            return [f"{name}: expected {call['Error']}, got {answer}"]
        return [f"{name}: {problem}" for problem in differences(call.get("Expect", {}), answer, context)]

    def call(self, name, asked, context):
        if name == "kill-engine":
            return self.engine.kill()
        if name == "signal":
            return self.signal(context.get("ARN"), **asked)
        answer = getattr(self.client, name)(**asked)
        answer.pop("ResponseMetadata", None)
        if "Payload" in answer:
            answer["Payload"] = answer["Payload"].read().decode()
        return answer

    def signal(self, arn, Name, Payload):
        arn, name = (urllib.parse.quote(part, safe="") for part in (arn, Name))
        url = f"{self.endpoint}/outlast/v1/executions/{arn}/signals/{name}"
        urllib.request.urlopen(urllib.request.Request(url, Payload.encode(), method="POST")).close()
        return {}


def differences(expected, actual, context):
    """What the official matcher has to say; names are bound in `context`, or forgotten."""
    if context is None:
        context = PlaceholderContext()
    matcher = EventHistoryMatcher(context=context)
    return matcher.match([{"EventId": 1, "is": expected}], [{"EventId": 1, "is": actual}]).errors


def hooked(load, check):
    """The runner's way to find suites, each with our hook."""

    def load_with_hook(*asked, **more):
        registry = load(*asked, **more)
        for name, suite in registry.suites.items():
            registry.suites[name] = dataclasses.replace(suite, validation_hook=check)
        return registry

    return load_with_hook
