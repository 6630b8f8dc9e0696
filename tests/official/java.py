"""Java under `outlast dev`: python java.py PROJECT COMMAND... The official runtime interface client
with a handler that is not durable, and the AWS SDK for Java as a client, which the command is.
"""

import json
import sys
import time

from stand import Dev


def plain(dev):
    def call(event):
        reply = dev.client.invoke(FunctionName="Plain", Payload=json.dumps(event))
        return reply.get("FunctionError"), json.load(reply["Payload"])

    assert call({"n": 21}) == (None, {"n": 42, "function": "Plain"})
    error, document = call({"n": -1})
    assert error == "Unhandled" and document["errorMessage"] == "as it was told", document
    error, document = call({"exit": True})
    assert error == "Unhandled" and document["errorType"] == "Runtime.ExitError", document
    assert call({"n": 1}) == (None, {"n": 2, "function": "Plain"}), "it was not started again"


def main():
    with Dev(sys.argv[1]) as dev:
        begun = time.monotonic()
        plain(dev)
        print(f"    java plain: {time.monotonic() - begun:.1f} s", flush=True)
        dev.try_with(sys.argv[2:])
        # All of them unpack the same file when they start, and only the one that was told to died.
        ended = [line for line in dev.log if "! the process ended" in line]
        assert len(ended) == 1 and ended[0].startswith("Plain"), ended


main()
