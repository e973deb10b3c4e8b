"""tonne archive"""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import click
from msgspec import Struct

from tonne.apps.cli.database import ACTOR, run_connected
from tonne.apps.cli.output import Output, ValueColumn, columns, output_options
from tonne.apps.privacy.retention.archive_file import ArchiveError, check_contents
from tonne.apps.privacy.retention.check_archives import find_incomplete
from tonne.apps.privacy.retention.removal_store import RemovedPartition, list_archived, list_removed
from tonne.apps.privacy.retention.remove_partitions import NotRemoved, find_due, remove_due
from tonne.platform.db.database import Connection
from tonne.platform.db.schema.partitions import PARTITIONED, list_partitions
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import same_named, utc_now


class ListedPartition(Struct, frozen=True):
    """`state` is current, due (to be removed) or removed."""

    name: str
    table: str
    state: str
    starts_at: datetime | None
    ends_at: datetime
    rows: int | None
    removed_at: datetime | None = None
    file_name: str | None = None
    sha256: str | None = None


COLUMNS: tuple[ValueColumn[ListedPartition], ...] = (
    ValueColumn("partition", lambda p: p.name),
    *columns("table", in_table=False),
    ValueColumn("state", lambda p: p.state),
    *columns("starts_at: from", "ends_at: until"),
    ValueColumn("rows", lambda p: p.rows, align_right=True),
    *columns("removed_at: removed", "file_name: archive"),
    *columns("sha256", in_table=False),
)


@click.group()
def archive() -> None:
    """List, write and verify archives of rows that are removed.

    Events, delivery attempts, mails and the files of invoices are kept in monthly partitions. A worker removes those
    that are older than TONNE_EVENTS_DAYS, TONNE_WEBHOOK_ATTEMPTS_DAYS, TONNE_MAILS_DAYS and
    TONNE_DOCUMENT_RETENTION_YEARS, after it has archived the files and the tables in TONNE_ARCHIVE_TABLES.
    """


@archive.command("list")
@output_options
def list_(output: Output) -> None:
    """List the partitions: current, due to be removed, and removed."""
    output.print_rows(run_connected(_list), COLUMNS, empty="There is no partition.")


async def _list(connection: Connection, settings: Settings) -> list[ListedPartition]:
    due = {partition.name for _, partition in await find_due(connection, settings, utc_now)}
    removed = [
        same_named(ListedPartition, each, table=each.table_name, state="removed", rows=each.row_count)
        for each in await list_removed(connection)
    ]
    current = [
        ListedPartition(
            each.name,
            table.name,
            "due" if each.name in due else "current",
            each.start,
            each.end,
            rows=await _estimate(connection, each.name),
        )
        for table in PARTITIONED
        for each in await list_partitions(connection, table)
    ]
    return sorted([*removed, *current], key=lambda each: (each.table, each.ends_at))


ESTIMATE = "SELECT nullif(reltuples, -1)::bigint FROM pg_class WHERE oid = to_regclass($1)"


async def _estimate(connection: Connection, name: str) -> int | None:
    """The number of rows, as the last ANALYZE has found it."""
    rows: int | None = await connection.fetchval(ESTIMATE, name)
    return rows


@archive.command()
def run() -> None:
    """Archive and remove what is due now, instead of waiting for a worker.

    Says why a partition cannot be removed: a webhook has not got all its events, or a mail waits. The archives are
    written by this command, so run it on the machine with the archive folder.
    """
    try:
        outcomes = run_connected(lambda connection, settings: remove_due(connection, settings, utc_now, ACTOR.actor))
    except ArchiveError as error:
        raise click.ClickException(str(error)) from error
    kept = [outcome for outcome in outcomes if isinstance(outcome, NotRemoved)]
    for outcome in outcomes:
        if isinstance(outcome, RemovedPartition):
            where = f", archived in {outcome.file_name}" if outcome.file_name else ", without an archive"
            click.echo(f"Removed {outcome.name}: {outcome.row_count} rows{where}.")
    if not outcomes:
        click.echo("No partition is due. `tonne archive list` shows them all.")
    if kept:
        raise click.ClickException(" ".join(f"{each.partition} was not removed: {each.reason}." for each in kept))


@archive.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path), required=False)
def verify(folder: Path | None) -> None:
    """Read all archives and compare them with their checksums.

    FOLDER is the folder of the archives, by default TONNE_ARCHIVE_DIR.
    """
    checked, problems = run_connected(lambda connection, settings: _verify(connection, folder or settings.archive_path))
    for problem in problems:
        click.echo(problem, err=True)
    if problems:
        raise click.ClickException(f"{len(problems)} of {checked} archives are missing or damaged.")
    click.echo(f"{checked} archives are complete." if checked else "There is no archive yet.")


async def _verify(connection: Connection, folder: Path) -> tuple[int, Sequence[str]]:
    archives = await list_archived(connection)
    return len(archives), find_incomplete(archives, folder, check_contents)
