"""python -m chaos.operations.hold_database FOLDER: keep the embedded server in FOLDER running until killed."""

import signal
import sys
from pathlib import Path

from tonne.platform.db.server.embedded import start_server

if __name__ == "__main__":
    server = start_server(Path(sys.argv[1]))
    print("ready", flush=True)
    signal.pause()
