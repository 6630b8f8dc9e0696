"""Every code with which the API says no, as boto3 and the AWS CLI see it.

`TABLE` says how each is provoked. That it has all of them is read from the server's sources.
"""

import json
import re
import sqlite3
from pathlib import Path
from urllib.parse import quote, urlsplit

from botocore import UNSIGNED

from serving import BACKGROUND_MAX, Api, Serve, unique
from stand import until

SOURCES = Path(__file__).parents[2] / "crates"
FILES = ["core/src/error.rs", "server/src/error.rs", "server/src/auth.rs", "server/src/api.rs"]
# Found among those names, and the type of an error inside an answer, not a code.
NO_CODES = {"ResourceNotReadyException"}
ROLE = "arn:aws:iam::000000000000:role/r"
# What the model of botocore has a class for.
MODELLED = {
    "CallbackTimeoutException", "DurableExecutionAlreadyStartedException",
    "InvalidParameterValueException", "InvalidRequestContentException",
    "PreconditionFailedException", "RequestTooLargeException", "ResourceConflictException",
    "ResourceNotFoundException", "ServiceException", "TooManyRequestsException",
}


def redirected(client, operation, change):
    """Sends the requests of one operation elsewhere, signed as they then are."""
    client.meta.events.register(f"before-sign.lambda.{operation}", lambda request, **_: change(request))
    return client


def to_own(path):
    """To a path of our own API, for the execution of the request."""

    def change(request):
        arn = urlsplit(request.url).path.split("/")[3]
        base = request.url.split("/2025-12-01")[0]
        request.url = f"{base}/outlast/v1/executions/{arn}/{path}"

    return change


def invalid_parameter(api):
    return lambda: api.client.invoke(FunctionName="play", Payload="[]")


def validation(api):
    return lambda: api.careless.get_durable_execution(DurableExecutionArn="not-an-arn")


def not_found(api):
    return lambda: api.client.invoke(FunctionName="nobody:1")


def callback_timeout(api):
    arn = api.start([{"callback": {}}])
    callback = api.callback(arn)
    api.stop(arn)
    return lambda: api.client.send_durable_execution_callback_heartbeat(CallbackId=callback)


def already_started(api):
    name = unique()
    api.start([], DurableExecutionName=name)
    return lambda: api.start([{"return": 1}], DurableExecutionName=name)


def too_many(api):
    """More calls that nobody waits for than there are places."""
    call = {"FunctionName": "nobody-works-here", "InvocationType": "Event"}
    for _ in range(BACKGROUND_MAX):
        assert api.client.invoke(**call)["StatusCode"] == 202
    return lambda: api.client.invoke(**call)


def too_large(api):
    payload = json.dumps("x" * 1_048_576)
    return lambda: api.client.invoke(
        FunctionName="play:$LATEST", InvocationType="Event", Payload=payload
    )


def not_json(api):
    return lambda: api.client.invoke(FunctionName="play:$LATEST", Payload="{")


def conflict(api):
    """Nobody waits longer than the server's patience; what was begun goes on."""
    script = json.dumps([{"wait": 300}])
    return lambda: api.client.invoke(FunctionName="play:$LATEST", Payload=script)


def not_held(api):
    """Our own operation, reached by a client that does not know it."""
    arn = api.start([{"wait": 300}])
    client = redirected(api.serve.client(), "StopDurableExecution", to_own("resume"))
    return lambda: client.stop_durable_execution(DurableExecutionArn=arn)


def serialization(api):
    def change(request):
        request.data = b"{"

    client = redirected(api.serve.client(), "StopDurableExecution", change)
    arn = api.start([{"wait": 300}])
    return lambda: client.stop_durable_execution(DurableExecutionArn=arn)


def moment(api):
    def change(request):
        request.params = {"StartedAfter": "yesterday"}

    client = redirected(api.serve.client(), "ListDurableExecutionsByFunction", change)
    return lambda: client.list_durable_executions_by_function(FunctionName="play")


def resource_conflict(api):
    return lambda: api.client.create_function(
        FunctionName="play", Role=ROLE, Code={"ZipFile": b"PK"}
    )


def precondition(api):
    return lambda: api.client.update_function_configuration(FunctionName="play", RevisionId="old")


def unknown(api):
    """An operation of the service that is none of ours."""
    return lambda: api.client.list_layers()


def other_origin(api):
    """Where everybody is let in, the pages of other sites are not."""

    def change(request):
        request.headers["Origin"] = "http://example.org"

    client = redirected(api.serve.client(), "ListFunctions", change)
    return lambda: client.list_functions()


def denied(api):
    return lambda: api.serve.client("viewer").stop_durable_execution(
        DurableExecutionArn=api.start([{"wait": 300}])
    )


def unsigned(api):
    return lambda: api.serve.client(signature_version=UNSIGNED).list_functions()


def half_signed(api):
    client = api.serve.client(signature_version=UNSIGNED)
    client = redirected_unsigned(client, "AWS4-HMAC-SHA256 Credential=nothing")
    return lambda: client.list_functions()


def redirected_unsigned(client, authorization):
    def change(request, **_):
        request.headers["Authorization"] = authorization

    client.meta.events.register("before-send.lambda.ListFunctions", change)
    return client


def wrong_secret(api):
    key, secret = api.serve.keys["admin"]
    return lambda: api.serve.client_with(key, secret[:-1] + "!").list_functions()


def unknown_key(api):
    _, secret = api.serve.keys["admin"]
    return lambda: api.serve.client_with("AKIDNOBODY", secret).list_functions()


# Code, status, how it is provoked; on a server that lets everybody in.
TABLE = [
    ("InvalidParameterValueException", 400, invalid_parameter),
    ("ValidationException", 400, validation),
    ("ResourceNotFoundException", 404, not_found),
    ("CallbackTimeoutException", 400, callback_timeout),
    ("DurableExecutionAlreadyStartedException", 409, already_started),
    ("TooManyRequestsException", 429, too_many),
    ("RequestTooLargeException", 413, too_large),
    ("InvalidRequestContentException", 400, not_json),
    ("ConflictException", 409, conflict),
    ("ConflictException", 409, not_held),
    ("SerializationException", 400, serialization),
    ("SerializationException", 400, moment),
    ("ResourceConflictException", 409, resource_conflict),
    ("PreconditionFailedException", 412, precondition),
    ("UnknownOperationException", 404, unknown),
]
OPEN = [("AccessDeniedException", 403, other_origin)]
# And on one with keys.
CLOSED = [
    ("AccessDeniedException", 403, denied),
    ("MissingAuthenticationTokenException", 403, unsigned),
    ("IncompleteSignatureException", 403, half_signed),
    ("InvalidSignatureException", 403, wrong_secret),
    ("UnrecognizedClientException", 403, unknown_key),
]


def every_code(api):
    rows = TABLE + (CLOSED if api.serve.keys else OPEN)
    for code, status, provoke in rows:
        ask = provoke(api)
        try:
            error = api.refused(code, ask)
        except AssertionError as failed:
            raise AssertionError(f"{provoke.__name__}: {failed}") from failed
        answered = error.response["ResponseMetadata"]["HTTPStatusCode"]
        assert answered == status, (provoke.__name__, answered)
        assert (type(error).__name__ == code) == (code in MODELLED), type(error)
    a_fault(api)
    forgotten(api)
    known = {code for code, _, _ in TABLE + OPEN + CLOSED} | {"ServiceException"}
    found = set()
    for file in [*FILES, *(f"server/src/api/{it.name}" for it in (SOURCES / "server/src/api").glob("*.rs"))]:
        text = (SOURCES / file).read_text().split("#[cfg(test)]")[0]
        found |= set(re.findall(r'"([A-Z]\w+Exception)"', text))
    assert found - NO_CODES == known, (found - NO_CODES) ^ known


def a_fault(api):
    """What is stored of one execution makes no sense: 500 for it, and all others go on."""
    if api.serve.keys:
        return
    with Serve() as serve:
        serve.play("play")
        other = Api(serve)
        broken, whole = other.start([{"return": 1}]), other.start([{"return": 2}])
        other.ended(broken), other.ended(whole)
        serve.stop()
        id = bytes.fromhex(broken.rsplit("/", 1)[1].replace("-", ""))
        with sqlite3.connect(serve.home / "data" / "index.db") as database:
            changed = database.execute(
                "UPDATE run SET bytes = zeroblob(length(bytes)) WHERE id = ?", (id,)
            )
            assert changed.rowcount > 0
            database.execute("DELETE FROM snapshot WHERE id = ?", (id,))
        database.close()
        serve.start()
        other = Api(serve)
        error = other.refused(
            "ServiceException", other.client.get_durable_execution, DurableExecutionArn=broken
        )
        assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 500
        assert other.describe(whole)["Result"] == "2"


def forgotten(api):
    """The id of a callback whose execution was deleted is well formed, and nobody's."""
    arn = api.start([{"callback": {}}])
    callback = api.callback(arn)
    api.stop(arn)
    client = redirected(api.serve.client(), "DeleteAlias", lambda request: deleting(request, arn))
    until("the deletion", lambda: deleted(client))
    for send in (
        api.client.send_durable_execution_callback_success,
        api.client.send_durable_execution_callback_failure,
        api.client.send_durable_execution_callback_heartbeat,
    ):
        api.refused("ResourceNotFoundException", send, CallbackId=callback)
    for ask in (
        api.client.get_durable_execution, api.client.get_durable_execution_history,
        api.client.stop_durable_execution,
    ):
        api.refused("ResourceNotFoundException", ask, DurableExecutionArn=arn)


def deleting(request, arn):
    base = request.url.split("/2015-03-31")[0]
    request.url = f"{base}/outlast/v1/executions/{quote(arn, safe='')}"


def deleted(client):
    try:
        client.delete_alias(FunctionName="play", Name="x")
        return True
    except client.exceptions.ClientError as error:
        # Its last invocation has not ended.
        assert error.response["Error"]["Code"] == "ConflictException", error
        return False


def until_refused(api, arn):
    """Waits until an execution is forgotten."""

    def gone():
        try:
            api.describe(arn)
            return False
        except api.client.exceptions.ResourceNotFoundException:
            return True

    until(f"the end of {arn}", gone)
