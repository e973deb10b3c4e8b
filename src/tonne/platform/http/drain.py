"""Whether this server is about to stop: `tonne api` creates a file that all its processes see."""

import os
import time
from pathlib import Path

# Names a file that exists while the server is about to stop: `tonne api` sets the variable and creates the file.
DRAIN_VARIABLE = "_TONNE_DRAIN_FILE"
# Every request asks, so the file is looked at only this often.
_LOOK_EVERY_S = 0.05


class Drain:
    def __init__(self) -> None:
        file = os.environ.get(DRAIN_VARIABLE)
        self._file = None if file is None else Path(file)
        self._is_draining = False
        self._look_at = 0.0

    def has_begun(self) -> bool:
        return self._file is not None and self._file.exists()

    def closes_connections(self) -> bool:
        """Like `has_begun`, up to 50 ms late: responses then close their connection, so that clients open new ones."""
        if self._file is not None and time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + _LOOK_EVERY_S
            self._is_draining = self.has_begun()
        return self._is_draining
