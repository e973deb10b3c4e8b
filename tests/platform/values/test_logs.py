"""Logs: one JSON object per line on standard error, from our code and from libraries."""

import asyncio
import io
import json
import subprocess
import sys
import textwrap
from typing import Any

from tonne.platform.process.telemetry.logs import MAX_COLLECTED, LogFile


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


class Written(io.BytesIO):
    """What each write has written."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[list[Any]] = []
        self.flushed = asyncio.Event()

    def flush(self) -> None:
        self.flushed.set()
        self.writes.append([json.loads(line) for line in self.getvalue().splitlines()])
        self.truncate(0)
        self.seek(0)


async def test_operations_20_lines_of_requests_are_collected_and_written_together() -> None:
    written = Written()
    file = LogFile(written, "test")
    for status in (200, 201, 404):
        file.collect({"status": status})
    assert written.writes == []
    await asyncio.wait_for(written.flushed.wait(), 10)
    [lines] = written.writes
    assert [line["status"] for line in lines] == [200, 201, 404]
    assert all(line["process"] == "test" and line["timestamp"].endswith("Z") for line in lines)


async def test_any_other_line_is_written_at_once_after_the_collected_ones() -> None:
    written = Written()
    file = LogFile(written, "test")
    for number, level in enumerate((file.info, file.warning, file.error)):
        file.collect({"number": number})
        level(b'{"number":"other"}')
    assert [[line["number"] for line in lines] for lines in written.writes] == [[n, "other"] for n in range(3)]


async def test_many_lines_do_not_wait_and_each_write_has_whole_lines_that_a_pipe_takes_at_once() -> None:
    written = Written()
    file = LogFile(written, "test")
    long = "x" * 5000
    for number in range(MAX_COLLECTED):
        file.collect({"number": number, "text": long if number == 7 else "short"})
    lines = [line for write in written.writes for line in write]
    assert [line["number"] for line in lines] == list(range(MAX_COLLECTED))
    # About ten writes of 4 KB, and one of the long line.
    assert 2 < len(written.writes) < 20
    assert [[line["number"] for line in write] for write in written.writes if write[0]["text"] == long] == [[7]]
    written.writes.clear()
    file.collect({"number": "next"})
    assert written.writes == []


def test_collected_lines_are_written_when_a_process_ends() -> None:
    """Also at the end of a process that multiprocessing has forked: there `atexit` does nothing."""
    body = """
    import asyncio, multiprocessing
    from tonne.platform.process.telemetry.logs import log_request

    def serve(status):
        configure_logs('info', 'child')

        async def request():
            log.info('before')
            log_request({'status': status, 'request_id': 'req_1'})

        asyncio.run(request())

    child = multiprocessing.get_context('fork').Process(target=serve, args=(200,))
    child.start()
    child.join()
    serve(404)
    """
    lines = _lines("info", body)
    assert [(line["event"], line.get("status")) for line in lines] == [
        ("before", None),
        ("request", 200),
        ("before", None),
        ("request", 404),
    ]
    assert _lines("warning", "from tonne.platform.process.telemetry.logs import log_request; log_request({})") == []
