"""tonne migrate"""

import asyncio

import click

from tonne.apps.cli.database import open_database, plain_failures, settings_from_environment, with_connection
from tonne.apps.cli.output import Format, Output, ValueColumn, columns, output_options
from tonne.platform.db.schema import migrate as migrations
from tonne.platform.db.schema.migration_plan import PlannedMigration, plan_migrations
from tonne.platform.db.schema.statement_locks import TableLock, Work

COLUMNS: tuple[ValueColumn[PlannedMigration], ...] = (
    ValueColumn("version", lambda each: each.migration.version, head="number"),
    ValueColumn("name", lambda each: each.migration.name.partition("_")[2]),
    *columns("migration.in_transaction: transaction", "migration.compatible_from", "previous_release_can_run"),
    *columns("rows_rewritten: rows rewritten (estimate)"),
    ValueColumn("batches", lambda each: each.batches, in_table=False),
    ValueColumn("statements", lambda each: len(each.migration.statements), in_table=False),
    ValueColumn(
        "locks",
        lambda each: [
            {"table": lock.table, "mode": lock.mode.value, "work": lock.work.value, "blocks_writers": _blocks(lock)}
            for lock in each.locks
        ],
        show=lambda each: ", ".join(map(_spell_lock, each.locks)) or "-",
        shrinks=True,
    ),
)


def _report(sentence: str) -> None:
    click.echo(sentence, err=True)


def _blocks(lock: TableLock) -> bool:
    return lock.mode.blocks_writers


def _spell_lock(lock: TableLock) -> str:
    return f"{lock.table}: {lock.mode}" + ("" if lock.work is Work.BRIEF else f" ({lock.work})")


@click.command()
@click.option("--plan", is_flag=True, help="Print what would be applied, with its locks, and change nothing.")
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(min=0),
    default=migrations.WAIT_S,
    show_default=True,
    help="Seconds to try to lock the tables of a migration, or to wait for another `tonne migrate`.",
)
@output_options
def migrate(output: Output, plan: bool, wait_s: float) -> None:
    """Apply pending database migrations. Servers of the previous release can keep running.

    A migration waits for a table for less than a second at a time, so that requests do not queue behind it, and tries
    again until --wait is over. With --plan, "previous release can run" says whether the servers of the installed
    release can serve requests after each migration. --json and --csv are for --plan.
    """
    if output.format is not Format.TABLE and not plan:
        raise click.UsageError("--json and --csv need --plan.")
    with plain_failures(), open_database(settings_from_environment()) as url:
        if plan:
            planned = asyncio.run(with_connection(url, plan_migrations))
            output.print_rows(planned, COLUMNS, empty="Nothing to do: the schema is up to date.")
            return
        applied = asyncio.run(with_connection(url, lambda connection: migrations.migrate(connection, wait_s, _report)))
    for migration in applied:
        click.echo(f"applied {migration.name}")
    if not applied:
        click.echo("Nothing to do: the schema is up to date.")
