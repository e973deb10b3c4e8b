"""`python -m tools.docs.background`: build the documentation as soon as the service answers, for `make run`.

Not before: building it takes both cores, and a first visitor looks for the service. Until it is built, /docs/ says so.
"""

import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tonne.channels.public_pages.site.documentation import BUILD_LOCK
from tonne.platform.settings.load_settings import load_settings

WAIT_S = 300.0
POLL_S = 0.5


@contextlib.contextmanager
def announced(lock: Path) -> Iterator[None]:
    """A lock, not a marker: it is released also when this process is killed."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def wait_for_service(port: int) -> bool:
    ends = time.monotonic() + WAIT_S
    while time.monotonic() < ends:
        with contextlib.suppress(OSError), socket.create_connection(("localhost", port), POLL_S):
            return True
        time.sleep(POLL_S)
    return False


def main() -> int:
    # A shell starts background processes with Ctrl-C ignored; this one ends with the service.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with announced(BUILD_LOCK):
        if not wait_for_service(load_settings(os.environ).port):
            return 1
        os.nice(10)
        make = ["make", "--silent", "docs"]
        done = subprocess.run(make, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"The documentation was not built:\n{done.stdout}{done.stderr}", file=sys.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
