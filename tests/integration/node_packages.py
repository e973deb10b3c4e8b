"""The Node packages of the integration tests: code generators and linters for the OpenAPI document, verifiers.

They are installed into the Python environment of the tests. `python -m tests.integration.node_packages` writes the lock
file anew after a change of `package.json`.
"""

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

CLIENTS = Path(__file__).parent / "clients"
FILES = ("package.json", "package-lock.json")
HOME = Path(sys.prefix) / "node-packages"
_STAMP = HOME / "installed"
# Where a package was fetched from differs between machines; the hash is enough.
_NOT_LOCKED = ("resolved", "funding")


def find_node_program(name: str) -> str:
    """The path of an installed program. A missing or outdated one fails the test: it is never skipped."""
    assert is_installed(), "the Node packages are not installed: run make test-integration, which installs them."
    return str(HOME / "node_modules" / ".bin" / name)


def is_installed() -> bool:
    return _STAMP.exists() and _STAMP.read_text(encoding="ascii") == _digest()


def install(npm: str) -> str | None:
    """Install the packages of the lock file. Returns what to do if that is not possible."""
    if is_installed():
        return None
    sys.stderr.write("Installing Node packages for the integration tests ...\n")
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir(parents=True)
    for file in FILES:
        shutil.copy(CLIENTS / file, HOME)
    done = _npm(npm, "ci", HOME)
    if done.returncode != 0:
        return f"The integration tests need Node packages that cannot be installed:\n{done.stderr}"
    _STAMP.write_text(_digest(), encoding="ascii")
    return None


def write_lock(npm: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file in FILES:
            shutil.copy(CLIENTS / file, folder)
        done = _npm(npm, "install", folder, "--package-lock-only")
        if done.returncode != 0:
            raise SystemExit(done.stderr)
        lock: dict[str, Any] = json.loads((folder / "package-lock.json").read_text(encoding="utf-8"))
    for package in lock["packages"].values():
        for key in _NOT_LOCKED:
            package.pop(key, None)
    (CLIENTS / "package-lock.json").write_text(json.dumps(lock, indent=2) + "\n", encoding="utf-8")


def _npm(npm: str, command: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    # Scripts of packages are not needed, and would run with the rights of the user.
    quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
    return subprocess.run([npm, command, *quiet, *options], cwd=folder, capture_output=True, text=True, check=False)


def _digest() -> str:
    return hashlib.sha256(b"".join((CLIENTS / file).read_bytes() for file in FILES)).hexdigest()


if __name__ == "__main__":
    found = shutil.which("npm")
    if found is None:
        raise SystemExit("npm is not installed.")
    write_lock(found)
