"""A client in another language against its functions under `outlast dev`: python client.py PROJECT
COMMAND...
"""

import sys

from stand import Dev

with Dev(sys.argv[1]) as dev:
    dev.try_with(sys.argv[2:])
