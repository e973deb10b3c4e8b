"""tonne reindex"""

import click

from tonne.apps.cli.database import run_connected
from tonne.apps.cli.output import Format, Output, ValueColumn, columns, output_options
from tonne.platform.db.database import Connection
from tonne.platform.db.schema.reindex import Index, drop_left_over, list_indexes, lock_reindexing, rebuild
from tonne.platform.settings.settings import Settings

MEGABYTE = 1_000_000
COLUMNS: tuple[ValueColumn[Index], ...] = (
    *columns("name: index", "table"),
    ValueColumn("bytes", lambda each: each.bytes, head="size", show=lambda each: _megabytes(each.bytes)),
)


def _megabytes(size: int) -> str:
    return f"{size / MEGABYTE:,.1f} MB"


@click.command()
@click.argument("tables", nargs=-1)
@click.option("--plan", is_flag=True, help="Print what would be rebuilt, and rebuild nothing.")
@click.option(
    "--at-least",
    "at_least_mb",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="Leave out indexes that are smaller than this many MB.",
)
@output_options
def reindex(output: Output, tables: tuple[str, ...], plan: bool, at_least_mb: int) -> None:
    """Rebuild indexes, which frees about a third of their space. The service can keep running.

    TABLES are tables or partitions (events_2026_10); all, if none is named. One index is rebuilt after the other, and
    needs its own size of free disk space meanwhile. If the command is interrupted, run it again: it removes what is
    left of the index that it was at. --json and --csv are for --plan.
    """
    if output.format is not Format.TABLE and not plan:
        raise click.UsageError("--json and --csv need --plan.")

    async def run(connection: Connection, _: Settings) -> None:
        if not plan and not await lock_reindexing(connection):
            raise click.ClickException("Another `tonne reindex` is running. Wait until it has finished.")
        for index in [] if plan else await drop_left_over(connection):
            click.echo(f"Removed {index.name}, which an interrupted run has left.")
        found = await list_indexes(connection, at_least_mb * MEGABYTE, tables)
        if plan or not found:
            output.print_rows(found, COLUMNS, empty=f"No index of these tables has {at_least_mb} MB or more.")
            return
        before = after = 0
        async for index, size in rebuild(connection, found):
            click.echo(f"{index.name}: {_megabytes(index.bytes)}, now {_megabytes(size)}")
            before, after = before + index.bytes, after + size
        click.echo(f"Rebuilt {len(found)} indexes: {_megabytes(before)}, now {_megabytes(after)}.")

    run_connected(run)
