"""A thousand executions of an official Python handler at once: what saturates first.

    OUTLAST=target/release/outlast VIRTUAL_ENV=target/official/sdk \\
      target/official/clients/bin/python tests/official/load.py target/official/python [WORKERS...]

Measures, so it is no part of the gate. An execution is five steps, a wait of a second, and five steps
more. For each number of workers it prints a line of a table: seconds to start all and until all had
ended, steps a second, processor time and memory of the server and of all workers together, how busy
the machine was, and how long an API call took meanwhile.

Seen on two cores, otherwise idle: with two workers 1,000 executions were started in 1.8 s and ended
after 125 s, the machine 18 % busy. The Python workers took 27.5 s of processor time and 250 MiB
together, the server 6.3 s and 60 MiB, and an API call 2 ms (p99 6 ms): what saturates first is the
number of workers, each of which runs one invocation at a time and mostly waits inside the SDK.
"""

import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from stand import Dev, client, new_key, until

EXECUTIONS = int(os.environ.get("EXECUTIONS", "1000"))
STEPS = 10
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


class Process:
    """What the kernel knows of a process."""

    def __init__(self, pid):
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        self.parent = int(fields[1])
        self.seconds = (int(fields[11]) + int(fields[12])) / TICKS
        self.bytes = int(fields[21]) * PAGE


def processes():
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found[int(entry.name)] = Process(entry.name)
            except OSError:
                # It has ended meanwhile.
                continue
    return found


class Watch(threading.Thread):
    """Looks at the server and its workers, and asks the API for something small, until told."""

    def __init__(self, dev, arn):
        super().__init__(daemon=True)
        self.dev, self.arn = dev, arn
        self.workers = {}
        self.server_bytes = self.workers_bytes = 0
        self.waits = []
        self.ended = False

    def run(self):
        api = client(self.dev.endpoint)
        while not self.ended:
            found = processes()
            server = found[self.dev.process.pid]
            workers = {pid: it for pid, it in found.items() if it.parent == self.dev.process.pid}
            self.server_bytes = max(self.server_bytes, server.bytes)
            self.workers_bytes = max(self.workers_bytes, sum(it.bytes for it in workers.values()))
            self.workers.update({pid: it.seconds for pid, it in workers.items()})
            asked = time.monotonic()
            api.get_durable_execution(DurableExecutionArn=self.arn)
            self.waits.append(time.monotonic() - asked)
            time.sleep(0.1)

    def wait_ms(self, part):
        waits = sorted(self.waits)
        return 1000 * waits[min(len(waits) - 1, int(len(waits) * part))]


def busy():
    """Processor seconds that the whole machine was not idle."""
    fields = list(map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1:]))
    return (sum(fields[:8]) - fields[3] - fields[4]) / TICKS


def measure(project, workers):
    with Dev(project, options=["--workers", str(workers)]) as dev:
        # Its first call is not what is measured.
        first = dev.begin("Load", {"key": new_key(), "steps": STEPS})
        dev.ended(first)
        watch = Watch(dev, first)
        before, busy_before = Process(dev.process.pid).seconds, busy()
        watch.start()
        begun = time.monotonic()
        with ThreadPoolExecutor(8) as pool:
            events = ({"key": "", "steps": STEPS} for _ in range(EXECUTIONS))
            list(pool.map(lambda event: dev.begin("Load", event), events))
        started = time.monotonic() - begun

        def none_left():
            running = dev.client.list_durable_executions_by_function(
                FunctionName="Load", Statuses=["RUNNING"], MaxItems=1
            )
            return not running["DurableExecutions"] or None

        until("the end of all", none_left, 600)
        took = time.monotonic() - begun
        watch.ended = True
        watch.join()
        server = Process(dev.process.pid).seconds - before
        machine = busy() - busy_before
        listed = dev.client.get_paginator("list_durable_executions_by_function").paginate(
            FunctionName="Load", Statuses=["SUCCEEDED"]
        )
        assert sum(len(page["DurableExecutions"]) for page in listed) == EXECUTIONS + 1
    spent = sum(watch.workers.values())
    mib = 1 / 1_048_576
    return [
        workers, f"{started:.1f}", f"{took:.1f}", f"{EXECUTIONS * STEPS / took:.0f}",
        f"{server:.1f}", f"{watch.server_bytes * mib:.0f}", f"{spent:.1f}",
        f"{watch.workers_bytes * mib:.0f}", f"{100 * machine / took / os.cpu_count():.0f} %",
        f"{watch.wait_ms(0.5):.0f}", f"{watch.wait_ms(0.99):.0f}",
    ]


def main():
    project, *workers = sys.argv[1:]
    head = [
        "workers", "started s", "ended s", "steps/s", "server cpu s", "server MiB", "workers cpu s",
        "workers MiB", "machine busy", "call p50 ms", "call p99 ms",
    ]
    print(f"{EXECUTIONS} executions of {STEPS} steps and a wait each, {os.cpu_count()} cores")
    for row in [head, ["---"] * len(head)]:
        print("| " + " | ".join(row) + " |")
    for count in map(int, workers or ["1", "2", "4", "8"]):
        print("| " + " | ".join(map(str, measure(project, count))) + " |", flush=True)


main()
