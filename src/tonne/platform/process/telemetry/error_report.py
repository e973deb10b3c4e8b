"""What is reported about an unexpected error. The program that is set as `error_hook` gets it as JSON."""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct


class CodeLine(Struct, frozen=True):
    file: str
    function: str
    line: int
    text: str


class ReportedError(Struct, frozen=True):
    """The type of an exception, and where it was raised: the outermost call first."""

    type: str
    frames: Sequence[CodeLine]


class ErrorReport(Struct, frozen=True):
    # The name of the log line, such as request_failed or job_failed.
    event: str
    # api or worker.
    process: str
    release: str
    # In seconds since 1970.
    at: float
    # The exception, then its causes.
    errors: Sequence[ReportedError]
    # What the log line says about where it happened: request_id, trace_id, job, and ids of objects.
    ids: Mapping[str, str]
    # How many times the same error was not reported since the last report of it.
    repeats: int


Hook = Callable[[ErrorReport], None]
