"""Reports unexpected errors to Sentry or to a program of the operator: failed requests, crashed jobs, poison rows.

What is logged as an error with an exception is reported. A report has the types of the exception and of its causes, the
lines of code, and ids. It never has messages of exceptions, values of variables, bodies or headers: they may contain
data of clients. Errors in a hook only cost the report.
"""

import linecache
import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import msgspec
import structlog

from tonne import __version__
from tonne.platform.process.telemetry.error_report import CodeLine, ErrorReport, Hook, ReportedError
from tonne.platform.process.telemetry.instruments import CounterFamily
from tonne.platform.settings.settings import Settings, SettingsError

REPORTS = CounterFamily(
    "tonne_error_reports_total",
    "Reports of errors: sent, repeated (not sent, the same as a recent one), dropped (too many), failed.",
    "outcome",
)
# The same error is reported once in this time, with the number of repeats.
REPEAT_AFTER_S = 60.0
# Of all errors together.
MAX_PER_MINUTE = 30
PROGRAM_WITHIN_S = 10.0
STOP_WITHIN_S = 3.0
_MAX_WAITING = 100
_MAX_KNOWN = 1000
_MAX_CAUSES = 5
_MAX_FRAMES = 50
# Their errors are about the reports and traces themselves.
_OWN_LIBRARIES = ("opentelemetry", "sentry_sdk", "urllib3")

_log = structlog.get_logger()


class ErrorReporter:
    """Hooks run in a thread, one report at a time: a hook that hangs delays no request."""

    def __init__(
        self,
        hooks: Sequence[Hook],
        process: str,
        is_expected: Callable[[BaseException], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._hooks = hooks
        self._process = process
        self._is_expected = is_expected
        self._clock = clock
        # By error: when it was last reported, and how often it has been seen since.
        self._known: dict[tuple[str, ...], tuple[float, int]] = {}
        self._minute_began_at, self._reports_in_minute = 0.0, 0
        self._waiting: queue.Queue[ErrorReport | None] = queue.Queue(_MAX_WAITING)
        self._thread = threading.Thread(target=self._send_all, name="error-reports", daemon=True)
        self._thread.start()

    def report(self, event: Mapping[str, Any], error: BaseException) -> None:
        """Called for every log line with an exception. Cheap, and raises nothing."""
        if self._is_expected(error) or str(event.get("source", "")).startswith(_OWN_LIBRARIES):
            return
        errors = _describe(error)
        # Messages of libraries may contain anything; the names of our own lines are fixed.
        name = str(event["source"]) if "source" in event else str(event["event"])
        key = (name, *(each.type for each in errors), *(f"{line.file}:{line.line}" for line in errors[0].frames[-1:]))
        repeats = self._admit(key)
        if repeats is None:
            return
        ids = {field: str(value) for field, value in event.items() if field == "job" or field.endswith("_id")}
        report = ErrorReport(name, self._process, __version__, time.time(), errors, ids, repeats)
        try:
            self._waiting.put_nowait(report)
        except queue.Full:
            REPORTS.inc("dropped")

    def stop(self, within_s: float) -> None:
        """Send what is left, for at most this time."""
        try:
            self._waiting.put_nowait(None)
        except queue.Full:
            return
        self._thread.join(within_s)

    def _admit(self, key: tuple[str, ...]) -> int | None:
        """The number of repeats since the last report; None if there must not be one now."""
        now = self._clock()
        last, repeats = self._known.get(key, (None, 0))
        if last is not None and now - last < REPEAT_AFTER_S:
            self._known[key] = (last, repeats + 1)
            REPORTS.inc("repeated")
            return None
        if now - self._minute_began_at >= 60:
            self._minute_began_at, self._reports_in_minute = now, 0
        if self._reports_in_minute >= MAX_PER_MINUTE:
            REPORTS.inc("dropped")
            return None
        self._reports_in_minute += 1
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        self._known[key] = (now, 0)
        return repeats

    def _send_all(self) -> None:
        while (report := self._waiting.get()) is not None:
            for hook in self._hooks:
                try:
                    hook(report)
                except Exception as error:  # noqa: BLE001 - a hook that fails must not end the reports
                    REPORTS.inc("failed")
                    _log.warning("error_report_failed", error=type(error).__qualname__)
                else:
                    REPORTS.inc("sent")


def _describe(error: BaseException) -> list[ReportedError]:
    found: list[ReportedError] = []
    cause: BaseException | None = error
    while cause is not None and len(found) < _MAX_CAUSES:
        kind = type(cause)
        frames = []
        traceback = cause.__traceback__
        while traceback is not None:
            code = traceback.tb_frame.f_code
            text = linecache.getline(code.co_filename, traceback.tb_lineno).strip()
            frames.append(CodeLine(code.co_filename, code.co_qualname, traceback.tb_lineno, text))
            traceback = traceback.tb_next
        found.append(ReportedError(f"{kind.__module__}.{kind.__qualname__}", frames[-_MAX_FRAMES:]))
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return found


_reporter: ErrorReporter | None = None


def require_hooks(settings: Settings) -> None:
    """Raises SettingsError if a hook is set and cannot be loaded."""
    if settings.sentry_dsn and find_spec("sentry_sdk") is None:
        raise SettingsError(
            "TONNE_SENTRY_DSN is set, but the package for it is not installed. Install Tonne with the extra sentry "
            "(`pip install 'tonne[sentry]'`), or remove the setting."
        )
    if settings.error_hook and not os.access(settings.error_hook, os.X_OK):
        raise SettingsError(
            f"TONNE_ERROR_HOOK: {settings.error_hook} is not a program that this user may execute. Check the path, and "
            "make it executable."
        )


class ProgramHook:
    """A program gets each report as JSON on its standard input."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, report: ErrorReport) -> None:
        subprocess.run(  # noqa: S603 - the operator's own program, without a shell
            [self._path],
            input=msgspec.json.encode(report),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=PROGRAM_WITHIN_S,
            check=True,
        )


def start(settings: Settings, process: str, is_expected: Callable[[BaseException], bool]) -> None:
    """Call it in the process itself, not before a fork: reports are sent by a thread."""
    global _reporter  # noqa: PLW0603 - like the configuration of the log, it belongs to the whole process
    require_hooks(settings)
    hooks: list[Hook] = [ProgramHook(settings.error_hook)] if settings.error_hook else []
    if settings.sentry_dsn:
        from tonne.platform.process.telemetry.sentry_reports import SentryHook  # noqa: PLC0415 - the package is optional

        hooks.append(SentryHook(settings.sentry_dsn))
    if hooks:
        _reporter = ErrorReporter(hooks, process, is_expected)


def report(event: Mapping[str, Any], error: BaseException) -> None:
    if _reporter is not None:
        _reporter.report(event, error)


def stop() -> None:
    global _reporter
    reporter, _reporter = _reporter, None
    if reporter is not None:
        reporter.stop(STOP_WITHIN_S)
