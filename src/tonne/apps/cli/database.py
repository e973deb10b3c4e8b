"""Running a use case from a command. Failures the operator can fix become one sentence and exit code 1.

Work that only reads runs in several short transactions, on the replica while there is one.
"""

import asyncio
import contextlib
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Concatenate, ParamSpec, TypeVar

import asyncpg
import click

from tonne.apps.cli.operator import CommandLine, refuse_login
from tonne.apps.cli.progress import bars_on_terminal
from tonne.apps.wiring.listeners import connect_listeners
from tonne.platform.db.database import Connection
from tonne.platform.db.errors import DATABASE_ERRORS, REPEATABLE, is_database_unavailable, is_service_held
from tonne.platform.db.replica import RECOVERY_CONFLICTS, read_written, wait_until_replayed
from tonne.platform.db.schema.migrate import MigrationError, require_compatible
from tonne.platform.db.server.embedded import database_url, ensure_database
from tonne.platform.db.server.hosts import connect_to_any
from tonne.platform.db.server.postmaster import DatabaseUnavailable
from tonne.platform.db.session_settings import NO_LIMITS, RoleSettingsMissing
from tonne.platform.settings.load_settings import kubernetes_variables, load_settings
from tonne.platform.settings.settings import Settings, SettingsError
from tonne.platform.values.context import Scope, utc_now
from tonne.platform.values.errors import TonneError
from tonne.selling.accounts.lookup import require_account_any_account
from tonne.selling.orders.errors import OrderNotFound
from tonne.selling.orders.scope_store import find_scope_any_account
from tonne.selling.users.personal_tokens import find_by_token

P = ParamSpec("P")
T = TypeVar("T")
ACTOR = CommandLine()
# Commands have no time limits but this one: a person waits.
CONNECT_WITHIN_S = 10.0
CONFLICT = (
    "The replica cancelled a query, because it needed rows that the primary has removed. To avoid this, set "
    "hot_standby_feedback = on in the replica."
)
HELD = "The service is held, so it takes no number and moves no money. Nothing was changed."


@contextlib.contextmanager
def plain_failures() -> Iterator[None]:
    """Print one sentence instead of a traceback, all errors of an invalid value included."""
    try:
        yield
    except TonneError as error:
        raise click.ClickException(" ".join(fault.message for fault in error.faults)) from error
    except (SettingsError, DatabaseUnavailable, MigrationError, RoleSettingsMissing) as error:
        raise click.ClickException(str(error)) from error
    except asyncpg.CannotConnectNowError as error:
        raise click.ClickException("The database is starting up or shutting down. Try again in a moment.") from error
    except asyncpg.ClientConfigurationError as error:
        raise click.ClickException(f"TONNE_DATABASE_URL is not valid: {error}.") from error
    except asyncpg.InvalidAuthorizationSpecificationError as error:
        raise click.ClickException(f"The database rejected the login in TONNE_DATABASE_URL: {error}.") from error
    except asyncpg.InsufficientPrivilegeError as error:
        raise click.ClickException(f"The role in TONNE_DATABASE_URL may not do this ({error}).") from error
    except ssl.SSLError as error:
        raise click.ClickException(_tls_failure(error)) from error
    except DATABASE_ERRORS as error:
        if is_service_held(error):
            raise click.ClickException(f"{HELD} Run `tonne resume` first.") from error
        if isinstance(error, REPEATABLE):
            raise click.ClickException(
                f"The database cancelled a statement ({error}). Run the command again."
            ) from error
        if not is_database_unavailable(error) and not isinstance(error, asyncpg.InvalidCatalogNameError):
            raise
        is_full = isinstance(error, asyncpg.DiskFullError)
        full, away = (
            "The disk of the database is full ({}).",
            "Cannot connect to the database ({}). Check TONNE_DATABASE_URL.",
        )
        raise click.ClickException((full if is_full else away).format(error)) from error


def _tls_failure(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"The certificate of the database server is not trusted ({error.verify_message}). In TONNE_DATABASE_URL, "
            "set sslrootcert to the file with the certificate of the authority that issued it, and write the host as "
            "in the certificate."
        )
    return (
        f"The TLS connection to the database failed ({error.reason or error}). Check sslmode, sslrootcert, sslcert and "
        "sslkey in TONNE_DATABASE_URL."
    )


def settings_from_environment() -> Settings:
    with plain_failures():
        settings = load_settings(os.environ)
    if ignored := kubernetes_variables(os.environ):
        others = f" and {len(ignored) - 1} more" if len(ignored) > 1 else ""
        click.echo(
            f"Warning: {ignored[0]}{others} ignored: Kubernetes sets them for a Service named tonne. To avoid this, "
            "set enableServiceLinks: false in the pod, or give the Service another name.",
            err=True,
        )
    return settings


@contextlib.contextmanager
def open_database(settings: Settings) -> Iterator[str]:
    """The URL that leads to the configured PostgreSQL itself, or to the embedded one, started and created if needed."""
    connect_listeners()
    with database_url(settings) as url:
        if not settings.database_url:
            asyncio.run(ensure_database(url))
        yield settings.database_direct_url or url


async def with_connection(url: str, work: Callable[[Connection], Awaitable[T]]) -> T:
    connection = await connect(url)
    try:
        return await work(connection)
    finally:
        await connection.close()


async def connect(url: str) -> Connection:
    # A role may have limits, which are for the service behind a pooler: a command takes as long as its rows need.
    settings = {"application_name": "tonne-cli", "jit": "off", "lock_timeout": "0", **NO_LIMITS}
    return await connect_to_any(url, within_s=CONNECT_WITHIN_S, server_settings=settings)


def run_in_transaction(
    work: Callable[Concatenate[Connection, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Run `work(tx, ...)` in one transaction, on a database whose migrations are all applied."""

    async def in_transaction(connection: Connection, _: Settings) -> T:
        async with connection.transaction():
            return await work(connection, *args, **kwargs)

    return run_connected(in_transaction)


def run_connected(work: Callable[[Connection, Settings], Awaitable[T]]) -> T:
    """Like `run_in_transaction`, for work that uses several transactions."""

    async def checked(connection: Connection) -> T:
        await require_ready(connection)
        return await work(connection, settings)

    with plain_failures():
        settings = settings_from_environment()
        with open_database(settings) as url, bars_on_terminal():
            return asyncio.run(with_connection(url, checked))


async def require_ready(connection: Connection) -> None:
    """All migrations are applied, and the token of the login belongs to its user: the file only says whose it is."""
    await require_compatible(connection)
    login = ACTOR.login
    if login is not None:
        found = await find_by_token(connection, login.token, utc_now())
        if found is None or found.user.id != login.user_id:
            raise refuse_login()


async def open_replica(primary: Connection, settings: Settings) -> Connection | None:
    """A connection to the replica, if there is one that catches up in time. Says which of the two is read."""
    if not settings.database_replica_url:
        return None
    try:
        replica = await connect(settings.database_replica_url)
    except DATABASE_ERRORS as error:
        click.echo(f"Reading from the primary: the replica cannot be reached ({error}).", err=True)
        return None
    try:
        if await wait_until_replayed(replica, await read_written(primary), settings.database_replica_lag_s):
            click.echo("Reading from the replica.", err=True)
            return replica
        click.echo("Reading from the primary: the replica is too far behind, or is no replica.", err=True)
    except DATABASE_ERRORS as error:
        click.echo(f"Reading from the primary: the replica was lost ({error!r}).", err=True)
    await replica.close()
    return None


def run_in_snapshot(work: Callable[[Connection], Awaitable[T]], *, repeatable: bool = True) -> T:
    """Run `work(tx)` in one read-only snapshot with all that was committed before.

    It runs on the replica if there is one that catches up in time, and otherwise on the primary. If the replica is lost
    or cancels a query, `repeatable` work runs again on the primary.
    """

    async def read(connection: Connection) -> T:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            return await work(connection)

    async def choose(connection: Connection) -> T:
        await require_compatible(connection)
        replica = await open_replica(connection, settings)
        if replica is None:
            return await read(connection)
        try:
            return await read(replica)
        except DATABASE_ERRORS as error:
            if isinstance(error, RECOVERY_CONFLICTS):
                why = CONFLICT
            elif is_database_unavailable(error):
                why = f"The replica was lost ({error!r})."
            else:
                raise
            if not repeatable:
                raise click.ClickException(f"{why} Run the command again.") from error
            click.echo(f"{why} Reading from the primary.", err=True)
            return await read(connection)
        finally:
            await replica.close()

    with plain_failures():
        settings = settings_from_environment()
        with open_database(settings) as url, bars_on_terminal():
            return asyncio.run(with_connection(url, choose))


READ_ONE_SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"


async def read_one_snapshot(tx: Connection) -> None:
    """All statements of the transaction see the same data, and none may change any. Call it first."""
    await tx.execute(READ_ONE_SNAPSHOT)


def run_for_account(
    account_id: str,
    work: Callable[Concatenate[Connection, Scope, P], Awaitable[T]],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Like `run_in_transaction`, with the scope of the account as the second argument of `work`."""

    async def scoped(tx: Connection) -> T:
        account = await require_account_any_account(tx, account_id)
        return await work(tx, account.scope, *args, **kwargs)

    return run_in_transaction(scoped)


def run_for_order(
    order_id: str,
    work: Callable[Concatenate[Connection, Scope, str, P], Awaitable[T]],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Like `run_in_transaction`, with the scope and the id of the order as the next arguments of `work`."""

    async def scoped(tx: Connection) -> T:
        scope = await find_scope_any_account(tx, order_id)
        if scope is None:
            raise OrderNotFound
        return await work(tx, scope, order_id, *args, **kwargs)

    return run_in_transaction(scoped)


# A replica may cancel the same work this often before it is done on the primary.
FAILURES = 3


class Readers:
    """Connections to one server, each for one piece of work at a time.

    Every piece of work is a transaction of its own: a snapshot that is held for minutes keeps the primary from removing
    old rows. If the replica is lost, or keeps cancelling the work, all goes on on the primary.
    """

    def __init__(self, primary_url: str, replica_url: str | None = None) -> None:
        self._urls = {"primary": primary_url, "replica": replica_url or primary_url}
        self._connections: dict[tuple[str, int], Connection] = {}
        # The server that is read now: primary or replica.
        self.server = "replica" if replica_url else "primary"

    async def run(self, place: int, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Run `work(tx)` in a transaction that only reads, on the connection of this place. It may run repeatedly."""
        failures = 0
        while True:
            server = self.server
            try:
                connection = await self._connection(server, place)
            except DATABASE_ERRORS as error:
                if server == "primary":
                    raise
                self._leave_replica(f"The replica was lost ({error!r}).")
                continue
            try:
                async with connection.transaction(readonly=True):
                    return await work(connection)
            except DATABASE_ERRORS as error:
                # A replica may cancel a query, or end the connection: then asyncpg reports only that it is closed.
                is_cancelled = isinstance(error, RECOVERY_CONFLICTS) or connection.is_closed()
                if server == "primary" or not (is_cancelled or is_database_unavailable(error)):
                    raise
                failures += 1
                if failures == FAILURES:
                    self._leave_replica(CONFLICT)

    async def write(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Run `work(tx)` in a transaction on the primary."""
        connection = await self._connection("primary", 0)
        async with connection.transaction():
            return await work(connection)

    async def close(self) -> None:
        for connection in self._connections.values():
            # A connection that is broken already cannot be closed properly.
            with contextlib.suppress(*DATABASE_ERRORS):
                await connection.close(timeout=1)

    async def _connection(self, server: str, place: int) -> Connection:
        connection = self._connections.get((server, place))
        if connection is None or connection.is_closed():
            connection = self._connections[server, place] = await connect(self._urls[server])
        return connection

    def _leave_replica(self, why: str) -> None:
        if self.server == "replica":
            self.server = "primary"
            click.echo(f"{why} Reading from the primary.", err=True)


@contextlib.asynccontextmanager
async def open_readers(primary_url: str, replica_url: str | None = None) -> AsyncIterator[Readers]:
    readers = Readers(primary_url, replica_url)
    try:
        yield readers
    finally:
        await readers.close()


def run_with_readers(work: Callable[[Readers], Awaitable[T]]) -> T:
    """Run `work(readers)` on a replica that has all that was committed before, or else on the primary."""

    async def choose(url: str) -> T:
        connection = await connect(url)
        try:
            await require_compatible(connection)
            replica = await open_replica(connection, settings)
            if replica is not None:
                await replica.close()
        finally:
            await connection.close()
        async with open_readers(url, settings.database_replica_url if replica else None) as readers:
            return await work(readers)

    with plain_failures():
        settings = settings_from_environment()
        with open_database(settings) as url, bars_on_terminal():
            return asyncio.run(choose(url))
