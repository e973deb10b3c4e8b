"""Sends reports of errors to Sentry. Imported only if `sentry_dsn` is set."""

from datetime import UTC, datetime
from typing import Any

import sentry_sdk

from tonne.platform.process.telemetry.error_report import ErrorReport, ReportedError

SEND_WITHIN_S = 5.0
# In a path, what follows is our own code.
_OWN = "/tonne/"


class SentryHook:
    """A client without integrations: it sends what it is given, and collects nothing by itself."""

    def __init__(self, dsn: str) -> None:
        self._client = sentry_sdk.Client(
            dsn=dsn,
            default_integrations=False,
            auto_enabling_integrations=False,
            include_local_variables=False,
            include_source_context=False,
            max_breadcrumbs=0,
            auto_session_tracking=False,
        )

    def __call__(self, report: ErrorReport) -> None:
        """Returns when it is sent, or after a few seconds: the SDK sends in a thread of its own."""
        self._client.capture_event(_event(report))
        self._client.flush(SEND_WITHIN_S)


def _event(report: ErrorReport) -> Any:
    return {
        "level": "error",
        "platform": "python",
        "logger": report.event,
        "release": f"tonne@{report.release}",
        "timestamp": datetime.fromtimestamp(report.at, UTC),
        "tags": {"process": report.process, "event": report.event, **report.ids},
        "extra": {"repeats": report.repeats},
        # Causes come first.
        "exception": {"values": [_exception(error) for error in reversed(report.errors)]},
    }


def _exception(error: ReportedError) -> dict[str, Any]:
    module, _, name = error.type.rpartition(".")
    frames = [
        {
            "filename": line.file.rpartition(_OWN)[2] if _OWN in line.file else line.file,
            "abs_path": line.file,
            "function": line.function,
            "lineno": line.line,
            "context_line": line.text,
            "in_app": _OWN in line.file,
        }
        for line in error.frames
    ]
    return {"type": name, "module": module, "stacktrace": {"frames": frames}}
