"""A process that must not outlive the one that started it."""

import os
import signal
import threading
import time


def stop_with_parent() -> None:
    """End this process when the one that started it is gone, even if that was killed and could not say so."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
