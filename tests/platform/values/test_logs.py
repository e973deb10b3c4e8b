"""Logs: one JSON object per line on standard error, from our code and from libraries."""

import json
import subprocess
import sys
import textwrap
from typing import Any


def _lines(level: str, body: str) -> list[dict[str, Any]]:
    """The log of a new process: the configuration is global and would leak into other tests."""
    code = (
        "import logging, structlog\nfrom tonne.platform.process.telemetry.logs import configure_logs\n"
        f"configure_logs({level!r}, 'test')\n"
        f"log = structlog.get_logger()\n{textwrap.dedent(body)}"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == b""
    return [json.loads(line) for line in done.stderr.splitlines()]


def test_a_line_has_event_level_time_process_and_its_own_fields() -> None:
    [line] = _lines("info", "log.info('request', status=201, ms=1.5)")
    assert line.pop("timestamp").endswith("Z")
    assert line == {"event": "request", "level": "info", "process": "test", "status": 201, "ms": 1.5}


def test_lines_below_the_level_are_not_written() -> None:
    assert _lines("warning", "log.debug('a'); log.info('b')") == []
    assert [line["event"] for line in _lines("debug", "log.debug('a'); log.error('b')")] == ["a", "b"]


def test_warnings_of_libraries_have_the_same_format() -> None:
    body = (
        "logging.getLogger('some.library').warning('slow %s', 'thing'); logging.getLogger('some.library').info('chat')"
    )
    [line] = _lines("debug", body)
    assert (line["event"], line["level"], line["source"]) == ("slow thing", "warning", "some.library")


def test_an_exception_is_one_line_with_its_traceback() -> None:
    body = """
    try:
        1 / 0
    except ZeroDivisionError:
        log.exception('job_failed', job='x')
        logging.getLogger('lib').exception('also')
    """
    ours, theirs = _lines("info", body)
    for line in (ours, theirs):
        assert line["level"] == "error"
        assert "ZeroDivisionError" in line["exception"]


def test_a_line_break_or_quote_in_a_field_cannot_forge_a_line() -> None:
    forged = 'x\n{"event": "forged"}\r\u2028'
    [line] = _lines("info", f"log.info('request', path={forged!r})")
    assert line["path"] == forged


def test_values_of_other_types_are_written_as_text() -> None:
    body = """
    import decimal, pathlib
    log.info('x', amount=decimal.Decimal('1.50'), path=pathlib.Path('/a'), kind=object)
    """
    [line] = _lines("info", body)
    assert line["amount"] == "1.50"
    assert line["path"] == "/a"
    assert "object" in line["kind"]


def test_invalid_unicode_is_logged() -> None:
    """File names and headers may contain lone surrogates; the log call must not raise."""
    lines = _lines("info", r"log.info('request', path='\ud800/x'); log.info('after')")
    assert [line["event"] for line in lines] == ["request", "after"]


def test_operations_12_warnings_and_errors_are_counted_by_event() -> None:
    body = """
    from tonne.platform.process.telemetry.logs import LOGGED
    log.info('request')
    log.warning('account_parked', account_id='acc_1')
    try:
        1 / 0
    except ZeroDivisionError:
        log.exception('job_failed', job='x')
    logging.getLogger('some.library').warning('text of %s', 'a client')
    log.info('counted', series=LOGGED.snapshot().series)
    """
    series = _lines("info", body)[-1]["series"]
    assert series == [
        [["warning", "account_parked"], [1]],
        [["error", "job_failed"], [1]],
        [["warning", "library"], [1]],
    ]
