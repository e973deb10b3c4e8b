"""JSON lines on standard error. Keys, signing secrets and bodies are never passed to a log call."""

import json
import logging
import sys
from typing import Any

import msgspec
import structlog


def configure_logs(level: str, process: str) -> None:
    """One line per happening, from our own code and from the libraries alike."""
    numeric = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _forget_rows,
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(serializer=_encode),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(numeric),
        logger_factory=structlog.BytesLoggerFactory(sys.stderr.buffer),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(process=process)
    logging.basicConfig(handlers=[LibraryHandler()], level=max(numeric, logging.WARNING), force=True)


def _forget_rows(_logger: Any, _method: str, event: Any) -> Any:
    """The database quotes the row that broke a constraint, and a client's data with it: that part is left out."""
    info = event.get("exc_info")
    error = info[1] if isinstance(info, tuple) else info if isinstance(info, BaseException) else sys.exc_info()[1]
    while error is not None:
        if hasattr(error, "sqlstate"):
            error.detail = None  # type: ignore[union-attr]  # asyncpg's errors have one
        error = error.__cause__ or error.__context__
    return event


def _encode(event: Any, **_: Any) -> bytes:
    try:
        return msgspec.json.encode(event, enc_hook=str)
    except UnicodeEncodeError:
        # Broken text, such as half of a surrogate pair: the slower encoder escapes it.
        return json.dumps(event, default=str).encode()


class LibraryHandler(logging.Handler):
    """Libraries log through the standard module; their lines take our form."""

    def emit(self, record: logging.LogRecord) -> None:
        logger = structlog.get_logger()
        logger.log(record.levelno, record.getMessage(), source=record.name, exc_info=record.exc_info)
