"""The last signed checkpoint of a log, kept outside of the database.

A database that is restored to an earlier state does not know what it has published. This file does.
"""

import fcntl
import os
from pathlib import Path

from tonne.platform.process.private_files import create_private_folder
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode


class HeadFile:
    """Its methods block: call them in a thread. Raises OSError if the folder cannot be used."""

    def __init__(self, settings: Settings, mode: Mode) -> None:
        self.path = settings.log_head_path / f"{mode}.checkpoint"

    def read(self) -> str | None:
        """The signed checkpoint; None if there is no file."""
        try:
            return self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def replace(self, note: str, *, expected: str | None) -> bool:
        """Store a checkpoint if the file still has the expected one. False if another worker was faster.

        The file is on the disk when this returns: a checkpoint that was sent out is never forgotten.
        """
        create_private_folder(self.path.parent)
        with self.path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if self.read() != expected:
                return False
            fresh = self.path.with_suffix(".new")
            with fresh.open("w", encoding="utf-8") as file:
                file.write(note)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self.path)
            _sync_folder(self.path.parent)
            return True


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
