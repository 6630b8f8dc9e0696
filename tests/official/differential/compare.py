"""The same programs on an official SDK under `outlast dev` and on that SDK's own local runner:

    python compare.py SDK PROJECT SEED...        SDK is js or python; a seed may be FIRST-LAST

Prints what differs, with its seed; `--keep FOLDER` keeps what both sides said.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from generate import callbacks, program  # noqa: E402
from stand import Dev, until  # noqa: E402

# What is another in every run, or only a place in somebody's program.
PASSING = {
    "EventTimestamp", "EventId", "StartTimestamp", "EndTimestamp", "ScheduledEndTimestamp", "RequestId",
    "CallbackId", "DurableExecutionArn", "StackTrace", "Stack", "Truncated", "ExecutedVersion", "ExecutionTimeout",
    "Seed",
    # Of a text that may have a runner's own words in it.
    "Length",
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sdk", choices=["js", "python"])
    parser.add_argument("project", type=Path)
    parser.add_argument("seeds", nargs="+")
    parser.add_argument("--keep", type=Path)
    asked = parser.parse_args()
    seeds = [seed for text in asked.seeds for seed in span(text)]
    programs = [program(seed, asked.sdk) for seed in seeds]
    with tempfile.TemporaryDirectory() as folder:
        folder = asked.keep or Path(folder)
        folder.mkdir(exist_ok=True)
        with ThreadPoolExecutor() as pool:
            theirs = pool.submit(on_their_runner, asked.sdk, asked.project, programs, folder)
            ours = on_outlast(asked.project, programs, folder)
            theirs = theirs.result()
    failed = alone = 0
    for made in programs:
        seed = made["seed"]
        other = theirs.get(seed, {"broken": "no outcome"})
        if "broken" in other and "broken" not in ours[seed]:
            # A fault of their runner, which leaves nothing to compare with.
            alone += 1
            print(f"{asked.sdk} seed {seed} ended only here: {other['broken'].splitlines()[0]}")
            continue
        found = differences(asked.sdk, made, other, ours[seed])
        failed += bool(found)
        for line in found:
            print(f"{asked.sdk} seed {seed}: {line}")
    agree = len(programs) - failed - alone
    print(f"{asked.sdk}: {agree} of {len(programs)} programs agree, {failed} differ, {alone} ended only here")
    sys.exit(1 if failed else 0)


def span(text):
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def on_their_runner(sdk, project, programs, folder):
    source, target = folder / "programs", folder / "theirs"
    lines = [json.dumps({"program": it, "answers": callbacks(it["body"])}) for it in programs]
    source.write_text("\n".join(lines) + "\n")
    target.write_text("")
    command = ["node", "local.mjs"] if sdk == "js" else [sys.executable, "local.py"]
    log = folder / "log"
    with open(log, "w") as out:
        subprocess.run([*command, source, target], cwd=project, check=True, stdout=out, stderr=out)
    # Not splitlines(), to which U+2028 is an end as well.
    outcomes = [json.loads(line) for line in target.read_text().split("\n") if line]
    return {it["seed"]: it for it in outcomes}


def on_outlast(project, programs, folder):
    with Dev(project) as dev, ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(lambda it: run(dev, it), programs))
    (folder / "ours").write_text("\n".join(json.dumps(it, default=str) for it in outcomes) + "\n")
    return {it["seed"]: it for it in outcomes}


def run(dev, made):
    seed = {"seed": made["seed"]}
    try:
        if made["waited"]:
            reply = dev.client.invoke(FunctionName="Main:$LATEST", Payload=json.dumps(made))
            arn, body = reply["DurableExecutionArn"], reply["Payload"].read().decode()
        else:
            arn, body = dev.begin("Main", made), None
        answers, given = callbacks(made["body"]), set()
        done = until(f"the end of {arn}", lambda: answered(dev, arn, answers, given), 90)
    except Exception as error:
        return seed | {"broken": repr(error)}
    if body is not None and done["Status"] == "SUCCEEDED" and body != done.get("Result", ""):
        return seed | {"broken": f"the caller was told {clip(body)} instead of {clip(done.get('Result'))}"}
    return seed | {
        "status": done["Status"],
        "result": done.get("Result"),
        "error": done.get("Error"),
        "events": dev.history(arn),
    }


def answered(dev, arn, answers, given):
    """Answers what is asked; how the execution ended, or nothing yet."""
    if answers:
        events = dev.history(arn)
        names = {event.get("Id"): event.get("Name") for event in events}
        for event in events:
            if event["EventType"] != "CallbackStarted":
                continue
            # The callback of a waitForCallback has a name that the SDK made of its context's.
            name = event["Name"] if event.get("Name") in answers else names.get(event.get("ParentId"))
            callback = event["CallbackStartedDetails"]["CallbackId"]
            # A block that is retried asks once more.
            if name in answers and callback not in given:
                given.add(callback)
                give(dev.client, callback, **answers[name])
    done = dev.describe(arn)
    return None if done["Status"] == "RUNNING" else done


def give(client, callback, kind, text=None, error=None, submitted=False):
    if kind == "heartbeat":
        client.send_durable_execution_callback_heartbeat(CallbackId=callback)
    if kind in ("heartbeat", "success"):
        body = {} if text is None else {"Result": text.encode()}
        client.send_durable_execution_callback_success(CallbackId=callback, **body)
    if kind == "failure":
        client.send_durable_execution_callback_failure(CallbackId=callback, Error=error)


def differences(sdk, made, theirs, ours):
    if "broken" in theirs or "broken" in ours:
        return [f"theirs: {theirs.get('broken', 'fine')}; ours: {ours.get('broken', 'fine')}"]
    found = attempts(ours["events"])
    theirs, ours = Known(sdk).clean(theirs), Known(sdk).clean(ours)
    for what in ("Status", "Result", "Error"):
        if theirs.get(what) != ours.get(what):
            found.append(f"{what}: theirs {clip(theirs.get(what))}, ours {clip(ours.get(what))}")
    found += operations(theirs["Events"], ours["Events"])
    if is_sequential(made["body"]):
        one, other = order(theirs["Events"]), order(ours["Events"])
        if one != other and not found:
            found.append(f"order: {apart(one, other)}")
    return found


def is_sequential(body):
    """Whether every operation waits for the one before, so that events have one order."""
    apart = {"map", "parallel", "together", "callback", "waitCallback", "invoke"}
    return all(node["op"] not in apart and is_sequential(node.get("body", [])) for node in body)


def order(events):
    inside = [event for event in events if not event["EventType"].startswith("Execution")]
    return [f"{event['EventType']} {event.get('Name')}" for event in inside]


def attempts(events):
    """The local runners do not count attempts as the service does, so ours are counted here."""
    found, ends = [], {}
    for event in events:
        if event["EventType"] in ("StepSucceeded", "StepFailed"):
            ends[event["Id"]] = ends.get(event["Id"], 0) + 1
            counted = event[f"{event['EventType']}Details"]["RetryDetails"]["CurrentAttempt"]
            if counted != ends[event["Id"]]:
                found.append(f"{label([event])}: attempt {counted} instead of {ends[event['Id']]}")
    return found


def operations(theirs, ours):
    """By id: the SDKs number operations by their place, so both sides have the same ids."""
    theirs, ours = by_operation(theirs), by_operation(ours)
    found = []
    for operation in theirs.keys() | ours.keys():
        one, other = theirs.get(operation, []), ours.get(operation, [])
        for index in range(max(len(one), len(other))):
            left = one[index] if index < len(one) else None
            right = other[index] if index < len(other) else None
            if "WaitSucceeded" in ((left or right)["EventType"], (right or left)["EventType"]) and not (left and right):
                # One that nobody waited for any more may still be open at the end.
                continue
            if left != right:
                found.append(f"event {index} of {label(one or other)}: {apart(left, right)}")
                break
    return sorted(found)


def apart(left, right, path=""):
    """Where two values begin to differ."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted(left.keys() | right.keys()):
            if left.get(key) != right.get(key):
                return apart(left.get(key), right.get(key), f"{path}.{key}")
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for index, (one, other) in enumerate(zip(left, right)):
            if one != other:
                return apart(one, other, f"{path}[{index}]")
    return f"{path} theirs {clip(left)}, ours {clip(right)}"


def label(events):
    return f"{events[0].get('SubType')} {events[0].get('Name')}"


def by_operation(events):
    found = {}
    for event in events:
        kind = event["EventType"]
        if kind != "InvocationCompleted" and not kind.startswith("Execution"):
            found.setdefault(event["Id"], []).append(event)
    return found


class Known:
    """Takes out what is another in every run, and what a local runner is known not to say."""

    def __init__(self, sdk):
        self.sdk = sdk

    def clean(self, value):
        if isinstance(value, dict):
            cleaned = {key[0].upper() + key[1:] if key else key: self.clean(it) for key, it in value.items()}
            kept = {key: it for key, it in cleaned.items() if key not in PASSING and it not in (None, {}, [])}
            return self.event(kept) if "EventType" in kept else kept
        if isinstance(value, list):
            return [self.clean(it) for it in value]
        return self.text(value) if isinstance(value, str) else value

    def event(self, event):
        details = event.get(f"{event['EventType']}Details", {})
        if "RetryDetails" in details:
            # One runner counts retries instead of attempts, or tells the last attempt's delay as 0.
            delay = details.pop("RetryDetails").get("NextAttemptDelaySeconds")
            if delay:
                details["RetryDetails"] = delay
        if event["EventType"] == "ChainedInvokeStarted" and self.sdk == "js":
            # Its function and input are empty texts there.
            details.clear()
        if event["EventType"] == "CallbackStarted" and self.sdk == "python":
            details.clear()
        if event.get("SubType") == "WaitForCondition" and "RetryDetails" in details and self.sdk == "python":
            # The state of a check that goes on is not told there.
            details.pop("Result", None)
        if event["EventType"] == "CallbackTimedOut" and self.sdk == "js":
            details["Error"]["Payload"].pop("ErrorType", None)
        if not details:
            event.pop(f"{event['EventType']}Details", None)
        return event

    def text(self, text):
        try:
            told = json.loads(text)
        except ValueError:
            told = None
        if isinstance(told, (dict, list)):
            return self.clean(told)
        if isinstance(told, str):
            # Characters may be escaped or not.
            return told
        # The JavaScript runner has no type for these.
        if self.sdk == "js" and text in ("Callback.Timeout", "Callback.Heartbeat"):
            return "Error"
        # The type of an error of a function that is not durable has no module, as on Lambda. A
        # runner's advice; a name without its qualifier.
        text = text.removeprefix("app.")
        return text.partition(". Register it with ")[0].removesuffix(":$LATEST")


def clip(value):
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 300 else f"{text[:300]}... ({len(text)})"


main()
