"""Logs JSON lines to standard error. API keys, signing secrets and bodies must never be passed to a log call."""

import json
import logging
import sys
from typing import Any

import msgspec
import structlog

from tonne.base.instruments import CounterFamily

# Warnings and errors. Like the configuration of the log, it belongs to the whole process.
LOGGED = CounterFamily("tonne_log_messages_total", "Warnings and errors in the log.", "level", "event")


def configure_logs(level: str, process: str) -> None:
    """Set the log level and format, for our own code and for libraries."""
    numeric = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            _count,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _remove_row_data,
            *_renderers(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(numeric),
        logger_factory=structlog.BytesLoggerFactory(sys.stderr.buffer),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(process=process)
    logging.basicConfig(handlers=[LibraryHandler()], level=max(numeric, logging.WARNING), force=True)


def _renderers() -> list[Any]:
    """JSON lines, or aligned text for a person who reads them on a terminal."""
    if not sys.stderr.isatty():
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(serializer=_encode)]
    console = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    return [console, lambda _logger, _method, line: line.encode("utf-8", "backslashreplace")]


def _count(_logger: Any, method: str, event: Any) -> Any:
    if method not in {"info", "debug"}:
        # Our events have fixed names. Lines of libraries may contain anything.
        LOGGED.inc(event["level"], "library" if "source" in event else event["event"])
    return event


def _remove_row_data(_logger: Any, _method: str, event: Any) -> Any:
    """Remove the detail of database errors: it quotes the row that violates a constraint, with a client's data."""
    info = event.get("exc_info")
    error = info[1] if isinstance(info, tuple) else info if isinstance(info, BaseException) else sys.exc_info()[1]
    while error is not None:
        if hasattr(error, "sqlstate"):
            error.detail = None  # type: ignore[union-attr]  # errors of asyncpg have it
        error = error.__cause__ or error.__context__
    return event


def _encode(event: Any, **_: Any) -> bytes:
    try:
        return msgspec.json.encode(event, enc_hook=str)
    except UnicodeEncodeError:
        # Invalid text, such as a lone surrogate. The slower encoder escapes it.
        return json.dumps(event, default=str).encode()


class LibraryHandler(logging.Handler):
    """Formats what libraries log through the standard module like our own lines."""

    def emit(self, record: logging.LogRecord) -> None:
        logger = structlog.get_logger()
        logger.log(record.levelno, record.getMessage(), source=record.name, exc_info=record.exc_info)
