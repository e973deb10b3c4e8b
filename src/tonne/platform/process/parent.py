"""Stops a child process when its parent dies."""

import os
import signal
import threading
import time


def stop_with_parent() -> None:
    """Send SIGTERM to this process when its parent is gone, even if the parent was killed."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
