"""Runs a Python handler for Outlast, over the Lambda Runtime API. Needs nothing but Python.

Started by `outlast dev` with the environment of a Lambda function. It asks for an invocation, calls
the handler, answers, and asks again. It ends when nobody answers any more.
"""

import atexit
import http.client
import importlib
import io
import json
import logging
import os
import sys
import threading
import time
import traceback
from types import SimpleNamespace

BASE = "/2018-06-01/runtime"
# What a module that is missing is called where packages come from.
PACKAGES = {
    "aws_durable_execution_sdk_python": "aws-durable-execution-sdk-python",
    "boto3": "boto3",
    "botocore": "boto3",
    "yaml": "pyyaml",
    "dateutil": "python-dateutil",
}


class Context:
    """What a handler gets beside its event."""

    def __init__(self, headers):
        environment = os.environ
        self.aws_request_id = headers["Lambda-Runtime-Aws-Request-Id"]
        self.invoked_function_arn = headers.get("Lambda-Runtime-Invoked-Function-Arn")
        self.tenant_id = headers.get("Lambda-Runtime-Aws-Tenant-Id")
        self.function_name = environment.get("AWS_LAMBDA_FUNCTION_NAME")
        self.function_version = environment.get("AWS_LAMBDA_FUNCTION_VERSION")
        self.memory_limit_in_mb = environment.get("AWS_LAMBDA_FUNCTION_MEMORY_SIZE")
        self.log_group_name = environment.get("AWS_LAMBDA_LOG_GROUP_NAME")
        self.log_stream_name = environment.get("AWS_LAMBDA_LOG_STREAM_NAME")
        self.identity = SimpleNamespace(cognito_identity_id=None, cognito_identity_pool_id=None)
        self.client_context = client_context(headers.get("Lambda-Runtime-Client-Context"))
        self._deadline_ms = int(headers.get("Lambda-Runtime-Deadline-Ms", "0"))

    def get_remaining_time_in_millis(self):
        return max(0, self._deadline_ms - int(time.time() * 1000))

    def log(self, message):
        sys.stdout.write(str(message))


def client_context(text):
    if not text:
        return None
    said = json.loads(text)
    client = said.get("client") or {}
    return SimpleNamespace(
        custom=said.get("custom"),
        env=said.get("env"),
        client=SimpleNamespace(**{str(name): value for name, value in client.items()}),
    )


class Api:
    """One connection to whoever has the invocations."""

    def __init__(self, address):
        self._address = address
        self._connection = None

    def next(self):
        response, body = self._request("GET", "/invocation/next", None, {})
        if response.status != 200:
            raise ConnectionError(f"no invocation: {response.status} {body[:200]!r}")
        return response.headers, body

    def answer(self, request, body):
        self._request("POST", f"/invocation/{request}/response", body, {})

    def fail(self, path, document):
        headers = {"Lambda-Runtime-Function-Error-Type": document["errorType"]}
        self._request("POST", path, json.dumps(document).encode(), headers)

    def _request(self, method, path, body, headers):
        if self._connection is None:
            self._connection = http.client.HTTPConnection(self._address)
        self._connection.request(method, BASE + path, body, headers)
        response = self._connection.getresponse()
        return response, response.read()


def error_document(error):
    frames = traceback.extract_tb(error.__traceback__)
    # The first frame is this file's.
    stack = traceback.format_list(frames[1:])
    return {"errorMessage": str(error), "errorType": type(error).__name__, "stackTrace": stack}


def load(name):
    module, _, attribute = name.rpartition(".")
    if not module:
        raise ValueError(f"the handler {name!r} is not written as MODULE.FUNCTION")
    root = os.environ.get("LAMBDA_TASK_ROOT", ".")
    sys.path.insert(0, root)
    loaded = importlib.import_module(module.replace("/", "."))
    handler = getattr(loaded, attribute, None)
    if handler is None:
        raise ValueError(f"the module {module} has no {attribute}: correct Handler, or define it")
    return handler


def remedy(error):
    """The command that gets what is missing."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return None
    root = os.environ.get("LAMBDA_TASK_ROOT", ".")
    missing = error.name.partition(".")[0]
    requirements = os.path.join(root, "requirements.txt")
    if missing in PACKAGES:
        what = PACKAGES[missing]
    elif os.path.exists(requirements):
        what = f"-r {requirements}"
    else:
        what = missing
    return f"the module {error.name} is missing; run: {sys.executable} -m pip install {what}"


class JsonLines(logging.Formatter):
    """One JSON object per line, with the fields that whoever logs adds."""

    USUAL = {*vars(logging.makeLogRecord({})), "message", "asctime"}

    def format(self, record):
        fields = {key: value for key, value in vars(record).items() if key not in self.USUAL}
        fields["timestamp"] = self.formatTime(record, "%Y-%m-%dT%H:%M:%SZ")
        fields["level"] = record.levelname
        fields["message"] = record.getMessage()
        fields["logger"] = record.name
        if record.exc_info:
            fields["stackTrace"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False, default=str)


JsonLines.converter = time.gmtime


class WholeLines(io.TextIOWrapper):
    """A stream in which lines are whole, although threads write at the same time.

    `print` writes a text and the end of its line one after the other.
    """

    def __init__(self, stream):
        super().__init__(
            stream.buffer, encoding=stream.encoding, errors=stream.errors, line_buffering=True
        )
        # By thread: the line that it has begun.
        self._begun = {}
        atexit.register(self._finish)

    def write(self, text):
        lines, end, rest = (self._begun.pop(threading.get_ident(), "") + text).rpartition("\n")
        if rest:
            self._begun[threading.get_ident()] = rest
        if end:
            super().write(lines + end)
        return len(text)

    def flush(self):
        begun = self._begun.pop(threading.get_ident(), "")
        if begun:
            super().write(begun)
        super().flush()

    def _finish(self):
        for begun in self._begun.values():
            super().write(begun)
        self._begun = {}


def set_up_output():
    sys.stdout = WholeLines(sys.stdout)
    sys.stderr = WholeLines(sys.stderr)
    handler = logging.StreamHandler(sys.stdout)
    is_json = os.environ.get("AWS_LAMBDA_LOG_FORMAT", "").upper() == "JSON"
    text = logging.Formatter("[%(levelname)s] %(name)s: %(message)s")
    handler.setFormatter(JsonLines() if is_json else text)
    root = logging.getLogger()
    root.addHandler(handler)
    level = os.environ.get("AWS_LAMBDA_LOG_LEVEL", "INFO" if is_json else "").upper()
    if level in ("DEBUG", "INFO", "WARN", "WARNING", "ERROR", "CRITICAL"):
        root.setLevel(level)


def encode(result):
    try:
        return json.dumps(result, ensure_ascii=False, default=plain).encode()
    except UnicodeEncodeError:
        # Half a character, which only an escape can say.
        return json.dumps(result, default=plain).encode()


def plain(value):
    if type(value).__name__ == "Decimal":
        return int(value) if value == value.to_integral_value() else float(value)
    raise TypeError(f"a handler's answer must be JSON, and {type(value).__name__} is not")


def invoke(handler, api):
    headers, body = api.next()
    trace = headers.get("Lambda-Runtime-Trace-Id")
    if trace:
        os.environ["_X_AMZN_TRACE_ID"] = trace
    request = headers["Lambda-Runtime-Aws-Request-Id"]
    try:
        answer = encode(handler(json.loads(body), Context(headers)))
    except Exception as error:  # noqa: BLE001 - whatever it is, somebody waits for the answer
        traceback.print_exc()
        api.fail(f"/invocation/{request}/error", error_document(error))
    else:
        api.answer(request, answer)


def main():
    set_up_output()
    api = Api(os.environ["AWS_LAMBDA_RUNTIME_API"])
    try:
        handler = load(os.environ["_HANDLER"])
    except BaseException as error:  # noqa: BLE001 - a module may raise anything
        traceback.print_exc()
        advice = remedy(error)
        if advice:
            print(advice, file=sys.stderr)
        document = error_document(error)
        if isinstance(error, ImportError):
            document["errorType"] = "Runtime.ImportModuleError"
            document["errorMessage"] = advice or document["errorMessage"]
        api.fail("/init/error", document)
        sys.exit(1)
    try:
        while True:
            invoke(handler, api)
    except (ConnectionError, http.client.HTTPException):
        # Whoever had the invocations is gone.
        sys.exit(0)


main()
