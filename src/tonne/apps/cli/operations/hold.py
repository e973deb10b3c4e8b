"""tonne hold, tonne resume and tonne record-run"""

from collections.abc import Sequence
from typing import NamedTuple

import click

from tonne.apps.cli.database import ACTOR, read_one_snapshot, run_in_transaction
from tonne.apps.cli.output import print_table
from tonne.apps.cli.parameters import REASON
from tonne.apps.wiring.queues import ALL_QUEUES
from tonne.platform.db.database import Connection
from tonne.platform.db.operation_runs import OPERATIONS, record_run
from tonne.platform.db.queues import ServiceHold, end_hold, read_hold, set_hold
from tonne.platform.events.audit.record import record
from tonne.platform.values.context import utc_now

# The queues whose rows make Tonne send something, move money or take a number once it runs again.
LEAVING = {
    "orders_received": "orders to price, and then to charge or invoice",
    "orders_placed": "orders to charge or invoice",
    "orders_paid": "orders to supply",
    "orders_retiring": "certificates to issue",
    "charges": "charges to make or to look up at the gateway",
    "refunds": "refunds to make or to look up at the gateway",
    "invoices": "invoices to mail, remind or cancel",
    "events": "events to send to webhooks",
    "events_failing": "events to send to webhooks that fail",
    "failing_webhooks": "webhooks to try again",
    "parked_accounts": "parked accounts to try again",
    "mails": "mails to send",
    "certificate_mails": "certificates to mail",
}
SUBJECT = "service"


class Leaving(NamedTuple):
    meaning: str
    mode: str
    rows: int


class Series(NamedTuple):
    """A series of numbers, and the last number that was taken."""

    name: str
    mode: str
    last_number: int


@click.command()
@click.option("--reason", type=REASON, required=True, help="Why, for the audit log and `tonne doctor`.")
def hold(reason: str) -> None:
    """Hold the service: it answers reads and sends nothing.

    No number is taken and no card is charged either. Run it after you have recovered your own PostgreSQL to a point in
    time, before you start Tonne. `tonne restore` does it by itself.

    Running processes notice within two seconds. They finish their work in progress, such as a request to a receiver.
    """
    if run_in_transaction(hold_service, reason):
        click.echo("The service is held. `tonne resume` ends the hold.")
    else:
        click.echo("The service was held already. `tonne resume` ends the hold.")


async def hold_service(tx: Connection, reason: str) -> bool:
    """False if the service is held already."""
    now = utc_now()
    held = await set_hold(tx, reason, by=ACTOR.at(now))
    if held:
        await record(tx, None, "service.held", by=ACTOR.at(now), subject_id=SUBJECT, reason=reason)
    return held


@click.command("record-run")
@click.argument("operation", type=click.Choice(OPERATIONS))
@click.argument("status", type=click.IntRange(0, 255), default=0)
def record_run_command(operation: str, status: int) -> None:
    """Record how a backup, restore test or doctor run ended.

    STATUS is its exit code, 0 if it succeeded. `tonne backup` and `tonne doctor` record it themselves; run this after a
    backup of your own PostgreSQL, and after a failure, as the units in deploy/systemd do. Alerts are based on it.
    """
    run_in_transaction(record_run, operation, status, utc_now())


@click.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
def resume(yes: bool) -> None:
    """End a hold, after showing what would be sent.

    Make sure first that no other copy of this database is in service: both would charge, mail and send the same.
    """
    held, leaving, series = run_in_transaction(_read)
    if held is None:
        click.echo("The service is not held.")
        return
    _print(held, leaving, series)
    if not yes:
        click.confirm("Have you made sure that no other copy of this database is in service? Resume?", abort=True)
    run_in_transaction(_resume)
    click.echo("Resumed. Running processes continue within two seconds.")


async def _read(tx: Connection) -> tuple[ServiceHold | None, list[Leaving], list[Series]]:
    await read_one_snapshot(tx)
    held = await read_hold(tx)
    return (held, await find_leaving(tx), await read_series_any_account(tx)) if held else (None, [], [])


async def find_leaving(tx: Connection) -> list[Leaving]:
    """What workers would do first after a hold."""
    return [
        Leaving(LEAVING[queue.name], row["mode"], row["depth"])
        for queue in ALL_QUEUES
        if queue.name in LEAVING
        for row in await tx.fetch(queue.sql)
        if row["depth"]
    ]


READ_SERIES = """
SELECT CASE series WHEN 'TN' THEN 'invoices' WHEN 'TS' THEN 'simplified invoices' ELSE 'credit notes' END AS name, mode,
       last_number
FROM document_series ORDER BY name, mode
"""


async def read_series_any_account(tx: Connection) -> list[Series]:
    return [Series(row["name"], row["mode"], row["last_number"]) for row in await tx.fetch(READ_SERIES)]


def _print(held: ServiceHold, leaving: Sequence[Leaving], series: Sequence[Series]) -> None:
    click.echo(f"Held since {held.held_at:%Y-%m-%d %H:%M} UTC by {held.held_by}: {held.reason}\n")
    if leaving:
        click.echo("Waiting, and processed once you resume:")
        print_table(("what", "mode", "count"), [(each.meaning, each.mode, str(each.rows)) for each in leaving])
    else:
        click.echo("Nothing is waiting to be sent.")
    click.echo(
        "\nAfter a restore, persons who were erased since the backup are there again: run `tonne person repeat` with "
        "your list of erasures first (docs/privacy.md)."
    )
    click.echo("\nThe next numbers. Compare them with the documents that customers have:")
    print_table(("series", "mode", "next"), [(each.name, each.mode, str(each.last_number + 1)) for each in series])
    click.echo("")


async def _resume(tx: Connection) -> None:
    ended = await end_hold(tx)
    if ended is not None:
        await record(
            tx,
            None,
            "service.resumed",
            by=ACTOR.now(),
            subject_id=SUBJECT,
            held_at=ended.held_at.isoformat(),
            held_by=ended.held_by,
            reason=ended.reason,
        )
