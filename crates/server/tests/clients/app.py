"""The handler of `examples/host_check.rs` for the Python runtime client.

    cargo run -p outlast-server --example host_check -- python -m awslambdaric app.handler
"""

import os
import time


def handler(event, context):
    token = event["CheckpointToken"]
    print("got", token, context.aws_request_id, context.tenant_id)
    if token == "fail":
        raise ValueError("it was told to")
    if token == "exit":
        os._exit(3)
    if token == "hang":
        time.sleep(100)
    if token == "big":
        return "x" * 7_000_000
    return {"Status": "SUCCEEDED", "Result": context.invoked_function_arn}
