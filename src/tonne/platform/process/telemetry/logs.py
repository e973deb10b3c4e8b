"""Logs JSON lines to standard error. API keys, signing secrets and bodies must never be passed to a log call."""

import json
import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec
import structlog

from tonne.platform.process.telemetry import error_reports, tracing
from tonne.platform.process.telemetry.instruments import CounterFamily

# Warnings and errors. Like the configuration of the log, it belongs to the whole process.
LOGGED = CounterFamily("tonne_log_messages_total", "Warnings and errors in the log.", "level", "event")

# The id of the request that is being processed, for every line that is logged meanwhile.
REQUEST_ID: ContextVar[str] = ContextVar("request_id")


def configure_logs(level: str, process: str) -> None:
    """Set the log level and format, for our own code and for libraries."""
    numeric = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[
            partial(_add_facts, process),
            structlog.processors.add_log_level,
            _count,
            _report,
            _remove_row_data,
            *_renderers(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(numeric),
        logger_factory=structlog.BytesLoggerFactory(sys.stderr.buffer),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(handlers=[LibraryHandler()], level=max(numeric, logging.WARNING), force=True)


def _renderers() -> list[Any]:
    """JSON lines, or aligned text for a person who reads them on a terminal."""
    if not sys.stderr.isatty():
        return [structlog.processors.format_exc_info, _encode]
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    console = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    return [stamp, console, lambda _logger, _method, line: line.encode("utf-8", "backslashreplace")]


def _add_facts(process: str, _logger: Any, _method: str, event: Any) -> Any:
    """The process, the time, and the ids of the request and of the trace that the line belongs to.

    Processors of structlog take twice as long, and every request has a line.
    """
    event["process"] = process
    if "request_id" not in event and (request_id := REQUEST_ID.get("")):
        event["request_id"] = request_id
    if tracing.is_on():
        event.update(tracing.log_fields() | event)
    event["timestamp"] = datetime.now(UTC)
    return event


def _count(_logger: Any, method: str, event: Any) -> Any:
    if method not in {"info", "debug"}:
        # Our events have fixed names. Lines of libraries may contain anything.
        LOGGED.inc(event["level"], "library" if "source" in event else event["event"])
    return event


def _report(_logger: Any, method: str, event: Any) -> Any:
    if method in {"error", "critical"} and event.get("exc_info") and (error := _exception_of(event)) is not None:
        error_reports.report(event, error)
    return event


def _exception_of(event: Any) -> BaseException | None:
    info = event.get("exc_info")
    return info[1] if isinstance(info, tuple) else info if isinstance(info, BaseException) else sys.exc_info()[1]


def _remove_row_data(_logger: Any, _method: str, event: Any) -> Any:
    """Remove the detail of database errors: it quotes the row that violates a constraint, with a client's data."""
    error = _exception_of(event)
    while error is not None:
        if hasattr(error, "sqlstate"):
            error.detail = None  # type: ignore[attr-defined]  # errors of asyncpg have it
        error = error.__cause__ or error.__context__
    return event


def _encode(_logger: Any, _method: str, event: Any) -> bytes:
    try:
        return msgspec.json.encode(event, enc_hook=str)
    except UnicodeEncodeError:
        # Invalid text, such as a lone surrogate. The slower encoder escapes it.
        return json.dumps(msgspec.to_builtins(event, enc_hook=str)).encode()


class LibraryHandler(logging.Handler):
    """Formats what libraries log through the standard module like our own lines."""

    def emit(self, record: logging.LogRecord) -> None:
        logger = structlog.get_logger()
        logger.log(record.levelno, record.getMessage(), source=record.name, exc_info=record.exc_info)
