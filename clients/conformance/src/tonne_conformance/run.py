"""Runs the checks, several at a time, and cleans up whatever happens."""

import contextlib
import importlib
import queue
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tonne_conformance.certificate import CertificateFiles
from tonne_conformance.checks import CHECKS, Check, Skip
from tonne_conformance.expect import Failed, show
from tonne_conformance.installation import Reader, Service
from tonne_conformance.options import Options
from tonne_conformance.receiver import Receiver
from tonne_conformance.sections import MODULES

for _name in MODULES:
    importlib.import_module(f"tonne_conformance.sections.{_name}")
# Importing the modules has registered their checks.
ALL_CHECKS: tuple[Check, ...] = tuple(CHECKS)


class Verdict(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Outcome:
    check: Check
    verdict: Verdict
    seconds: float
    # Why it was skipped.
    reason: str = ""
    # Of a failure.
    expected: str = ""
    came: str = ""
    request_id: str = ""


@dataclass(frozen=True)
class Result:
    """The outcomes in the order of the interface."""

    url: str
    outcomes: tuple[Outcome, ...]
    seconds: float
    # Webhooks that could not be deleted.
    left_webhooks: tuple[str, ...] = ()

    def with_verdict(self, verdict: Verdict) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.verdict is verdict]

    @property
    def exit_code(self) -> int:
        return 1 if self.with_verdict(Verdict.FAILED) else 0


class UnknownCheck(Exception):
    """--only names something that does not exist."""


def chosen(only: Sequence[str]) -> list[Check]:
    """The checks of these sections, modules or ids; all if none is named."""
    for name in only:
        if not any(check.is_named(name) for check in ALL_CHECKS):
            raise UnknownCheck(f"There is no check, module or section {name}. --list prints them all.")
    return [check for check in ALL_CHECKS if not only or any(check.is_named(name) for name in only)]


def run(
    options: Options, certificate: CertificateFiles, progress: Callable[[Outcome], None] = lambda _: None
) -> Result:
    """Run the chosen checks. The webhooks that they made are deleted in any case, also after Ctrl-C."""
    began = time.monotonic()
    checks = chosen(options.only)
    service = Service(options.url, options.key, brand=options.brand, redirect_url=options.redirect_url)
    live = Reader(options.url, options.live_key) if options.live_key else None
    receiver = Receiver(options.receiver.listen, options.receiver.base_url, certificate)
    given = {"service": service, "receiver": receiver, "live": live, "options": options}
    left: list[str] = []
    with receiver.listening():
        try:
            outcomes = _run_all(checks, given, options, progress)
        finally:
            left = service.delete_webhooks()
            service.close()
            if live is not None:
                live.close()
    return Result(options.url, tuple(outcomes), time.monotonic() - began, tuple(left))


def _run_all(
    checks: Sequence[Check], given: dict[str, Any], options: Options, progress: Callable[[Outcome], None]
) -> list[Outcome]:
    """The threads are daemons, so that Ctrl-C does not wait for them."""
    waiting: queue.SimpleQueue[Check | None] = queue.SimpleQueue()
    done: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
    for check in _by_turns(checks):
        waiting.put(check)

    def work() -> None:
        while (check := waiting.get()) is not None:
            done.put(_run_one(check, given, options))

    slow = sum(check.slow for check in checks)
    count = options.threads + slow
    for _ in range(count):
        waiting.put(None)
        threading.Thread(target=work, daemon=True).start()
    outcomes: dict[str, Outcome] = {}
    for _ in checks:
        outcome = done.get()
        outcomes[outcome.check.id] = outcome
        progress(outcome)
    return [outcomes[check.id] for check in checks]


def _by_turns(checks: Sequence[Check]) -> list[Check]:
    """Slow checks first, then the first check of every module, then the second of each, and so on.

    Checks of one module wait for the same orders: one after the other, they would occupy all threads.
    """
    seen: Counter[str] = Counter()
    turns = {}
    for check in checks:
        seen[check.area] += 1
        turns[check.id] = seen[check.area]
    return sorted(checks, key=lambda check: (not check.slow, turns[check.id]))


def _run_one(check: Check, given: dict[str, Any], options: Options) -> Outcome:
    began = time.monotonic()

    def outcome(verdict: Verdict, **facts: str) -> Outcome:
        return Outcome(check, verdict, time.monotonic() - began, **facts)

    if check.slow and options.fast:
        return outcome(Verdict.SKIPPED, reason="It waits for a real limit of time, and --fast leaves that out.")
    if "live" in check.needs and given["live"] is None:
        return outcome(Verdict.SKIPPED, reason="It needs a live key, with which it only reads: --live-key.")
    try:
        check.run(**{name: given[name] for name in check.needs})
    except Skip as skip:
        return outcome(Verdict.SKIPPED, reason=str(skip))
    except Failed as failure:
        request_id = failure.request_id
        return outcome(Verdict.FAILED, expected=failure.expected, came=failure.came, request_id=request_id)
    except Exception as error:  # noqa: BLE001 - whatever a wrong service makes of a check is a failure of the check
        place = ""
        with contextlib.suppress(IndexError):
            frame = traceback.extract_tb(error.__traceback__)[-1]
            place = f" ({frame.name}, line {frame.lineno})"
        return outcome(Verdict.FAILED, expected="a response that can be read", came=show(f"{error!r}{place}"))
    return outcome(Verdict.PASSED)
