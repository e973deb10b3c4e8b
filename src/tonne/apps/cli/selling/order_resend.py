"""tonne order resend"""

import click

from tonne.apps.cli.database import ACTOR, run_connected
from tonne.apps.cli.parameters import EMAIL
from tonne.channels.checkout.order_pages.resend_order import OrderMail, resend_order
from tonne.platform.db.database import Connection
from tonne.platform.process.progress import progress
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import utc_now
from tonne.platform.values.errors import TonneError
from tonne.selling.orders.errors import OrderNotFound
from tonne.selling.orders.scope_store import find_scope_any_account


@click.command("resend")
@click.argument("order_ids", metavar="ORDER_ID...", nargs=-1, required=True)
@click.option(
    "--only",
    type=click.Choice([mail.value for mail in OrderMail]),
    multiple=True,
    help="Send only this mail. Repeat for more. [default: all that there are]",
)
@click.option("--to", "email", type=EMAIL, help="Correct the customer's address, and send the mails there.")
def resend(order_ids: tuple[str, ...], only: tuple[str, ...], email: str | None) -> None:
    """Send the mails about orders again.

    The receipt and the certificate go to the customer, the invoice to the admins of the organisation. With --to, the
    order keeps the corrected address. Of several orders, those without a mail to send are listed, and the exit code is
    1.
    """
    if email is not None and len(order_ids) > 1:
        raise click.UsageError("--to corrects the address of one order: name only one.")
    requested = [OrderMail(name) for name in only] or list(OrderMail)

    async def send(connection: Connection, settings: Settings, order_id: str) -> list[str]:
        async with connection.transaction():
            scope = await find_scope_any_account(connection, order_id)
            if scope is None:
                raise OrderNotFound(f"There is no order {order_id}. Find it with `tonne order list TERM`.")
            return await resend_order(
                connection, scope, order_id, requested, email=email, settings=settings, actor=ACTOR, now=utc_now()
            )

    async def work(connection: Connection, settings: Settings) -> tuple[list[str], list[str]]:
        sent, failed = list[str](), list[str]()
        with progress("Preparing mails", len(order_ids)) as advance:
            for order_id in order_ids:
                try:
                    sent += await send(connection, settings, order_id)
                except TonneError as error:
                    if len(order_ids) == 1:
                        raise
                    failed.append(f"{order_id}: {error}")
                advance(1)
        return sent, failed

    sent, failed = run_connected(work)
    for each in sent:
        click.echo(f"Will be mailed: {each}.")
    for each in failed:
        click.echo(each, err=True)
    if failed:
        raise click.ClickException(f"{len(failed):,} of {len(order_ids):,} orders: nothing was sent.")
