"""Which settings for reports of errors are valid."""

import re

_DSN = re.compile(r"https?://[^@/\s]+@[^@/\s]+/\S+", re.ASCII)


def find_telemetry_fault(sentry_dsn: str, error_hook: str) -> str | None:
    """What is wrong, and what to do. The DSN is not repeated: it contains a key."""
    if sentry_dsn and not _DSN.fullmatch(sentry_dsn):
        return "TONNE_SENTRY_DSN must be the DSN of a project in Sentry, such as https://key@sentry.example.com/1."
    if error_hook and not error_hook.startswith("/"):
        return f"TONNE_ERROR_HOOK: {error_hook!r} is not the absolute path of a program, such as /opt/report."
    return None
