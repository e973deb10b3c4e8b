"""The PostgreSQL server that comes with Tonne, used when `TONNE_DATABASE_URL` is not set."""

import contextlib
import fcntl
import threading
from collections.abc import Iterator
from io import TextIOWrapper
from pathlib import Path

import asyncpg
import structlog

from tonne.platform.db.schema.migrate import UnreleasedSchemaError
from tonne.platform.db.server.postmaster import DatabaseUnavailable, Postmaster, make_private_folder
from tonne.platform.settings.settings import Settings

DATABASE = "tonne"
CHECK_EVERY_S = 1.0
# Pause after a restart that failed, doubled up to the maximum: on a full disk there is nothing to do but wait.
MAX_RESTART_PAUSE_S = 8.0

_log = structlog.get_logger()


class EmbeddedServer:
    """A handle on the server in one folder. Any number of processes may hold one; the last one stops the server.

    Each process holds a shared lock on the file `users`, which the kernel releases when the process dies.
    """

    def __init__(self, postmaster: Postmaster, users: TextIOWrapper) -> None:
        self.postmaster = postmaster
        self._users = users
        self._closing = threading.Event()
        self._supervisor = threading.Thread(target=self._supervise, name="database-supervisor", daemon=True)
        self._supervisor.start()

    @property
    def socket_folder(self) -> str:
        return str(self.postmaster.socket_folder)

    def url(self, database: str) -> str:
        return self.postmaster.url(database)

    def close(self) -> None:
        self._closing.set()
        self._supervisor.join()
        with start_lock(self.postmaster.folder):
            fcntl.flock(self._users, fcntl.LOCK_UN)
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(self._users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self.postmaster.stop()
            self._users.close()

    def _supervise(self) -> None:
        """Restart a server that has ended, after a crash, an OOM kill or a full disk, until it runs again."""
        pause_s = CHECK_EVERY_S
        while not self._closing.wait(pause_s):
            pause_s = CHECK_EVERY_S if self._restart_if_down() else min(MAX_RESTART_PAUSE_S, pause_s * 2)

    def _restart_if_down(self) -> bool:
        if self.postmaster.running() is not None:
            return True
        _log.error("database_down", folder=str(self.postmaster.folder))
        try:
            with start_lock(self.postmaster.folder):
                self.postmaster.start(keep_waiting=lambda: not self._closing.is_set())
        except (DatabaseUnavailable, OSError) as error:
            _log.error("database_not_restarted", reason=str(error))
            return False
        _log.warning("database_restarted")
        return True


@contextlib.contextmanager
def database_url(settings: Settings) -> Iterator[str]:
    """The URL of the database in use. Without `TONNE_DATABASE_URL` the embedded server is started and supervised."""
    if settings.database_url:
        yield settings.database_url
        return
    folder = postgres_folder(settings)
    server = start_server(folder)
    try:
        yield server.url(DATABASE)
    except UnreleasedSchemaError as error:
        raise UnreleasedSchemaError(f"delete the folder {folder} and start again.") from error
    finally:
        server.close()


def postgres_folder(settings: Settings) -> Path:
    return settings.data_path / "postgres"


def start_server(folder: Path) -> EmbeddedServer:
    """Start the server in `folder`, or join the one that runs there."""
    postmaster = Postmaster(folder)
    make_private_folder(postmaster.folder)
    users = (postmaster.folder / "users").open("a")
    try:
        with start_lock(postmaster.folder):
            # Before the start, so that nobody who leaves now stops the server again.
            fcntl.flock(users, fcntl.LOCK_SH)
            postmaster.prepare()
            postmaster.start()
    except BaseException:
        users.close()
        raise
    return EmbeddedServer(postmaster, users)


@contextlib.contextmanager
def start_lock(folder: Path) -> Iterator[None]:
    """Only one process at a time starts or stops the server."""
    with (folder / "lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


CREATE_DATABASE = f"CREATE DATABASE {DATABASE} TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'"


async def ensure_database(url: str) -> None:
    """Create the embedded server's database at its first start. Locale C sorts text by bytes, the same everywhere."""
    connection = await asyncpg.connect(url.replace(f"/{DATABASE}?", "/postgres?"))
    try:
        if not await connection.fetchval("SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", DATABASE):
            with contextlib.suppress(asyncpg.DuplicateDatabaseError):
                await connection.execute(CREATE_DATABASE)
    finally:
        await connection.close()
