"""What our own requirements add to the official form: calls before, during and after an execution.

The official runner starts and judges an execution; this does the rest and says what went wrong.
`conformance/requirements/README.md` describes the form.
"""

import collections
import contextlib
import dataclasses
import datetime
import re
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

from aws_durable_execution_conformance_tests.history import EventHistoryMatcher, load_yaml_file
from aws_durable_execution_conformance_tests.variables import PlaceholderContext
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import ClientError

PATIENCE_SECONDS = 240
PAUSE_SECONDS = 0.2
PROBLEM_LENGTH_MAX = 600
# Calls that are not the API's: what they need is more than an endpoint.
POWERS = {"kill-engine", "stop-handlers", "start-handlers", "serve-version"}
FILL = re.compile(r"\$\{FILL:(\d+)\}")


def read(file):
    """A requirement, its texts filled."""
    return filled(load_yaml_file(str(file)))


def filled(part):
    """`${FILL:n}` as n letters: texts at the limits are long."""
    if isinstance(part, str):
        return FILL.sub(lambda found: "x" * int(found[1]), part)
    if isinstance(part, dict):
        return {key: filled(value) for key, value in part.items()}
    return [filled(value) for value in part] if isinstance(part, list) else part


def needed(requirement):
    """The powers that the calls of a requirement need."""
    parts = (requirement.get(part, []) for part in ("Before", "Actions", "Checks"))
    return POWERS & {call["Call"] for calls in parts for call in calls}


class Actions:
    """The calls of the requirements in a folder."""

    def __init__(self, client, connect, places):
        self.client = client
        # By function: the place it has for itself, and a client of the engine there.
        self.places = {function: (place, connect(place.endpoint)) for function, place in places.items()}
        # By function: what its requirement says.
        self.requirements = {}
        # By execution: the thread that acts on it, its names for values, and what went wrong.
        self.running = {}

    def know(self, function, file):
        self.requirements[function] = read(file)

    def client_for(self, function):
        _, client = self.places.get(function, (None, self.client))
        return client

    def __getattr__(self, name):
        """What the runner asks goes to the engine that has the function."""

        def ask(*plain, **asked):
            arn = asked.get("DurableExecutionArn", "")
            function = asked.get("FunctionName") or arn.partition(":function:")[2].partition(":")[0]
            return getattr(self.client_for(function), name)(*plain, **asked)

        return ask

    def invoke(self, FunctionName, **asked):
        """Starts an execution for the runner."""
        requirement = self.requirements.get(FunctionName, {})
        context = PlaceholderContext()
        context.bind("FUNCTION", FunctionName)
        context.resolve_variables(requirement.get("Variables"))
        problems = []
        for call in requirement.get("Before", []):
            problems += self.make(call, context)
        client = self.client_for(FunctionName)
        answer = client.invoke(FunctionName=FunctionName, **asked)
        arn = answer["DurableExecutionArn"]
        context.bind("ARN", arn)
        started = client.get_durable_execution(DurableExecutionArn=arn)["StartTimestamp"]
        context.bind("BEGAN", (started - datetime.timedelta(seconds=1)).isoformat(timespec="seconds"))
        thread = threading.Thread(target=self.act, args=(requirement, context, problems), daemon=True)
        self.running[arn] = (thread, context, problems)
        thread.start()
        return answer

    def act(self, requirement, context, problems):
        for call in requirement.get("Actions", []):
            problems += self.make(call, context)

    def await_event(self, pattern, arn, context):
        """Waits for an event that matches; binds its names."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        client = self.client_for(context.get("FUNCTION"))
        pages = client.get_paginator("get_durable_execution_history")
        while time.monotonic() < deadline:
            with contextlib.suppress(client.exceptions.ResourceNotFoundException):
                # An execution that another invokes has its name before it is there.
                history = pages.paginate(DurableExecutionArn=arn, IncludeExecutionData=True)
                for event in (event for page in history for event in page["Events"]):
                    if not differences(pattern, event, None):
                        return differences(pattern, event, context)
            time.sleep(PAUSE_SECONDS)
        return [f"no event came that matches {pattern}"]

    def check(self, validation):
        """The runner's hook: calls to make when the official part has passed."""
        thread, context, problems = self.running[validation.execution_arn]
        thread.join(PATIENCE_SECONDS)
        for name, value in validation.placeholders.items():
            if not context.has(name):
                context.bind(name, value)
        requirement = self.requirements[validation.function_name]
        for call in requirement.get("Checks", []):
            problems += self.make(call, context)
        return problems

    def make(self, call, context):
        """Makes a call when it is time for it; what is wrong with its answer."""
        name = call["Call"]
        if "After" in call:
            arn = context.substitute(call.get("In", "${ARN}"))
            try:
                problems = self.await_event(call["After"], arn, context)
            except Exception as error:
                # Whatever it is: it would be lost with the thread.
                problems = [f"{type(error).__name__}: {error}"]
            if problems:
                return [f"{name}: {problem[:PROBLEM_LENGTH_MAX]}" for problem in problems]
        deadline = time.monotonic() + call.get("Within", 0)
        while problems := self.attempt(call, context):
            if time.monotonic() > deadline:
                break
            time.sleep(PAUSE_SECONDS)
        return [f"{name}: {problem[:PROBLEM_LENGTH_MAX]}" for problem in problems]

    def attempt(self, call, context):
        asked = context.substitute(call.get("With", {}))
        try:
            answer = self.call(call["Call"], asked, context)
        except ClientError as error:
            code, wanted = error.response["Error"]["Code"], call.get("Error")
            return [] if code == wanted else [f"expected {wanted or 'an answer'}, got {error}"]
        except (Exception, SystemExit) as error:
            # Whatever it is: it would be lost with the thread.
            return [f"{type(error).__name__}: {error}"]
        if "Error" in call:
            return [f"expected {call['Error']}, got {answer}"]
        expected = call.get("Expect", {})
        # Names are bound by an answer that is right.
        return differences(expected, answer, copy_of(context)) or differences(expected, answer, context)

    def call(self, name, asked, context):
        place, client = self.places.get(context.get("FUNCTION"), (None, self.client))
        if name in POWERS:
            getattr(place, name.replace("-", "_"))(**asked)
            return {}
        if name == "signal":
            return signal(client, **{"Arn": context.get("ARN"), **asked})
        if name == "wait":
            time.sleep(asked["Seconds"])
            return {}
        if name == "count-events":
            pages = client.get_paginator("get_durable_execution_history")
            history = pages.paginate(DurableExecutionArn=context.get("ARN"))
            return dict(collections.Counter(event["EventType"] for page in history for event in page["Events"]))
        answer = getattr(client, name)(**asked)
        answer.pop("ResponseMetadata", None)
        if "Payload" in answer:
            answer["Payload"] = answer["Payload"].read().decode()
        return answer


def signal(client, Arn, Name, Payload):
    """Not in boto3: signals are ours."""
    arn, name = (urllib.parse.quote(part, safe="") for part in (Arn, Name))
    asked(client, "POST", f"/outlast/v1/executions/{arn}/signals/{name}", Payload.encode())
    return {}


def asked(client, method, path, body=None):
    """The answer to a request that boto3 does not know, as whoever the client is."""
    url = client.meta.endpoint_url + path
    request = AWSRequest(method, url, data=body)
    credentials, region = client._request_signer._credentials, client.meta.region_name
    SigV4Auth(credentials, "lambda", region).add_auth(request)
    request = urllib.request.Request(url, body, dict(request.headers), method=method)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.read()
    except urllib.error.HTTPError as error:
        code = error.headers.get("x-amzn-ErrorType", str(error.code))
        raise ClientError({"Error": {"Code": code, "Message": error.read().decode()}}, path) from error


def copy_of(context):
    copied = PlaceholderContext()
    for name, value in context.bindings.items():
        copied.bind(name, value)
    return copied


def differences(expected, actual, context):
    """What the official matcher has to say; names are bound in `context`, or forgotten."""
    if context is None:
        context = PlaceholderContext()
    matcher = EventHistoryMatcher(context=context)
    expected, surplus = without_absent(expected, actual, "answer")
    matched = matcher.match([{"EventId": 1, "is": expected}], [{"EventId": 1, "is": actual}])
    return surplus + [error.replace("Event[EventId=1].is", "answer") for error in matched.errors]


def without_absent(expected, actual, path):
    """What is expected to be there; and what is there though `${ABSENT}` says that it must not be."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        absent = {key for key, value in expected.items() if value == "${ABSENT}"}
        surplus = [f"{path}.{key}: there is {actual[key]!r}" for key in sorted(absent & actual.keys())]
        pairs = [(key, expected[key], actual.get(key)) for key in expected.keys() - absent]
    elif isinstance(expected, list) and isinstance(actual, list):
        surplus, pairs = [], [(at, *pair) for at, pair in enumerate(zip(expected, actual))]
        pairs += [(at, expected[at], None) for at in range(len(pairs), len(expected))]
    else:
        return expected, []
    present = {}
    for key, value, found in pairs:
        present[key], more = without_absent(value, found, f"{path}.{key}")
        surplus += more
    return (present if isinstance(expected, dict) else list(present.values())), surplus


def hooked(load, check):
    """The runner's way to find suites, each with our hook."""

    def load_with_hook(*asked, **more):
        registry = load(*asked, **more)
        for name, suite in registry.suites.items():
            registry.suites[name] = dataclasses.replace(suite, validation_hook=check)
        return registry

    return load_with_hook
