"""The server killed again and again under official Python and JavaScript workers:
python crash.py PROJECT [SEED].

What it had acknowledged is there after every restart, event for event; in the end every execution
has succeeded, no step ran again after its success was acknowledged, and a step that may run at most
once did.
"""

import json
import random
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from stand import Dev, new_key

ROUNDS = 5
EXECUTIONS = 50
STEPS = 12


def histories(dev, arns):
    with ThreadPoolExecutor(4) as pool:
        return dict(zip(arns, pool.map(dev.history, arns)))


def killed(dev, arns, chance):
    """Kills the server at some moment; returns how much it had acknowledged before."""
    time.sleep(chance.uniform(0.5, 4))
    before = histories(dev, chance.sample(arns, 10))
    time.sleep(chance.uniform(0, 0.2))
    dev.kill()
    time.sleep(chance.choice([0, 0, 1]))
    dev.start()
    for arn, events in histories(dev, list(before)).items():
        known = before[arn]
        assert events[: len(known)] == known, f"{arn} lost or changed what it had acknowledged"
    return sum(map(len, before.values()))


def check(dev, arn, key):
    """One execution, from its history and from what its steps left outside."""
    described = dev.ended(arn)
    assert described["Status"] == "SUCCEEDED", described
    result = json.loads(described["Result"])
    assert result["total"] + result["interrupted"] == 2 * sum(range(STEPS)), result
    done = dev.nothing_repeated(arn, key)
    lines = Counter(line[2:] for line in dev.ledger(key))
    for (step, what), times in lines.items():
        assert times == 1 or step.startswith("link"), f"{step} has its {what} {times} times"
    for step in done:
        assert lines[step, "end"] >= 1, f"{step} has succeeded and never ran"
    events = dev.history(arn)
    ids = [event["EventId"] for event in events]
    assert ids == list(range(1, len(ids) + 1))
    ended = Counter(event["Name"] for event in events if event["EventType"] == "StepSucceeded")
    assert set(ended.values()) == {1}, f"{arn} has recorded a success twice: {ended}"
    repeated = sum(times - 1 for (_, what), times in lines.items() if what == "begin")
    interrupted = sum(1 for event in events if event["EventType"] == "StepFailed")
    return repeated, interrupted


def main():
    begun = time.monotonic()
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 32)
    chance = random.Random(seed)
    print(f"    crash: seed {seed}", flush=True)
    with Dev(sys.argv[1]) as dev:
        keys = {}
        for number in range(EXECUTIONS):
            key = new_key()
            function = ("PythonStorm", "JsStorm")[number % 2]
            keys[dev.begin(function, {"key": key, "steps": STEPS})] = key
        known = [killed(dev, list(keys), chance) for _ in range(ROUNDS)]
        counted = [check(dev, arn, key) for arn, key in keys.items()]
    repeated, interrupted = map(sum, zip(*counted))
    print(
        f"    crash: {ROUNDS} kills, {sum(known)} events compared, {repeated} steps begun again, "
        f"{interrupted} interrupted for good: {time.monotonic() - begun:.1f} s",
        flush=True,
    )


main()
