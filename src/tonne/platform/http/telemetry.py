"""Starts and stops traces and reports of errors in a process."""

import socket

from tonne.platform.db.errors import REPEATABLE, is_database_unavailable, is_service_held
from tonne.platform.process.telemetry import error_reports, tracing
from tonne.platform.settings.settings import Settings
from tonne.platform.values.errors import TonneError


def require_telemetry(settings: Settings) -> None:
    """Raises SettingsError if an optional package or a hook is missing. Imports nothing else."""
    tracing.require_packages(settings)
    error_reports.require_hooks(settings)


def start_telemetry(settings: Settings, process: str) -> None:
    tracing.start(settings, process)
    error_reports.start(settings, process, is_expected)


def stop_telemetry() -> None:
    """Send what is left. Blocks for at most a few seconds."""
    error_reports.stop()
    tracing.stop()


def is_expected(error: BaseException) -> bool:
    """Signs of load, or of a database that is away: the metrics show them, and one outage is not a thousand errors."""
    if isinstance(error, TonneError) or is_service_held(error):
        return True
    if isinstance(error, OSError):
        # Not those of files, such as a folder that may not be written.
        return isinstance(error, (ConnectionError, TimeoutError, socket.gaierror))
    return is_database_unavailable(error) or isinstance(error, REPEATABLE)
