"""tonne order resend"""

import click

from tonne.base.clock import utc_now
from tonne.checkout.resend_order import OrderMail, resend_order
from tonne.cli.database import ACTOR, plain_failures, run_in_transaction, settings_from_environment
from tonne.cli.parameters import EMAIL
from tonne.db.pool import Connection
from tonne.orders.errors import OrderNotFound
from tonne.orders.store import find_scope_any_account


@click.command("resend")
@click.argument("order_id")
@click.option(
    "--only",
    type=click.Choice([mail.value for mail in OrderMail]),
    multiple=True,
    help="Send only this mail. Repeat for more. [default: all that there are]",
)
@click.option("--to", "email", type=EMAIL, help="Correct the customer's address, and send the mails there.")
def resend(order_id: str, only: tuple[str, ...], email: str | None) -> None:
    """Send the mails about an order again.

    The receipt and the certificate go to the customer, the invoice to the admins of the organisation. With --to, the
    order keeps the corrected address.
    """
    with plain_failures():
        settings = settings_from_environment()
    wanted = [OrderMail(name) for name in only] or list(OrderMail)

    async def work(tx: Connection) -> list[str]:
        scope = await find_scope_any_account(tx, order_id)
        if scope is None:
            raise OrderNotFound(f"There is no order {order_id}. Find it with `tonne order list TERM`.")
        return await resend_order(
            tx, scope, order_id, wanted, email=email, settings=settings, actor=ACTOR, now=utc_now()
        )

    for sent in run_in_transaction(work):
        click.echo(f"Will be mailed: {sent}.")
