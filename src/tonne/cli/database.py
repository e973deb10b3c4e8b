"""How a command reaches the database, and how it fails: one sentence, exit code 1."""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import asyncpg
import click

from tonne.base.errors import TonneError
from tonne.base.settings import Settings, SettingsError, load_settings
from tonne.db.embedded import DatabaseUnavailable, database_url, ensure_database
from tonne.db.migrate import MigrationError, require_migrated
from tonne.db.pool import Connection

T = TypeVar("T")


@contextlib.contextmanager
def plain_failures() -> Iterator[None]:
    """Turn what an operator can cause or mend into a sentence instead of a traceback."""
    try:
        yield
    except (SettingsError, DatabaseUnavailable, MigrationError, TonneError) as error:
        raise click.ClickException(str(error)) from error
    except asyncpg.CannotConnectNowError as error:
        raise click.ClickException("The database is just starting or stopping: try again in a moment.") from error
    except asyncpg.ClientConfigurationError as error:
        raise click.ClickException(f"TONNE_DATABASE_URL cannot be used: {error}.") from error
    except asyncpg.InvalidPasswordError as error:
        raise click.ClickException(f"The database refuses the login in TONNE_DATABASE_URL: {error}.") from error
    except (OSError, asyncpg.PostgresConnectionError, asyncpg.InvalidCatalogNameError) as error:
        raise click.ClickException(f"The database cannot be reached ({error}): check TONNE_DATABASE_URL.") from error


def settings_from_environment() -> Settings:
    return load_settings(os.environ)


@contextlib.contextmanager
def open_database(settings: Settings) -> Iterator[str]:
    """The address of a database that exists, embedded or the operator's own."""
    with database_url(settings) as url:
        if not settings.database_url:
            asyncio.run(ensure_database(url))
        yield url


async def with_connection(url: str, work: Callable[[Connection], Awaitable[T]]) -> T:
    connection: Connection = await asyncpg.connect(url, server_settings={"application_name": "tonne-cli", "jit": "off"})
    try:
        return await work(connection)
    finally:
        await connection.close()


def run_in_transaction(work: Callable[[Connection], Awaitable[T]]) -> T:
    """Run `work` in one transaction on a database whose schema is this release's."""

    async def checked(connection: Connection) -> T:
        await require_migrated(connection)
        async with connection.transaction():
            return await work(connection)

    with plain_failures(), open_database(settings_from_environment()) as url:
        return asyncio.run(with_connection(url, checked))
