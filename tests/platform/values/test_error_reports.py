"""Reports of errors: what they contain, how many there are, and that a hook harms nothing."""

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.support.command import wait_until
from tests.support.sentry_receiver import receiving_reports
from tonne.platform.db.errors import ServiceHeld
from tonne.platform.http.telemetry import is_expected
from tonne.platform.process.telemetry.error_report import ErrorReport
from tonne.platform.process.telemetry.error_reports import (
    MAX_PER_MINUTE,
    REPEAT_AFTER_S,
    REPORTS,
    ErrorReporter,
    require_hooks,
    start,
)
from tonne.platform.process.telemetry.sentry_reports import SentryHook
from tonne.platform.settings.load_settings import load_settings
from tonne.platform.settings.settings import Settings, SettingsError
from tonne.platform.values.errors import Kind, TonneError

CANARY = "canary-41f7"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Seen:
    """Reports that a hook got."""

    def __init__(self) -> None:
        self.reports: list[ErrorReport] = []
        self.clock = Clock()
        self.reporter = ErrorReporter([self.reports.append], "worker", is_expected, self.clock)

    def see(self, error: BaseException, event: str = "job_failed", **fields: Any) -> None:
        self.reporter.report({"event": event, "level": "error", **fields}, error)

    def finish(self) -> list[ErrorReport]:
        self.reporter.stop(10)
        return self.reports


@pytest.fixture
def seen() -> Seen:
    return Seen()


def _counts() -> dict[str, float]:
    return {labels[0]: values[0] for labels, values in REPORTS.snapshot().series}


def _raised(error: Exception) -> Exception:
    """As it is after it was raised because of another one."""
    try:
        _raise(error)
    except type(error) as found:
        return found
    raise AssertionError


def _raise(error: Exception) -> None:
    try:
        os.environ[CANARY]
    except KeyError as cause:
        raise error from cause


def test_a_report_has_types_lines_and_ids_and_nothing_else(seen: Seen) -> None:
    error = _raised(ValueError(f"{CANARY} is not an address"))
    fields: dict[str, Any] = {
        "job": "send_mails",
        "mail_id": "mail_1",
        "reason": CANARY,
        "failures": 3,
        "request_id": "req_1",
    }
    seen.see(error, **fields)
    (report,) = seen.finish()
    assert (report.event, report.process, report.repeats) == ("job_failed", "worker", 0)
    assert [each.type for each in report.errors] == ["builtins.ValueError", "builtins.KeyError"]
    assert report.errors[0].frames[-1].function == "_raise"
    assert report.errors[0].frames[-1].text == "raise error from cause"
    assert report.ids == {"job": "send_mails", "mail_id": "mail_1", "request_id": "req_1"}
    assert CANARY not in repr(report)


def test_the_same_error_is_reported_once_a_minute_with_its_repeats(seen: Seen) -> None:
    for _ in range(5):
        seen.see(_raised(ValueError()))
    seen.see(_raised(TypeError()))
    seen.clock.now += REPEAT_AFTER_S
    seen.see(_raised(ValueError()))
    reports = seen.finish()
    assert [(report.errors[0].type, report.repeats) for report in reports] == [
        ("builtins.ValueError", 0),
        ("builtins.TypeError", 0),
        ("builtins.ValueError", 4),
    ]


def test_different_errors_are_limited_together(seen: Seen) -> None:
    before = _counts().get("dropped", 0)
    for number in range(MAX_PER_MINUTE + 10):
        seen.see(_raised(ValueError()), f"event_{number}")
    assert len(seen.finish()) == MAX_PER_MINUTE
    assert _counts()["dropped"] - before == 10


class Refusal(TonneError, kind=Kind.CONFLICT, code="refusal_of_a_test"):
    message = "No."


OUTAGES = (
    *(ConnectionRefusedError(), TimeoutError(), asyncpg.InterfaceError("closed"), asyncpg.DeadlockDetectedError()),
    *(Refusal(), ServiceHeld()),
)


@pytest.mark.parametrize("error", OUTAGES, ids=lambda error: type(error).__name__)
def test_outages_and_refusals_are_not_reported(seen: Seen, error: Exception) -> None:
    seen.see(_raised(error))
    assert seen.finish() == []


def test_errors_of_files_are_reported(seen: Seen) -> None:
    """They look like an outage to the jobs, which retry them as one."""
    seen.see(_raised(PermissionError()))
    assert len(seen.finish()) == 1


def test_errors_of_the_reports_themselves_are_not_reported(seen: Seen) -> None:
    seen.see(_raised(ValueError()), source="opentelemetry.sdk.trace.export")
    seen.see(_raised(ValueError()), event=f"Task failed: {CANARY}", source="asyncio")
    (report,) = seen.finish()
    assert report.event == "asyncio"


def test_a_hook_that_hangs_or_fails_delays_nobody() -> None:
    hanging, got = threading.Event(), []

    def hang(report: ErrorReport) -> None:
        got.append(report)
        assert hanging.wait(30)
        raise OSError

    before = _counts()
    reporter = ErrorReporter([hang, got.append], "api", is_expected)
    for number in range(MAX_PER_MINUTE):
        reporter.report({"event": f"event_{number}"}, _raised(ValueError()))
    hanging.set()
    reporter.stop(30)
    assert len(got) == 2 * MAX_PER_MINUTE
    after = _counts()
    assert after["failed"] - before.get("failed", 0) == after["sent"] - before.get("sent", 0) == MAX_PER_MINUTE


def test_sentry_gets_an_event_without_data() -> None:
    """After a failure of its server, too. The SDK adds neither variables nor messages."""
    with receiving_reports() as sentry:
        sentry.statuses = [500]
        reporter = ErrorReporter([SentryHook(sentry.dsn)], "api", is_expected)
        reporter.report({"event": "lost"}, _raised(ValueError(CANARY)))
        reporter.report({"event": "request_failed", "request_id": "req_1"}, _raised(ValueError(CANARY)))
        wait_until(lambda: bool(sentry.events), 30, "the report arrives")
        reporter.stop(10)
    (event,) = sentry.events
    assert event["tags"] == {"process": "api", "event": "request_failed", "request_id": "req_1"}
    assert (event["level"], event["logger"], event["release"]) == ("error", "request_failed", "tonne@0.1.0")
    cause, error = event["exception"]["values"]
    assert (cause["type"], error["type"]) == ("KeyError", "ValueError")
    assert error["stacktrace"]["frames"][-1]["function"] == "_raise"
    assert not {"vars", "pre_context"} & set(error["stacktrace"]["frames"][-1])
    assert "value" not in error or not error["value"]
    assert not {"user", "request", "breadcrumbs", "modules"} & {name for name, value in event.items() if value}
    assert CANARY.encode() not in sentry.raw


def test_a_program_that_cannot_be_run_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "text").touch(mode=0o600)
    for path in (tmp_path / "missing", tmp_path / "text"):
        with pytest.raises(SettingsError, match="TONNE_ERROR_HOOK"):
            start(Settings(error_hook=str(path)), "api", is_expected)
    require_hooks(Settings(error_hook=sys.executable))


def _invalid(**variables: str) -> Callable[[], object]:
    return lambda: load_settings({f"TONNE_{name.upper()}": value for name, value in variables.items()})


@pytest.mark.parametrize("dsn", ["secret-key", "https://sentry.example.com/1", "https://secret-key@sentry.example.com"])
def test_an_invalid_dsn_is_refused_and_not_repeated(dsn: str) -> None:
    with pytest.raises(SettingsError, match="TONNE_SENTRY_DSN") as refused:
        _invalid(sentry_dsn=dsn)()
    assert "secret-key" not in str(refused.value)


@pytest.mark.parametrize("path", ["report", "./report", "a.b:c"])
def test_an_invalid_hook_is_refused(path: str) -> None:
    with pytest.raises(SettingsError, match="TONNE_ERROR_HOOK"):
        _invalid(error_hook=path)()
