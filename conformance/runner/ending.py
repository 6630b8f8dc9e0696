"""What must not outlive the command, however it ends.

An exception would not do for a signal: the official runner waits for its threads, and they wait for
executions. So everything that is open is known here, and a signal closes it and ends the command.
"""

import contextlib
import os
import signal
import sys

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# What closes it, in the order it was opened.
OPEN = {}


@contextlib.contextmanager
def closing(close):
    """Closes something at the end of the block, or at the end of the command if that comes first."""
    key = object()
    OPEN[key] = close
    try:
        yield
    finally:
        if OPEN.pop(key, None):
            close()


def interrupted(number, _frame):
    # Whoever cannot wait for the rest may still kill it.
    for one in SIGNALS:
        signal.signal(one, signal.SIG_IGN)
    while OPEN:
        _, close = OPEN.popitem()
        with contextlib.suppress(Exception):
            close()
    print(f"\nended by {signal.Signals(number).name}, without a verdict", file=sys.__stderr__, flush=True)
    os._exit(128 + number)


def heed_signals():
    for one in SIGNALS:
        signal.signal(one, interrupted)
