"""Runs the `tonne` command."""

import contextlib
import os
import signal
import subprocess
import sysconfig
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import psutil
from click.testing import CliRunner

from tests.support.document_key import shared_document_key
from tests.support.processes import environment, free_port
from tonne.apps.cli.main import main

TONNE = Path(sysconfig.get_path("scripts")) / "tonne"
READY_WITHIN_S = 60.0

_STREAMS = threading.Lock()
"""Held while a command has the output streams and the environment of this process."""


def tonne(*words: str, **settings: str | Path | int) -> subprocess.CompletedProcess[str]:
    """Run a command to its end.

    Commands that only talk to a database that is there already run in this process, which saves a second each;
    servers, whatever starts a PostgreSQL, and a command beside another one run in one of their own.
    """
    variables = environment(settings)
    if "database_url" in settings and words[0] not in {"serve", "api", "worker"}:
        variables = environment({**shared_document_key(), **settings})
        if _STREAMS.acquire(blocking=False):
            try:
                with ThreadPoolExecutor(1) as thread:  # the command needs an event loop of its own
                    return thread.submit(_run_here, words, variables).result()
            finally:
                _STREAMS.release()
    return subprocess.run([TONNE, *words], env=variables, capture_output=True, text=True, timeout=60, check=False)


def run_here(*words: str, **settings: str | Path | int) -> subprocess.CompletedProcess[str]:
    """Run a command to its end in this process, also if it starts a PostgreSQL."""
    with _STREAMS, ThreadPoolExecutor(1) as thread:
        return thread.submit(_run_here, words, environment(settings)).result()


def _run_here(words: Sequence[str], variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    without = dict.fromkeys(name for name in os.environ if name.startswith("TONNE_"))
    done = CliRunner().invoke(main, list(words), env={**without, **variables}, prog_name="tonne")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return subprocess.CompletedProcess([*words], done.exit_code, done.stdout, done.stderr)


def output_of(*words: str, **settings: str | Path | int) -> str:
    """The output of a command that succeeds and prints nothing on standard error."""
    done = tonne(*words, **settings)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout.removesuffix("\n")


def refusal_of(*words: str, **settings: str | Path | int) -> str:
    """The error message of a command that fails: one line."""
    done = tonne(*words, **settings)
    assert done.returncode == 1, done
    assert done.stdout == "", done
    assert done.stderr.startswith("Error: "), done
    sentence = done.stderr.removeprefix("Error: ").removesuffix("\n")
    assert "\n" not in sentence, "it is one line"
    assert "Traceback" not in sentence
    return sentence


@dataclass(frozen=True)
class Operator:
    """Runs commands on this database."""

    url: str
    public_url: str = "https://offsets.example.com"
    secret_key: str = ""

    def does(self, *words: str) -> str:
        return output_of(*words, **self._settings)

    def is_refused(self, *words: str) -> str:
        return refusal_of(*words, **self._settings)

    def runs(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Whatever the exit code."""
        return tonne(*words, **self._settings)

    @property
    def _settings(self) -> dict[str, str]:
        return {"database_url": self.url, "public_url": self.public_url, "secret_key": self.secret_key}

    def facts(self, *words: str) -> dict[str, str]:
        """The names and values that a `show` command prints; of a longer value only the first line."""
        facts = self.does(*words).partition("\n\n")[0]
        lines = [line for line in facts.splitlines() if line[0] != " "]
        return {name: value.strip() for name, _, value in (line.partition("  ") for line in lines)}


def wait_until(true: Callable[[], bool], within_s: float, what: str) -> None:
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline, f"{what}: not within {within_s} s"
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    """A zombie is not running."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Service:
    """`tonne serve --demo` with a data folder of its own, and the processes that it starts."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.port = free_port()
        self._output = data_dir.with_suffix(".out")
        self._errors = data_dir.with_suffix(".err")
        self._parent: subprocess.Popen[bytes] | None = None
        self._started: set[int] = set()

    def begin(self) -> None:
        """Start without waiting until it is ready."""
        with self._output.open("wb") as out, self._errors.open("wb") as err:
            self._parent = subprocess.Popen(
                [TONNE, "serve", "--demo=empty"],
                env=environment({"data_dir": self.data_dir, "port": self.port}),
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def start(self) -> str:
        """Start, wait until the service is ready, and return its output."""
        self.begin()
        parent = self.parent

        def is_ready_or_over() -> bool:
            return "Press Ctrl-C to stop." in self.printed() or parent.poll() is not None

        wait_until(is_ready_or_over, READY_WITHIN_S, "the service is ready")
        assert parent.poll() is None, self.errors()
        self._started = {child.pid for child in psutil.Process(parent.pid).children(recursive=True)}
        return self.printed()

    @property
    def parent(self) -> subprocess.Popen[bytes]:
        assert self._parent is not None
        return self._parent

    def printed(self) -> str:
        return self._output.read_text(encoding="utf-8")

    def errors(self) -> str:
        return self._errors.read_text(encoding="utf-8")

    def demo(self) -> dict[str, Any]:
        facts: dict[str, Any] = msgspec.json.decode((self.data_dir / "demo.json").read_bytes())
        return facts

    def children(self) -> dict[str, int]:
        """The process ids of the api and the worker, by name."""
        found: dict[str, int] = {}
        for child in psutil.Process(self.parent.pid).children():
            words = child.cmdline()
            found.update({name: child.pid for name in ("api", "worker") if name in words})
        return found

    def postgres_pid(self) -> int | None:
        try:
            return int((self.data_dir / "postgres" / "data" / "postmaster.pid").read_text().splitlines()[0])
        except (FileNotFoundError, IndexError):
            return None

    def left(self) -> list[int]:
        """The started processes that still run, including PostgreSQL."""
        folder = str(self.data_dir)
        named = [p.pid for p in psutil.process_iter(["cmdline"]) if any(folder in w for w in p.info["cmdline"] or ())]
        return sorted({pid for pid in (*self._started, *named) if is_running(pid)})

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        """Stop it like Ctrl-C does, and return its exit code."""
        self.parent.send_signal(number)
        return self.parent.wait(40)

    def get(self, path: str) -> tuple[int, bytes]:
        key = self.demo()["test"]["api_key"]
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", headers={"Authorization": f"Bearer {key}"}
        )
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - our own address
            return answer.status, answer.read()

    def clean_up(self) -> None:
        """Kill what a failed test has left running."""
        with contextlib.suppress(AssertionError, ProcessLookupError):
            self.parent.kill()
            self.parent.wait(10)
        for pid in self.left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def service_in(folder: Path) -> Iterator[Service]:
    service = Service(folder / "data")
    try:
        yield service
    finally:
        service.clean_up()
