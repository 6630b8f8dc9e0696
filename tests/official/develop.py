"""`outlast dev` itself: reload, crashes, what is missing, and mistakes in files. Plain functions, no
SDK: only Python and Node as they come.
"""

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

from stand import OUTLAST, Dev, until

TEMPLATE = """\
Parameters:
  Greeting: {Type: String, Default: hello}
Globals:
  Function:
    Timeout: 10
    Environment: {Variables: {GREETING: !Ref Greeting}}
Resources:
  Py:
    Type: AWS::Serverless::Function
    Properties: {Handler: app.handler, Runtime: python3.13, CodeUri: py}
  Js:
    Type: AWS::Serverless::Function
    Properties: {Handler: app.handler, Runtime: nodejs22.x, CodeUri: js}
  Missing:
    Type: AWS::Serverless::Function
    Properties: {Handler: app.handler, Runtime: provided.al2023, CodeUri: rs}
"""
PY = """\
import os, sys, threading
def say(number):
    for _ in range(100):
        print("thread", number, flush=True)
def handler(event, context):
    threads = [threading.Thread(target=say, args=[number]) for number in range(event.get("threads", 0))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if event.get("exit"):
        os._exit(3)
    if event.get("raise"):
        raise KeyError("no")
    print("seen", event, file=sys.stderr)
    assert context.get_remaining_time_in_millis() > 0 and context.aws_request_id
    return [os.environ["GREETING"], "py", VERSION]
"""
JS = """\
exports.handler = (event, context, callback) => {
  if (event.exit) process.exit(3);
  if (event.raise) throw new TypeError("no");
  console.log("seen", JSON.stringify(event), context.getRemainingTimeInMillis() > 0);
  callback(null, [process.env.GREETING, "js", VERSION]);
};
"""


def project():
    folder = Path(tempfile.mkdtemp(prefix="outlast-project-"))
    for name in ("py", "js", "rs"):
        (folder / name).mkdir()
    (folder / "template.yaml").write_text(TEMPLATE)
    (folder / "py/app.py").write_text(PY.replace("VERSION", "1"))
    (folder / "js/app.js").write_text(JS.replace("VERSION", "1"))
    (folder / "rs/Cargo.toml").write_text("")
    return folder


def call(dev, function, event=None):
    reply = dev.client.invoke(FunctionName=function, Payload=json.dumps(event or {}))
    return reply.get("FunctionError"), json.load(reply["Payload"])


def said(dev, text):
    return until(text, lambda: [line for line in dev.log if text in line])


def calls_and_errors(dev):
    for function, kind in (("Py", "KeyError"), ("Js", "TypeError")):
        assert call(dev, function) == (None, ["hello", function.lower(), 1])
        error, document = call(dev, function, {"raise": True})
        assert error == "Unhandled" and document["errorType"] == kind, document
    said(dev, "Py      | seen")
    said(dev, "Js      | seen")
    said(dev, "Missing | ! not started: there is no")
    said(dev, "run: cargo lambda build --manifest-path")


def whole_lines(dev):
    assert call(dev, "Py", {"threads": 4})[0] is None
    lines = lambda: [line.split("|")[-1].strip() for line in dev.log if "| thread" in line]
    wanted = sorted(f"thread {number}" for number in range(4) for _ in range(100))
    until("lines of threads that are whole", lambda: sorted(lines()) == wanted)


def crashes(dev):
    for function in ("Py", "Js"):
        error, document = call(dev, function, {"exit": True})
        assert error == "Unhandled" and document["errorType"] == "Runtime.ExitError", document
        assert call(dev, function)[0] is None, "it was not started again"
    said(dev, "! the process ended with exit status: 3")


def reloads(dev, folder):
    (folder / "py/app.py").write_text(PY.replace("VERSION", "2"))
    (folder / "js/app.js").write_text(JS.replace("VERSION", "2"))
    for function in ("Py", "Js"):
        until("the new code", lambda: call(dev, function) == (None, ["hello", function.lower(), 2]))
    (folder / "py/app.py").write_text("import aws_durable_execution_sdk_python_\n")
    said(dev, "-m pip install aws_durable_execution_sdk_python_")
    (folder / "js/app.js").write_text("require('nobody-has-this');\n")
    said(dev, "npm install --prefix")
    (folder / "py/app.py").write_text(PY.replace("VERSION", "3"))
    (folder / "js/app.js").write_text(JS.replace("VERSION", "3"))
    (folder / "template.yaml").write_text(TEMPLATE.replace("Default: hello", "Default: bye"))
    for function in ("Py", "Js"):
        until("the new greeting", lambda: call(dev, function) == (None, ["bye", function.lower(), 3]))
    (folder / "template.yaml").write_text(TEMPLATE.replace("Resources:\n", "Resources: [\n"))
    said(dev, "template.yaml:")
    assert call(dev, "Py")[0] is None, "a mistake in the file stopped what runs"


def refused(folder, words, *options):
    done = subprocess.run(
        [OUTLAST, "dev", str(folder), "--listen", "127.0.0.1:0", *options],
        capture_output=True, text=True, timeout=20,
    )
    assert done.returncode == 1, done
    assert all(word in done.stderr for word in words), done.stderr


def mistakes(folder):
    refused(folder, ["template.yaml:", "this is not YAML"])
    (folder / "template.yaml").write_text(TEMPLATE.replace(", Default: hello", ""))
    refused(folder, ["template.yaml:2:", "--parameter Greeting=VALUE"])
    (folder / "template.yaml").write_text(TEMPLATE)
    refused(folder, ["--parameter Other"], "--parameter", "Other=1")
    (folder / "template.yaml").write_text(TEMPLATE.replace("!Ref Greeting", "!Ref Greting"))
    refused(folder, ["template.yaml:6:", "Greting"])
    (folder / "template.yaml").unlink()
    refused(folder, ["--template FILE"])


def main():
    folder = project()
    environment = {"VIRTUAL_ENV": ""}
    with Dev(folder, environment) as dev:
        for part in (calls_and_errors, whole_lines, crashes):
            part(dev)
        reloads(dev, folder)
    mistakes(folder)
    (folder / "template.yaml").write_text(TEMPLATE)
    with Dev(folder, environment, ["--parameter", "Greeting=hi", "--workers", "1"]) as dev:
        assert call(dev, "Py") == (None, ["hi", "py", 3])


begun = time.monotonic()
main()
print(f"    develop: {time.monotonic() - begun:.1f} s", flush=True)
