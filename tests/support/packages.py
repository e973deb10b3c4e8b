"""Programs that tests need, from Debian packages."""

import fcntl
import os
import subprocess
import tempfile
from pathlib import Path


def install_packages(*names: str, **variables: str) -> str | None:
    """The failure, if there was one. Of two `apt-get update` at the same time, one would fail, so they take turns."""
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"} | variables
    install = ["apt-get", "-qq", "install", "-y", "--no-install-recommends", *names]
    with (Path(tempfile.gettempdir()) / "tonne-packages.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for command in (["apt-get", "-qq", "update"], install):
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                return done.stderr
    return None
