"""tonne order"""

import click

from tonne.base.clock import utc_now
from tonne.cli.database import ACTOR, plain_failures, run_in_transaction, settings_from_environment
from tonne.db.pool import Connection
from tonne.invoices.cancel_order import cancel_order_by_id
from tonne.orders.errors import OrderNotFound
from tonne.orders.model import Order
from tonne.orders.store import find_scope_any_account

MAX_REASON = 500


@click.group()
def order() -> None:
    """Cancel orders on behalf of a client."""


@order.command("cancel")
@click.argument("order_id")
@click.option("--reason", required=True, help="Why, for the audit log and the mail to those who got the invoice.")
def cancel(order_id: str, reason: str) -> None:
    """Cancel an order that is received or placed.

    Its open invoice is cancelled too, and everyone who was mailed the invoice gets a mail with the reason. If a card is
    charged meanwhile, the charge is refunded.
    """
    if not reason.strip() or len(reason.strip()) > MAX_REASON:
        raise click.BadParameter(f"expected 1 to {MAX_REASON} characters", param_hint="--reason")
    with plain_failures():
        settings = settings_from_environment()

    async def work(tx: Connection) -> Order:
        scope = await find_scope_any_account(tx, order_id)
        if scope is None:
            raise OrderNotFound
        return await cancel_order_by_id(
            tx, scope, order_id, settings=settings, actor=ACTOR, reason=reason, now=utc_now()
        )

    cancelled = run_in_transaction(work)
    click.echo(f"Order {cancelled.id} is cancelled.")
