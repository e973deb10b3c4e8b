"""Runs the `tonne` command in this process with a pseudo-terminal as standard output, standard error or both."""

import contextlib
import os
import pty
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TextIO
from unittest.mock import patch

from tests.support.processes import environment
from tonne.apps.cli.main import main

ERASE = "\r\033[2K"
SHOW_CURSOR = "\033[?25h"
HIDE_CURSOR = "\033[?25l"


def on_terminal(*words: str, piped: str = "", **settings: str | Path | int) -> str:
    """All that the terminal receives. `piped` is `stdout` or `stderr`: that one goes elsewhere."""
    with ThreadPoolExecutor(2) as threads, _terminal() as (keyboard, screen), Path(os.devnull).open("w") as elsewhere:
        received = threads.submit(_read_all, keyboard)
        streams = {name: elsewhere if name == piped else screen for name in ("stdout", "stderr")}
        try:
            threads.submit(_run, words, environment(settings) | {"TERM": "xterm"}, streams).result()
        finally:
            screen.close()
        return received.result()


@contextlib.contextmanager
def _terminal() -> Iterator[tuple[int, TextIO]]:
    keyboard, screen = pty.openpty()
    try:
        yield keyboard, os.fdopen(screen, "w")
    finally:
        os.close(keyboard)


def _run(words: tuple[str, ...], variables: dict[str, str], streams: dict[str, TextIO]) -> None:
    with (
        patch.dict(os.environ, variables, clear=True),
        patch("sys.stdout", streams["stdout"]),
        patch("sys.stderr", streams["stderr"]),
        contextlib.suppress(SystemExit),
    ):
        main.main(list(words), prog_name="tonne")


def _read_all(keyboard: int) -> str:
    parts = []
    while True:
        try:
            part = os.read(keyboard, 65536)
        except OSError:  # Linux reports the end of a terminal as an error.
            break
        if not part:
            break
        parts.append(part)
    return b"".join(parts).decode()
