"""Java under `outlast dev`: python java.py PROJECT. The official runtime interface client, and a
handler that is not durable.
"""

import json
import sys
import time

from stand import Dev


def main():
    begun = time.monotonic()
    with Dev(sys.argv[1]) as dev:
        def call(event):
            reply = dev.client.invoke(FunctionName="Plain", Payload=json.dumps(event))
            return reply.get("FunctionError"), json.load(reply["Payload"])

        assert call({"n": 21}) == (None, {"n": 42, "function": "Plain"})
        error, document = call({"n": -1})
        assert error == "Unhandled" and document["errorMessage"] == "as it was told", document
        error, document = call({"exit": True})
        assert error == "Unhandled" and document["errorType"] == "Runtime.ExitError", document
        assert call({"n": 1}) == (None, {"n": 2, "function": "Plain"}), "it was not started again"
        assert any("aws-lambda-java-runtime-interface-client" in line for line in dev.log), dev.log
    print(f"    java: {time.monotonic() - begun:.1f} s", flush=True)


main()
