"""tonne doctor"""

import os

import click

from tonne.base.secret_box import SecretBox, SecretKeyMissing
from tonne.base.settings import Settings, load_settings
from tonne.cards.invariants import INVARIANTS as PAYMENTS
from tonne.checkout.invariants import INVARIANTS as CHECKOUTS
from tonne.cli.database import run_in_transaction
from tonne.db.invariant import Invariant
from tonne.db.pool import Connection
from tonne.events.invariants import INVARIANTS as EVENTS
from tonne.invoices.invariants import INVARIANTS as INVOICES
from tonne.orders.invariants import INVARIANTS as ORDERS
from tonne.retirements.invariants import INVARIANTS as RETIREMENTS
from tonne.webhooks.check_secret_key import find_unreadable_any_account
from tonne.webhooks.invariants import INVARIANTS as WEBHOOKS

ALL_INVARIANTS = (*EVENTS, *ORDERS, *PAYMENTS, *INVOICES, *CHECKOUTS, *RETIREMENTS, *WEBHOOKS)
SECRETS = "all webhook secrets can be opened"
# The names of all checks, and what a violation means.
CHECKS = {invariant.name: invariant.meaning for invariant in ALL_INVARIANTS} | {
    SECRETS: "Their webhooks deliver nothing. Add the key to TONNE_SECRET_KEYS_OLD, or have the secret rotated."
}
# Violations listed per check.
SHOWN = 10


@click.command()
def doctor() -> None:
    """Check the data for broken invariants. The exit code is 1 if there are any.

    It only reads, from one snapshot, so it is safe to run on a busy service.
    """
    breaches = run_in_transaction(_examine_all)
    for name, meaning in CHECKS.items():
        found = breaches.get(name, [])
        click.echo(f"{'BROKEN' if found else 'ok    '}  {name}")
        if found:
            click.echo(f"        {meaning}")
            for place in found[:SHOWN]:
                click.echo(f"        - {place}")
            if len(found) > SHOWN:
                click.echo(f"        - and {len(found) - SHOWN} more")
    if breaches:
        raise click.ClickException(f"{len(breaches)} of {len(CHECKS)} checks failed. See above.")
    click.echo("All checks passed.")


async def _examine_all(tx: Connection) -> dict[str, list[str]]:
    breaches = await examine(tx)
    if unreadable := await find_unreadable(tx, load_settings(os.environ)):
        breaches[SECRETS] = unreadable
    return breaches


async def find_unreadable(tx: Connection, settings: Settings) -> list[str]:
    """The webhook secrets that cannot be opened with the configured keys. A missing key is not created."""
    try:
        box: SecretBox | None = SecretBox.from_settings(settings)
    except SecretKeyMissing:
        box = None
    return [f"webhook {webhook_id}: {reason}" for webhook_id, reason in await find_unreadable_any_account(tx, box)]


async def examine(tx: Connection) -> dict[str, list[str]]:
    """The rows that violate each invariant, by the name of the invariant."""
    await tx.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
    return {invariant.name: found for invariant in ALL_INVARIANTS if (found := await _breaches(tx, invariant))}


async def _breaches(tx: Connection, invariant: Invariant) -> list[str]:
    return [row["where"] for row in await tx.fetch(invariant.sql)]
