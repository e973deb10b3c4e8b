"""tonne charge refund and tonne charge accept"""

import asyncio
from collections.abc import Awaitable, Callable

import click

from tonne.apps.cli.database import ACTOR, open_database, plain_failures, settings_from_environment, with_connection
from tonne.apps.cli.parameters import REASON
from tonne.money.cards.gateways.card import RecordedPayment
from tonne.money.cards.gateways.metered_gateway import card_gateways
from tonne.money.refunds.disputes.mismatched_charge import accept_mismatched, read_mismatched, return_mismatched
from tonne.platform.db.database import Connection, Database
from tonne.platform.db.queues import require_not_held
from tonne.platform.db.schema.migrate import require_compatible
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import utc_now
from tonne.selling.orders.model import Order, OrderStatus

_Decide = Callable[[Connection, RecordedPayment | None], Awaitable[Order]]


@click.command("refund")
@click.argument("charge_id")
@click.option("--reason", type=REASON, required=True, help="Why, for the audit log.")
def refund_charge(charge_id: str, reason: str) -> None:
    """Send a mismatched payment back, and cancel its order.

    A payment for an invoice cancels all its orders. The worker refunds everything that the gateway captured. To refund
    an order that was paid as it should be, use `tonne order refund`.
    """
    settings = settings_from_environment()

    async def decide(tx: Connection, payment: RecordedPayment | None) -> Order:
        return await return_mismatched(tx, charge_id, payment, actor=ACTOR, reason=reason, now=utc_now())

    order = _decide(settings, charge_id, decide)
    end = " The order is cancelled." if order.status is OrderStatus.CANCELLED else ""
    click.echo(f"The payment {charge_id} of order {order.id} goes back.{end}")


@click.command("accept")
@click.argument("charge_id")
@click.option("--reason", type=REASON, required=True, help="Why, for the audit log.")
def accept_charge(charge_id: str, reason: str) -> None:
    """Let a payment with a mismatched amount pay for its order.

    If more arrived than the order costs, the difference is refunded.
    """
    settings = settings_from_environment()

    async def decide(tx: Connection, payment: RecordedPayment | None) -> Order:
        return await accept_mismatched(tx, charge_id, payment, actor=ACTOR, reason=reason, now=utc_now())

    order = _decide(settings, charge_id, decide)
    click.echo(f"The payment {charge_id} is accepted: order {order.id} is {order.status}.")


def _decide(settings: Settings, charge_id: str, decide: _Decide) -> Order:
    with plain_failures(), open_database(settings) as url:
        return asyncio.run(_read_and_decide(url, settings, charge_id, decide))


async def _read_and_decide(url: str, settings: Settings, charge_id: str, decide: _Decide) -> Order:
    """Reads what the gateway captured first, outside of the transaction."""
    database = await Database(url, settings).open()
    gateways = card_gateways(database, settings)

    async def work(connection: Connection) -> Order:
        await require_compatible(connection)
        await require_not_held(connection)
        payment = await read_mismatched(connection, gateways, charge_id)
        async with connection.transaction():
            return await decide(connection, payment)

    try:
        return await with_connection(url, work)
    finally:
        for gateway in gateways.values():
            await gateway.close()
        await database.close()
