"""Folders and files that only our own user may read: mails, keys and the database hold the data of other people."""

import os
from pathlib import Path


def create_private_folder(folder: Path) -> None:
    """Create the folder with mode 0700, and missing parents too. A folder that exists keeps its mode."""
    if not folder.is_dir():
        create_private_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def narrow_folder(folder: Path) -> None:
    """Take the permissions of group and others away from a folder that belongs to our user."""
    found = folder.stat()
    if found.st_uid == os.geteuid() and found.st_mode & 0o077:
        folder.chmod(found.st_mode & 0o700)


def write_private_file(path: Path, content: bytes) -> None:
    """Write a new file with mode 0600 beside `path`, then rename it: readers see all of it or nothing."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    fresh.replace(path)
