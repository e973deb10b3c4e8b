"""tonne backup, tonne restore and tonne upgrade"""

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import click
import msgspec

from tonne.apps.cli.database import ACTOR, open_database, plain_failures, settings_from_environment, with_connection
from tonne.apps.cli.demo.demo import DEMO_FILE
from tonne.apps.cli.operations.doctor import broken_checks
from tonne.apps.cli.operations.hold import SUBJECT, hold_service
from tonne.apps.cli.progress import bars_on_terminal
from tonne.platform.db.database import Connection
from tonne.platform.db.operation_runs import record_run
from tonne.platform.db.schema.migrate import migrate, require_compatible
from tonne.platform.db.schema.migration_files import Migration
from tonne.platform.db.server import backup_file
from tonne.platform.db.server.backup import require_restorable, restore, write_backup
from tonne.platform.db.server.backup_file import BackupError
from tonne.platform.db.server.embedded import postgres_folder
from tonne.platform.db.server.upgrade import upgrade_postgres
from tonne.platform.events.audit.record import record
from tonne.platform.keys import secret_key_store as secret_store
from tonne.platform.keys.secret_box import SecretBox, key_file
from tonne.platform.process.private_files import create_private_folder, write_private_file
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import utc_now

PASSPHRASE = click.option(
    "--passphrase-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file with the passphrase that encrypts the secret key in the backup.",
)
_OWN_SERVER = (
    "TONNE_DATABASE_URL is set, and {command} is for the embedded database. {instead} See docs/operations.md, Backups."
)


class Restored(NamedTuple):
    """`migrations` were applied to the restored database, `broken` are the checks of the doctor that failed."""

    migrations: Sequence[Migration]
    broken: Sequence[str]


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), required=False)
@click.option("--without-key", is_flag=True, help="Leave the secret key out: you keep it in another place.")
@PASSPHRASE
@click.option("--verify", is_flag=True, help="Restore the backup into a temporary folder and check the data there.")
def backup(file: Path | None, without_key: bool, passphrase_file: Path | None, verify: bool) -> None:
    """Back up the embedded database while the service runs.

    FILE is a new file, by default tonne-<time>.zip in the current folder. It contains the database and the secret key
    that encrypts the secrets in it: keep it as safe as the database itself. With --passphrase-file the key in it is
    encrypted, with --without-key it is left out.

    FILE appears only when the backup is complete. `tonne restore` reads it.
    """
    with plain_failures(), backup_failures():
        settings = settings_from_environment()
        if settings.database_url:
            raise backup_file.BackupError(
                _OWN_SERVER.format(command="tonne backup", instead="Back up your own server with its own tools.")
            )
        if without_key and passphrase_file:
            raise click.UsageError("--without-key and --passphrase-file exclude each other.")
        path = (file or Path(f"tonne-{utc_now():%Y%m%dT%H%M%SZ}.zip")).absolute()
        key = None if without_key else _own_key(settings)
        with bars_on_terminal(), backup_file.new_backup(path) as writer:
            _add_files(writer, settings, key, passphrase_file)
            with open_database(settings) as url:
                manifest = asyncio.run(with_connection(url, lambda connection: _dump(connection, url, writer)))
        broken = _verify(path, settings, key) if verify else []
        with open_database(settings) as url:
            asyncio.run(with_connection(url, lambda connection: record_run(connection, "backup", 0, utc_now())))
            if verify:
                status = 1 if broken else 0
                tested = partial(record_run, operation="restore_test", status=status, at=utc_now())
                asyncio.run(with_connection(url, tested))
    _print_written(path, manifest, settings)
    if verify and not broken:
        click.echo("Verified: it was restored into a temporary folder, and all checks of the data passed.")
    if broken:
        raise click.ClickException(
            f"The backup can be restored, but {len(broken)} checks of its data failed: {', '.join(broken)}. The "
            "database has the same errors: run `tonne doctor`."
        )


@contextlib.contextmanager
def backup_failures() -> Iterator[None]:
    try:
        yield
    except backup_file.BackupError as error:
        raise click.ClickException(str(error)) from error


def _own_key(settings: Settings) -> bytes | None:
    """The key in the data folder. A key in the settings belongs to those, and is not part of a backup."""
    path = key_file(settings)
    return None if settings.secret_key or not path.exists() else path.read_bytes()


def _add_files(
    writer: backup_file.BackupWriter, settings: Settings, key: bytes | None, passphrase_file: Path | None
) -> None:
    demo = settings.data_path / DEMO_FILE
    if demo.exists():
        writer.add(DEMO_FILE, demo.read_bytes())
    if key is not None and passphrase_file is not None:
        writer.add(backup_file.SEALED_KEY, backup_file.seal_key(key, _read_passphrase(passphrase_file)))
    elif key is not None:
        writer.add(backup_file.KEY, key)


def _read_passphrase(path: Path) -> str:
    passphrase = path.read_text(encoding="utf-8").rstrip("\r\n")
    if not passphrase:
        raise backup_file.BackupError(f"{path} is empty: write the passphrase into it.")
    return passphrase


async def _dump(connection: Connection, url: str, writer: backup_file.BackupWriter) -> backup_file.Manifest:
    await require_compatible(connection)
    key_ids = await secret_store.list_key_ids(connection)
    manifest = await write_backup(connection, url, writer, key_ids=key_ids, now=utc_now())
    async with connection.transaction():
        rows = sum(manifest.tables.values())
        await record(
            connection,
            None,
            "service.backed_up",
            by=ACTOR.unbound.now(),
            subject_id=SUBJECT,
            rows=rows,
            with_key=backup_file.KEY in writer.files or backup_file.SEALED_KEY in writer.files,
        )
    return manifest


def _verify(path: Path, settings: Settings, key: bytes | None) -> Sequence[str]:
    """The checks that fail on a copy that is restored into a temporary folder."""
    known = msgspec.structs.replace(settings, secret_key=key.decode("ascii")) if key is not None else settings
    folder = Path(tempfile.mkdtemp(prefix=".tonne-verify-", dir=path.parent))
    try:
        with backup_file.open_backup(path) as opened, bars_on_terminal():
            opened.check()
            return restore_held(opened, folder / "postgres", known, lambda: None).broken
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _print_written(path: Path, manifest: backup_file.Manifest, settings: Settings) -> None:
    size = path.stat().st_size / 1024**2
    click.echo(f"{path}: {sum(manifest.tables.values())} rows in {len(manifest.tables)} tables, {size:.1f} MiB.")
    if backup_file.KEY in manifest.files:
        click.echo(
            "It contains the secret key, which decrypts all secrets in it. Keep it in a safe place, or use "
            "--passphrase-file."
        )
    elif backup_file.SEALED_KEY in manifest.files:
        click.echo("The secret key in it is encrypted: without the passphrase, the secrets in it are lost.")
    elif settings.secret_key:
        click.echo("It does not contain the secret key, which comes from TONNE_SECRET_KEY: keep that, too.")
    else:
        click.echo(f"It does not contain the secret key: keep {key_file(settings)}, too.")


@click.command("restore")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--key",
    "key_path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The secret key, if the backup does not contain it.",
)
@PASSPHRASE
def restore_command(file: Path, key_path: Path | None, passphrase_file: Path | None) -> None:
    """Restore a backup into an empty data folder (TONNE_DATA_DIR).

    The checksums are compared, migrations of this release are applied, and the data is checked as `tonne doctor` does.
    The restored service is held: it answers reads, but sends nothing and takes no number until `tonne resume`, so that
    a copy never charges or mails a customer a second time.
    """
    with plain_failures(), backup_failures():
        settings = settings_from_environment()
        if settings.database_url:
            instead = "Restore your own server with its own tools, then run `tonne hold`."
            raise backup_file.BackupError(_OWN_SERVER.format(command="tonne restore", instead=instead))
        folder = postgres_folder(settings)
        with backup_file.open_backup(file) as opened, bars_on_terminal():
            require_restorable(opened, folder)
            opened.check()
            key = choose_key(opened, settings, key_path, passphrase_file)
            known = settings if key is None else msgspec.structs.replace(settings, secret_key=key.strip())
            require_keys(opened.manifest, known)
            done = restore_held(opened, folder, known, lambda: _place_files(opened, settings, key))
            created_at = opened.manifest.created_at
    click.echo(f"Restored the backup of {created_at:%Y-%m-%d %H:%M:%S} UTC into {settings.data_path}.")
    if done.migrations:
        click.echo(f"Applied {len(done.migrations)} migration(s) of this release.")
    click.echo(
        "The service is held: it answers reads only. `tonne resume` shows what would be sent, and ends the hold."
    )
    if done.broken:
        raise click.ClickException(
            f"The data is restored, but {len(done.broken)} checks failed: {', '.join(done.broken)}. Run `tonne doctor`."
        )
    click.echo("All checks of the data passed.")


def choose_key(
    opened: backup_file.BackupFile, settings: Settings, key_path: Path | None, passphrase_file: Path | None
) -> str | None:
    """The key to write into the data folder. None if the settings or the folder have one, or none is needed."""
    if settings.secret_key or key_file(settings).exists():
        return None
    if key_path is not None:
        return key_path.read_text(encoding="ascii")
    if (plain := opened.read(backup_file.KEY)) is not None:
        return plain.decode("ascii")
    if (sealed := opened.read(backup_file.SEALED_KEY)) is not None:
        if passphrase_file is None:
            raise backup_file.BackupError("The secret key in the backup is encrypted: add --passphrase-file.")
        return backup_file.open_key(sealed, _read_passphrase(passphrase_file)).decode("ascii")
    if opened.manifest.key_ids:
        raise backup_file.BackupError(
            f"The backup does not contain the secret key {' and '.join(opened.manifest.key_ids)}: add --key, or set "
            "TONNE_SECRET_KEY."
        )
    return None


def require_keys(manifest: backup_file.Manifest, settings: Settings) -> None:
    if not manifest.key_ids:
        return
    missing = sorted(set(manifest.key_ids) - SecretBox.from_settings(settings).key_ids)
    if missing:
        raise backup_file.BackupError(
            f"The backup needs the secret key {' and '.join(missing)}, but the configured key is another one: set "
            "TONNE_SECRET_KEY and TONNE_SECRET_KEYS_OLD as they were on the machine of the backup."
        )


def restore_held(
    opened: backup_file.BackupFile, folder: Path, settings: Settings, place_files: Callable[[], None]
) -> Restored:
    reason = f"Restored from the backup of {opened.manifest.created_at:%Y-%m-%d %H:%M:%S} UTC"

    async def finish(connection: Connection) -> Restored:
        applied = await migrate(connection)
        async with connection.transaction():
            await hold_service(connection, reason)
        async with connection.transaction():
            return Restored(applied, await broken_checks(connection, settings))

    return restore(opened, folder, finish, place_files)


def _place_files(opened: backup_file.BackupFile, settings: Settings, key: str | None) -> None:
    create_private_folder(settings.data_path)
    if key is not None:
        write_private_file(key_file(settings), key.strip().encode("ascii"))
    if (demo := opened.read(DEMO_FILE)) is not None:
        write_private_file(settings.data_path / DEMO_FILE, demo)


@click.command("upgrade")
def upgrade() -> None:
    """Move the embedded database to this release's PostgreSQL.

    Needed once after installing a release that brings a newer major version of PostgreSQL; Tonne then refuses to start
    and names this command. Stop the service first. All rows are copied and counted. The old files stay in the data
    folder until you delete them.
    """
    with plain_failures():
        settings = settings_from_environment()
        if settings.database_url:
            raise click.ClickException(
                "TONNE_DATABASE_URL is set, and tonne upgrade is for the embedded database. Upgrade your own server "
                "with its own tools, such as pg_upgrade."
            )
        try:
            with bars_on_terminal():
                done = upgrade_postgres(postgres_folder(settings))
        except BackupError as error:
            raise click.ClickException(str(error)) from error
    if done is None:
        click.echo("Nothing to do: the database has the PostgreSQL version of this release.")
        return
    click.echo(f"Moved {done.rows} rows from PostgreSQL {done.from_major} to {done.to_major}.")
    click.echo(f"The old files are in {done.old_data}. Delete them when you no longer need them.")
