"""tonne restore-test"""

import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from urllib.parse import quote, urlsplit

import click
import msgspec

from tonne.apps.cli.database import open_database, plain_failures, settings_from_environment, with_connection
from tonne.apps.cli.operations.backup import (
    PASSPHRASE,
    backup_failures,
    choose_key,
    require_keys,
    restore_held,
)
from tonne.apps.cli.operations.doctor import broken_checks
from tonne.apps.cli.progress import bars_on_terminal
from tonne.platform.db.database import Connection
from tonne.platform.db.errors import DATABASE_ERRORS
from tonne.platform.db.operation_runs import record_run
from tonne.platform.db.schema.migrate import migrate
from tonne.platform.db.server.backup import remove_server
from tonne.platform.db.server.backup_file import KEY, SEALED_KEY, BackupError, open_backup
from tonne.platform.db.server.postmaster import RESTORING, DatabaseUnavailable
from tonne.platform.db.server.restored import DATA, restored_server
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import utc_now

FOLDER = "restore-test"
PGBACKREST = f"pgbackrest --stanza=tonne --pg1-path={DATA} --archive-mode=off restore"


@click.command("restore-test")
@click.argument("backup", type=click.Path(exists=True, path_type=Path), required=False)
@PASSPHRASE
@click.option("--restore-with", "command", metavar="COMMAND", help="Instead of pgBackRest, see below.")
def restore_test(backup: Path | None, passphrase_file: Path | None, command: str | None) -> None:
    """Restore the newest backup beside the data, check it, remove it.

    With the embedded database, BACKUP is a file of `tonne backup`, or a folder of which the newest file is tested. The
    key in it is used, so that a backup without its key is noticed.

    With your own PostgreSQL, COMMAND restores the newest backup into the new folder {data}, by default
    `pgbackrest --stanza=tonne --pg1-path={data} --archive-mode=off restore`. A server of the same version is started
    there, replays what was archived since, and can be reached by nobody else. Run it as a user who may read the
    backups, such as postgres.

    Both are in the folder `restore-test` of the data folder, which needs space for a second database and is removed at
    the end. The data is checked as `tonne doctor` does. How the test ended is recorded, and alerts are based on it: the
    exit code is 0 if the backup can be used, and 1 if not, with the reason.
    """
    with plain_failures(), backup_failures():
        settings = settings_from_environment()
        if settings.database_url:
            _require(backup is None, "TONNE_DATABASE_URL is set: leave BACKUP out.")
            test = partial(_test_own_server, settings, command or PGBACKREST)
        else:
            _require(command is None, "--restore-with is for your own PostgreSQL: name BACKUP instead.")
            if backup is None:
                raise click.UsageError("Name the file of the backup, or the folder with the backups.")
            test = partial(_test_file, settings, backup, passphrase_file)
        try:
            with bars_on_terminal():
                broken = test()
        except Exception:
            # The reason is more important than a database that cannot record it.
            with contextlib.suppress(DatabaseUnavailable, *DATABASE_ERRORS):
                _record(settings, 1)
            raise
        _record(settings, 1 if broken else 0)
    if broken:
        raise click.ClickException(
            f"The backup can be restored, but {len(broken)} checks of its data failed: {', '.join(broken)}. Run `tonne "
            "doctor`: if the database has the same errors, they are older than the backup."
        )
    click.echo("The backup was restored and removed again, and all checks of its data passed.")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise click.UsageError(message)


def _newest(backup: Path) -> Path:
    if not backup.is_dir():
        return backup
    files = sorted(backup.glob("*.zip"), key=lambda file: file.stat().st_mtime)
    if not files:
        raise BackupError(f"{backup} has no backup (*.zip): make one with `tonne backup`.")
    return files[-1]


def _test_file(settings: Settings, backup: Path, passphrase_file: Path | None) -> Sequence[str]:
    file, folder = _newest(backup), settings.data_path / FOLDER
    click.echo(f"Testing {file}.", err=True)
    _remove(folder)
    try:
        with open_backup(file) as opened:
            opened.check()
            known = settings
            if {KEY, SEALED_KEY} & opened.manifest.files.keys():
                elsewhere = msgspec.structs.replace(settings, secret_key="", data_dir=str(folder))
                key = choose_key(opened, elsewhere, None, passphrase_file)
                known = msgspec.structs.replace(settings, secret_key=(key or "").strip())
            require_keys(opened.manifest, known)
            return restore_held(opened, folder, known, lambda: None).broken
    finally:
        _remove(folder)


def _remove(folder: Path) -> None:
    """Also what a test that was killed has left, with its server."""
    remove_server(folder / RESTORING)
    remove_server(folder)


def _test_own_server(settings: Settings, command: str) -> Sequence[str]:
    async def check(connection: Connection) -> Sequence[str]:
        await migrate(connection)
        async with connection.transaction():
            return await broken_checks(connection, settings)

    with restored_server(settings.data_path / FOLDER, command) as server:
        live = urlsplit(settings.database_direct_url or settings.database_url)
        user = live.netloc.rpartition("@")[0].partition(":")[0] or "postgres"
        url = f"postgresql://{user}@/{live.path.strip('/') or user}?host={quote(str(server.socket_folder))}"
        return asyncio.run(with_connection(url, check))


def _record(settings: Settings, status: int) -> None:
    recorded = partial(record_run, operation="restore_test", status=status, at=utc_now())
    with open_database(settings) as url:
        asyncio.run(with_connection(url, recorded))
