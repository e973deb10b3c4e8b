"""tonne upgrade"""

import click

from tonne.apps.cli.database import plain_failures, settings_from_environment
from tonne.apps.cli.progress import bars_on_terminal
from tonne.platform.db.server.backup_file import BackupError
from tonne.platform.db.server.embedded import postgres_folder
from tonne.platform.db.server.upgrade import upgrade_postgres


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
