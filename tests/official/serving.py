"""`outlast serve` with functions that do what their input says, for clients to be tried on.

The handlers are played here, by the Runtime API and boto3 alone: no SDK has a say in what reaches
the server. `play` and its like are played by threads; `hand` is played by whoever tests.
"""

import http.client
import json
import shutil
import signal
import subprocess
import tempfile
import threading
from pathlib import Path
from urllib.parse import quote

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from stand import OUTLAST, PATIENCE_SECONDS, new_key, until

RUNTIME = "2018-06-01/runtime"
FUNCTIONS = {
    "play": {"DurableConfig": {"ExecutionTimeout": 600, "RetentionPeriodInDays": 1}, "Timeout": 60},
    "hand": {"DurableConfig": {"ExecutionTimeout": 600}, "Timeout": 60},
    "quick": {"DurableConfig": {"ExecutionTimeout": 1}, "Timeout": 60},
    "long-enough": {"DurableConfig": {"ExecutionTimeout": 900}, "Timeout": 60},
    "too-long": {"DurableConfig": {"ExecutionTimeout": 901}, "Timeout": 60},
    "plain": {"Timeout": 5},
    "play-for": {
        "DurableConfig": {"ExecutionTimeout": 600}, "Timeout": 60,
        "TenancyConfig": {"TenantIsolationMode": "PER_TENANT"},
    },
    "plain-for": {"Timeout": 5, "TenancyConfig": {"TenantIsolationMode": "PER_TENANT"}},
    "nobody-works-here": {"Timeout": 5},
}
# Places for calls that nobody waits for, of one function: a quarter of all. One fewer than the test
# takes, so that the last one is refused.
BACKGROUND_MAX = 2
CONFIG = f"[limits]\nbackground_max = {4 * BACKGROUND_MAX}\nsynchronous_seconds_max = 3\n"


class Serve:
    """`outlast serve`, open to this machine, or with keys for every role."""

    def __init__(self, keys=False, options=()):
        self.home = Path(tempfile.mkdtemp(prefix="outlast-serve-"))
        self.keys = {role: self._make_key(role) for role in ROLES} if keys else {}
        (self.home / "functions.json").write_text(json.dumps(FUNCTIONS))
        (self.home / "config.toml").write_text(CONFIG)
        self.options = options if keys else ("--dev", *options)
        self.listen = "127.0.0.1:0"
        self.players = []
        self.start()

    def _make_key(self, role):
        made = subprocess.run(
            [OUTLAST, "--json", "keys", "create", "--role", role, "--data", str(self.home / "data")],
            capture_output=True, text=True, check=True,
        )
        made = json.loads(made.stdout)
        return made["access_key_id"], made["secret_access_key"]

    def start(self):
        self.log = open(self.home / "log", "ab")
        self.process = subprocess.Popen(
            [
                OUTLAST, "--json", "serve", "--listen", self.listen,
                "--data", str(self.home / "data"), "--config", str(self.home / "config.toml"),
                "--functions", str(self.home / "functions.json"), *self.options,
            ],
            stdout=subprocess.PIPE, stderr=self.log, text=True,
        )
        first = self.process.stdout.readline()
        assert first, "it did not start:\n" + (self.home / "log").read_text()
        self.endpoint = json.loads(first)["endpoint"]
        self.listen = self.endpoint.removeprefix("http://")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(30)
        assert code == 0, f"it ended with {code}:\n" + (self.home / "log").read_text()[-3000:]

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        for player in self.players:
            player.ended = True
        if error is None:
            self.stop()
            self.log.close()
            shutil.rmtree(self.home)
        else:
            self.process.kill()
            print((self.home / "log").read_text()[-3000:])

    def client(self, role="admin", **config):
        """A client with the key of a role, where keys are needed."""
        key, secret = self.keys.get(role, ("dev", "dev"))
        return self.client_with(key, secret, **config)

    def client_with(self, key, secret, **config):
        settings = {"retries": {"total_max_attempts": 1}, "read_timeout": PATIENCE_SECONDS}
        return boto3.client(
            "lambda", endpoint_url=self.endpoint, region_name="us-east-1",
            aws_access_key_id=key, aws_secret_access_key=secret,
            config=Config(**{**settings, **config}),
        )

    def play(self, function, workers=1):
        for _ in range(workers):
            player = Player(self, function)
            self.players.append(player)
            player.start()


ROLES = ("admin", "operator", "viewer", "worker")


class Worker:
    """Asks for the calls of one function, as runtime clients do, for so many seconds."""

    def __init__(self, serve, function, seconds=None):
        self.seconds = seconds
        self.serve = serve
        self.path = f"/functions/{quote(function)}/{RUNTIME}"
        self.client = serve.client("worker", parameter_validation=False)
        # All players are one process, which would else be kept for one tenant.
        self.headers = {"Outlast-Tenants": "any"}
        if serve.keys:
            self.headers["Authorization"] = "Bearer " + ".".join(serve.keys["worker"])
        self.connection = None

    def ask(self, method, path, body=None):
        if self.connection is None:
            self.connection = http.client.HTTPConnection(self.serve.listen, timeout=self.seconds)
        try:
            self.connection.request(method, f"{self.path}/{path}", body, self.headers)
            answer = self.connection.getresponse()
            return answer.status, dict(answer.headers), answer.read()
        except (OSError, http.client.HTTPException):
            self.connection = None
            raise

    def next(self):
        status, headers, body = self.ask("GET", "invocation/next")
        assert status == 200, (status, body)
        headers = {name.lower(): value for name, value in headers.items()}
        return Call(self, headers, json.loads(body))


class Call:
    """One invocation that a worker has."""

    def __init__(self, worker, headers, event):
        self.worker = worker
        self.client = worker.client
        self.headers = headers
        self.id = headers["lambda-runtime-aws-request-id"]
        self.event = event
        self.operations = {}
        if self.is_durable:
            self.arn = event["DurableExecutionArn"]
            self.token = event["CheckpointToken"]
            operations = event["InitialExecutionState"]["Operations"]
            self.operations = {it["Id"]: it for it in operations}
            self.input = json.loads(operations[0]["ExecutionDetails"]["InputPayload"])

    @property
    def is_durable(self):
        return isinstance(self.event, dict) and "CheckpointToken" in self.event

    def checkpoint(self, *updates, **more):
        reply = self.client.checkpoint_durable_execution(
            DurableExecutionArn=self.arn, CheckpointToken=self.token, Updates=list(updates), **more
        )
        self.token = reply.get("CheckpointToken")
        changed = reply["NewExecutionState"]["Operations"]
        self.operations.update({it["Id"]: it for it in changed})
        return reply

    def answer(self, output):
        body = output if isinstance(output, bytes) else json.dumps(output).encode()
        return self.worker.ask("POST", f"invocation/{self.id}/response", body)

    def succeed(self, result=None):
        return self.answer({"Status": "SUCCEEDED", **({} if result is None else {"Result": result})})

    def pend(self):
        return self.answer({"Status": "PENDING"})

    def fail(self, message):
        """As a runtime reports what a handler raised."""
        body = json.dumps({"errorMessage": message, "errorType": "Raised", "stackTrace": []})
        return self.worker.ask("POST", f"invocation/{self.id}/error", body.encode())


class Player(threading.Thread):
    """A worker whose handlers do what their input says, one operation after another:

    `{"step": VALUE}`, `{"wait": SECONDS}`, `{"callback": OPTIONS}`, `{"invoke": FUNCTION}`,
    `{"return": VALUE}`, `{"fail": MESSAGE}`. Functions that are not durable return what they get
    and what they are told besides, or raise `{"raise": MESSAGE}`.
    """

    def __init__(self, serve, function):
        super().__init__(daemon=True)
        self.worker = Worker(serve, function)
        self.ended = False

    def run(self):
        while not self.ended:
            try:
                call = self.worker.next()
                self.durable(call) if call.is_durable else self.plain(call)
            except (OSError, http.client.HTTPException, AssertionError, BotoCoreError):
                # The server is gone, or does not know the function yet or any more.
                if not self.ended:
                    threading.Event().wait(0.1)
            except ClientError as error:
                # Somebody has stopped what was being played.
                assert "Invalid checkpoint token" in str(error), error
                call.pend()

    def plain(self, call):
        if isinstance(call.event, dict) and "raise" in call.event:
            call.fail(call.event["raise"])
            return
        told = {name: call.headers.get(name) for name in call.headers if name.startswith("lambda-")}
        call.answer({"event": call.event, "told": told})

    def durable(self, call):
        for index, line in enumerate(call.input):
            (kind, value), *_ = line.items()
            if kind == "return":
                call.succeed(json.dumps(value))
                return
            if kind == "fail":
                call.answer({"Status": "FAILED", "Error": {"ErrorType": "Told", "ErrorMessage": value}})
                return
            if kind == "told":
                call.succeed(json.dumps({it: call.headers.get(it) for it in call.headers}))
                return
            operation = f"op-{index}"
            if operation not in call.operations:
                call.checkpoint(*updates(operation, kind, value))
            if call.operations[operation]["Status"] == "STARTED":
                call.pend()
                return
        call.succeed()


def updates(operation, kind, value):
    start = {"Id": operation, "Action": "START"}
    if kind == "step":
        step = {"Id": operation, "Type": "STEP", "Name": operation}
        return {**step, "Action": "START"}, {**step, "Action": "SUCCEED", "Payload": json.dumps(value)}
    if kind == "wait":
        return ({**start, "Type": "WAIT", "WaitOptions": {"WaitSeconds": value}},)
    if kind == "callback":
        return ({**start, "Type": "CALLBACK", "CallbackOptions": value},)
    assert kind == "invoke", kind
    options = {"FunctionName": value}
    return ({**start, "Type": "CHAINED_INVOKE", "ChainedInvokeOptions": options, "Payload": "[]"},)


class Api:
    """What tests ask of a server, with the client of a role."""

    def __init__(self, serve, role="admin"):
        self.serve = serve
        self.client = serve.client(role)
        # Sends what the client itself would not let pass.
        self.careless = serve.client(role, parameter_validation=False)
        self.worker = Worker(serve, "hand", PATIENCE_SECONDS)

    def start(self, script, function="play:$LATEST", **more):
        reply = self.client.invoke(
            FunctionName=function, InvocationType="Event", Payload=json.dumps(script), **more
        )
        assert reply["StatusCode"] == 202, reply
        return reply["DurableExecutionArn"]

    def hand(self, script=(), **more):
        """A call of `hand`, started for whoever asks."""
        arn = self.start(list(script), "hand:$LATEST", **more)
        call = self.worker.next()
        while call.arn != arn:
            # What an earlier test left behind.
            call.succeed()
            call = self.worker.next()
        return call

    def describe(self, arn):
        return self.client.get_durable_execution(DurableExecutionArn=arn)

    def history(self, arn, **more):
        reply = self.client.get_durable_execution_history(
            DurableExecutionArn=arn, MaxItems=1000, **more
        )
        return reply["Events"]

    def event(self, arn, kind):
        def find():
            return next((it for it in self.history(arn) if it["EventType"] == kind), None)

        return until(f"{kind} in {arn}", find)[f"{kind}Details"]

    def callback(self, arn):
        return self.event(arn, "CallbackStarted")["CallbackId"]

    def ended(self, arn, status="SUCCEEDED"):
        def closed():
            described = self.describe(arn)
            return described if described["Status"] != "RUNNING" else None

        described = until(f"the end of {arn}", closed)
        assert described["Status"] == status, described
        return described

    def stop(self, arn):
        return self.client.stop_durable_execution(DurableExecutionArn=arn)

    def refused(self, code, call, **arguments):
        """The service's exception: by its code, and by its class if the model has one."""
        try:
            call(**arguments)
        except self.client.exceptions.ClientError as error:
            known = error.response["Error"]
            assert known["Code"] == code, f"{known} instead of {code}"
            # Classes belong to their client; by name they can be compared over all of them.
            modelled = self.client.exceptions.from_code(code).__name__
            assert type(error).__name__ == modelled, (type(error), modelled)
            assert known["Message"], error.response
            assert error.response["ResponseMetadata"]["RequestId"], error.response
            return error
        raise AssertionError(f"{code} was expected")


def unique(prefix="x"):
    return f"{prefix}-{new_key()[:12]}"


def skip(serve, call, seconds):
    """Moves the clock of a server that is tested, with an execution that waits."""
    options = {"WaitSeconds": seconds}
    call.checkpoint({"Id": "long", "Type": "WAIT", "Action": "START", "WaitOptions": options})
    call.pend()
    path = f"/outlast/v1/executions/{quote(call.arn, safe='')}/clock"

    def ask(method, query=""):
        connection = http.client.HTTPConnection(serve.listen)
        connection.request(method, path + query)
        return json.load(connection.getresponse())

    def resting():
        clock = ask("GET")
        return clock if clock["Resting"] else None

    clock = until("the clock to stand still", resting)
    ask("POST", f"?Version={clock['Version']}&Until={clock['NowMillis'] + seconds * 1000}")
