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
    "CallbackId", "DurableExecutionArn", "StackTrace", "Truncated", "ExecutedVersion", "ExecutionTimeout",
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
    failed = 0
    for made in programs:
        seed = made["seed"]
        found = differences(made, theirs.get(seed, {"broken": "no outcome"}), ours[seed])
        failed += bool(found)
        for line in found:
            print(f"{asked.sdk} seed {seed}: {line}")
    print(f"{asked.sdk}: {len(programs) - failed} of {len(programs)} programs agree")
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
        arn = dev.begin("Main", made)
        answers = callbacks(made["body"])
        done = until(f"the end of {arn}", lambda: answered(dev, arn, answers), 90)
    except Exception as error:
        return seed | {"broken": repr(error)}
    return seed | {
        "status": done["Status"],
        "result": done.get("Result"),
        "error": done.get("Error"),
        "events": dev.history(arn),
    }


def answered(dev, arn, answers):
    """Answers what is asked; how the execution ended, or nothing yet."""
    if answers:
        events = dev.history(arn)
        names = {event.get("Id"): event.get("Name") for event in events}
        for event in events:
            if event["EventType"] != "CallbackStarted":
                continue
            # The callback of a waitForCallback has a name that the SDK made of its context's.
            name = event["Name"] if event.get("Name") in answers else names.get(event.get("ParentId"))
            how = answers.pop(name, None)
            if how:
                give(dev.client, event["CallbackStartedDetails"]["CallbackId"], **how)
    done = dev.describe(arn)
    return None if done["Status"] == "RUNNING" else done


def give(client, callback, kind, text=None, error=None):
    if kind == "heartbeat":
        client.send_durable_execution_callback_heartbeat(CallbackId=callback)
    if kind in ("heartbeat", "success"):
        body = {} if text is None else {"Result": text.encode()}
        client.send_durable_execution_callback_success(CallbackId=callback, **body)
    if kind == "failure":
        client.send_durable_execution_callback_failure(CallbackId=callback, Error=error)


def differences(made, theirs, ours):
    if "broken" in theirs or "broken" in ours:
        return [f"theirs: {theirs.get('broken', 'fine')}; ours: {ours.get('broken', 'fine')}"]
    found = []
    if theirs["status"] != ours["status"]:
        found.append(f"status: theirs {theirs['status']}, ours {ours['status']} {clip(ours.get('error'))}")
    if ours["status"] == theirs["status"] == "SUCCEEDED":
        if parsed(theirs["result"]) != parsed(ours["result"]):
            found.append(f"result: theirs {clip(theirs['result'])}, ours {clip(ours['result'])}")
    if clean(theirs.get("error")) != clean(ours.get("error")):
        found.append(f"error: theirs {clip(theirs.get('error'))}, ours {clip(ours.get('error'))}")
    return found + operations(theirs["events"], ours["events"])


def operations(theirs, ours):
    """By id: the SDKs number operations by their place, so both sides have the same ids."""
    theirs, ours = by_operation(theirs), by_operation(ours)
    found = []
    for operation in theirs.keys() | ours.keys():
        one, other = theirs.get(operation, []), ours.get(operation, [])
        for index in range(max(len(one), len(other))):
            left = one[index] if index < len(one) else None
            right = other[index] if index < len(other) else None
            if left != right:
                found.append(f"event {index} of {label(one or other)}: theirs {clip(left)}, ours {clip(right)}")
                break
    return sorted(found)


def label(events):
    return f"{events[0].get('SubType')} {events[0].get('Name')}"


def by_operation(events):
    found = {}
    for event in events:
        kind = event["EventType"]
        if kind != "InvocationCompleted" and not kind.startswith("Execution"):
            found.setdefault(event["Id"], []).append(clean(event))
    return found


def clean(value):
    """Without what passes, what is empty, and the difference between a text and what it says."""
    if isinstance(value, dict):
        cleaned = {key[0].upper() + key[1:]: clean(it) for key, it in value.items()}
        return {key: it for key, it in cleaned.items() if key not in PASSING and it not in (None, {}, [])}
    if isinstance(value, list):
        return [clean(it) for it in value]
    return value


def parsed(result):
    try:
        return json.loads(result) if isinstance(result, str) else result
    except ValueError:
        return result


def clip(value):
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 600 else f"{text[:600]}... ({len(text)})"


main()
