"""A client in another language against its functions under `outlast dev`: python client.py PROJECT
COMMAND. The command is told where the server is as every AWS SDK is, and where the ledger lies.
"""

import os
import subprocess
import sys

from stand import PATIENCE_SECONDS, Dev


def main():
    project, *command = sys.argv[1:]
    with Dev(project) as dev:
        environment = {
            **os.environ,
            "AWS_ENDPOINT_URL_LAMBDA": dev.endpoint,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "dev",
            "AWS_SECRET_ACCESS_KEY": "dev",
            "LEDGER": str(dev.ledger_file),
        }
        done = subprocess.run(command, env=environment, timeout=2 * PATIENCE_SECONDS)
        assert done.returncode == 0, f"{command[0]} ended with {done.returncode}"


main()
