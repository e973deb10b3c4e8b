"""From a fresh clone to the first answer, as somebody who tries Tonne waits for it."""

import asyncio
import os
import resource
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import NamedTuple

import httpx

from bench.report import Goal, NotMeasured, Report, Result
from tests.support.processes import ROOT, free_port

NAMES = ("clone",)
# Seconds of wall time on two idle cores, with empty caches.
FIRST_ANSWER_S = 45.0
GIVE_UP_AFTER_S = 600.0
POLL_S = 0.05


async def run(names: AbstractSet[str], report: Report, *, quick: bool) -> None:  # noqa: ARG001 - it is never quick
    if "clone" in names:
        report.add(*await asyncio.to_thread(first_answer))


class Step(NamedTuple):
    name: str
    wall_s: float
    # Of all processes of the step, until they have ended.
    cpu_s: float


def first_answer() -> list[Result]:
    """Each step in wall time and in CPU time. What is committed is measured, not the working tree."""
    with tempfile.TemporaryDirectory(prefix="tonne-start-") as name:
        clone, environment = Path(name) / "tonne", _environment(Path(name))
        steps = [
            _measure("clone", lambda: _run(["git", "clone", "--quiet", str(ROOT), str(clone)], environment)),
            _measure("install", lambda: _run(["make", "-C", str(clone), ".venv/runtime.done"], environment)),
            _measure("first start", lambda: _serve(clone, environment)),
        ]
    wall_s, cpu_s = sum(step.wall_s for step in steps), sum(step.cpu_s for step in steps)
    results = [
        Result("start: clone to the first answer", wall_s, "s", FIRST_ANSWER_S, Goal(1.0, at_most=True)),
        Result("start: clone to the first answer, CPU", cpu_s, "s", wall_s),
    ]
    for step in steps:
        results.append(Result(f"start: {step.name}", step.wall_s, "s", wall_s))
        results.append(Result(f"start: {step.name}, CPU", step.cpu_s, "s", cpu_s))
    return results


def _environment(folder: Path) -> dict[str, str]:
    """Empty caches, a free port and data of its own. Where packages come from stays as it is configured."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TONNE_", "VIRTUAL_ENV", "MAKE"))}
    own = {"UV_CACHE_DIR": "uv", "PIP_CACHE_DIR": "pip", "TONNE_DATA_DIR": "data"}
    return kept | {name: str(folder / path) for name, path in own.items()} | {"TONNE_PORT": str(free_port())}


def _measure(name: str, work: Callable[[], float]) -> Step:
    """`work` returns when it was done. A service is stopped after that."""
    started, cpu = time.monotonic(), _cpu_of_children()
    done = work()
    return Step(name, done - started, _cpu_of_children() - cpu)


def _cpu_of_children() -> float:
    """Of those that have ended and were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _run(command: list[str], environment: dict[str, str]) -> float:
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    if done.returncode:
        raise NotMeasured(f"`{' '.join(command)}` failed:\n{done.stdout}{done.stderr}")
    return time.monotonic()


def _serve(clone: Path, environment: dict[str, str]) -> float:
    """`make run`, until the start page answers."""
    service = subprocess.Popen(
        ["make", "run"],
        cwd=clone,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return _wait(f"http://127.0.0.1:{environment['TONNE_PORT']}/", service)
    finally:
        os.killpg(service.pid, signal.SIGINT)
        service.wait()


def _wait(url: str, service: subprocess.Popen[bytes]) -> float:
    ends = time.monotonic() + GIVE_UP_AFTER_S
    while time.monotonic() < ends and service.poll() is None:
        try:
            if httpx.get(url, timeout=POLL_S * 20).status_code == 200:
                return time.monotonic()
        except httpx.HTTPError:
            time.sleep(POLL_S)
    raise NotMeasured("the service did not answer")
