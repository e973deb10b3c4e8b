"""tonne doctor"""

import click

from tonne.cards.invariants import INVARIANTS as PAYMENTS
from tonne.catalog.invariants import INVARIANTS as CATALOGUE
from tonne.checkout.invariants import INVARIANTS as CHECKOUTS
from tonne.cli.database import run_in_transaction
from tonne.db.invariant import Invariant
from tonne.db.pool import Connection
from tonne.events.invariants import INVARIANTS as EVENTS
from tonne.invoices.invariants import INVARIANTS as INVOICES
from tonne.orders.invariants import INVARIANTS as ORDERS
from tonne.retirements.invariants import INVARIANTS as RETIREMENTS
from tonne.webhooks.invariants import INVARIANTS as WEBHOOKS

ALL_INVARIANTS = (*EVENTS, *ORDERS, *CATALOGUE, *PAYMENTS, *INVOICES, *CHECKOUTS, *RETIREMENTS, *WEBHOOKS)
# More breaches of one kind than this tell nothing new.
SHOWN = 10


@click.command()
def doctor() -> None:
    """Check everything that must always be true; exit code 1 when something is not.

    Reads only, and from one snapshot: safe to run on a busy service.
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
        raise click.ClickException(f"{len(breaches)} of {len(ALL_INVARIANTS)} checks failed: see above.")
    click.echo("All is well.")


async def examine(tx: Connection) -> dict[str, list[str]]:
    """The places where an invariant is broken, by its name."""
    await tx.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
    return {invariant.name: found for invariant in ALL_INVARIANTS if (found := await _breaches(tx, invariant))}


async def _breaches(tx: Connection, invariant: Invariant) -> list[str]:
    return [row["where"] for row in await tx.fetch(invariant.sql)]
