"""tonne doctor"""

import click

from tonne.cards.invariants import INVARIANTS as PAYMENTS
from tonne.checkout.invariants import INVARIANTS as CHECKOUTS
from tonne.cli.database import run_in_transaction
from tonne.db.invariant import Invariant
from tonne.db.pool import Connection
from tonne.events.invariants import INVARIANTS as EVENTS
from tonne.invoices.invariants import INVARIANTS as INVOICES
from tonne.orders.invariants import INVARIANTS as ORDERS
from tonne.retirements.invariants import INVARIANTS as RETIREMENTS
from tonne.webhooks.invariants import INVARIANTS as WEBHOOKS

ALL_INVARIANTS = (*EVENTS, *ORDERS, *PAYMENTS, *INVOICES, *CHECKOUTS, *RETIREMENTS, *WEBHOOKS)
# Violations listed per invariant.
SHOWN = 10


@click.command()
def doctor() -> None:
    """Check the data for broken invariants. The exit code is 1 if there are any.

    It only reads, from one snapshot, so it is safe to run on a busy service.
    """
    breaches = run_in_transaction(examine)
    for invariant in ALL_INVARIANTS:
        found = breaches.get(invariant.name, [])
        click.echo(f"{'BROKEN' if found else 'ok    '}  {invariant.name}")
        if found:
            click.echo(f"        {invariant.meaning}")
            for place in found[:SHOWN]:
                click.echo(f"        - {place}")
            if len(found) > SHOWN:
                click.echo(f"        - and {len(found) - SHOWN} more")
    if breaches:
        raise click.ClickException(f"{len(breaches)} of {len(ALL_INVARIANTS)} checks failed. See above.")
    click.echo("All checks passed.")


async def examine(tx: Connection) -> dict[str, list[str]]:
    """The rows that violate each invariant, by the name of the invariant."""
    await tx.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
    return {invariant.name: found for invariant in ALL_INVARIANTS if (found := await _breaches(tx, invariant))}


async def _breaches(tx: Connection, invariant: Invariant) -> list[str]:
    return [row["where"] for row in await tx.fetch(invariant.sql)]
