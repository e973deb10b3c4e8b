"""Logs JSON lines to standard error. API keys, signing secrets and bodies must never be passed to a log call."""

import asyncio
import json
import logging
import select
import sys
import threading
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import partial
from typing import Any, BinaryIO

import msgspec
import structlog

from tonne.platform.process.telemetry import error_reports, tracing
from tonne.platform.process.telemetry.instruments import CounterFamily

# Warnings and errors. Like the configuration of the log, it belongs to the whole process.
LOGGED = CounterFamily("tonne_log_messages_total", "Warnings and errors in the log.", "level", "event")

# The id of the request that is being processed, for every line that is logged meanwhile.
REQUEST_ID: ContextVar[str] = ContextVar("request_id")

COLLECT_S = 0.05
MAX_COLLECTED = 256
# Where lines of requests are collected; None if they are written like all others, or not at all.
_collecting: "LogFile | None" = None
_log = structlog.get_logger()


def configure_logs(level: str, process: str) -> None:
    """Set the log level and format, for our own code and for libraries."""
    global _collecting  # noqa: PLW0603 - the log belongs to the whole process
    numeric = logging.getLevelNamesMapping()[level.upper()]
    file = LogFile(sys.stderr.buffer, process)
    _collecting = file if numeric <= logging.INFO and not sys.stderr.isatty() else None
    from multiprocessing.util import Finalize  # noqa: PLC0415 - not for other commands

    # Unlike `atexit`, also at the end of a process that was forked by multiprocessing, as the server does.
    Finalize(None, file.flush, exitpriority=0)
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
        logger_factory=lambda *_: file,
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(handlers=[LibraryHandler()], level=max(numeric, logging.WARNING), force=True)


def log_request(fields: dict[str, Any]) -> None:
    """Like `info("request", **fields)`, at a quarter of its cost. Must run in an event loop."""
    if _collecting is None:
        _log.info("request", **fields)
    else:
        _collecting.collect(fields | {"event": "request", "level": "info"})


class LogFile:
    """Writes lines at once, except those of requests: these are collected, encoded and written together.

    They are written before any other line, so that the order of all lines is kept.
    """

    def __init__(self, file: BinaryIO, process: str) -> None:
        self._file = file
        self._process = process
        # Threads log, too.
        self._lock = threading.Lock()
        self._collected: list[dict[str, Any]] = []

    def msg(self, line: bytes) -> None:
        with self._lock:
            self._write(line + b"\n")

    # structlog calls the method that has the name of the level.
    debug = info = warning = error = critical = msg

    def collect(self, event: dict[str, Any]) -> None:
        _add_facts(self._process, None, "info", event)
        with self._lock:
            self._collected.append(event)
            number = len(self._collected)
        if number == 1:
            asyncio.get_running_loop().call_later(COLLECT_S, self.flush)
        elif number == MAX_COLLECTED:
            self.flush()

    def flush(self) -> None:
        with self._lock:
            self._write(b"")

    def _write(self, last: bytes) -> None:
        events, self._collected = self._collected, []
        text = b"".join([_encode(None, "info", event) + b"\n" for event in events]) + last
        start = 0
        while start < len(text):
            # Several processes may write into one pipe. It takes this much as a whole, and more in parts.
            end = text.rfind(b"\n", start, start + select.PIPE_BUF) + 1 or text.find(b"\n", start) + 1
            self._file.write(text[start:end])
            self._file.flush()
            start = end


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
