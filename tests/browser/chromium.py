"""The browser of the tests. `python -m tests.browser.chromium` installs it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.support.packages import install_packages

# The shell is the same browser without windows, and starts pages in three quarters of the time.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
ON_A_MAC = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
MISSING = (
    "The browser tests need Chromium, and it could not be installed: install Chromium or Chrome with your system's "
    "package manager (Debian: apt-get install chromium), then run make again."
)
# Reproducible, and without network access: only the loopback address resolves.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--no-first-run",
    "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)


@cache
def find_chromium() -> str | None:
    """The path of an installed Chromium, the system's before Playwright's."""
    for name in NAMES:
        found = shutil.which(name)
        if found is not None:
            return found
    if Path(ON_A_MAC).exists():
        return ON_A_MAC
    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
    return own if Path(own).exists() else None


def ensure_chromium() -> bool:
    """Install Chromium if there is none, trying several ways."""
    if find_chromium() is not None:
        return True
    ways: list[Callable[[], object]] = [_install_with_playwright]
    if hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get"):
        ways += [partial(install_packages, name) for name in NAMES[:2]]
    sys.stderr.write("Setting up Chromium for the browser tests ...\n")
    for install in ways:
        install()
        find_chromium.cache_clear()
        if find_chromium() is not None:
            return True
    return False


def _install_with_playwright() -> None:
    # Ignore its output: if all ways fail, the message at the end says what to do.
    command = [sys.executable, "-m", "playwright", "install", "chromium"]
    subprocess.run(command, capture_output=True, check=False)


if __name__ == "__main__":
    sys.exit(None if ensure_chromium() else MISSING)
