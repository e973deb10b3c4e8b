"""Let the orders of a test account advance that waited for the test helpers."""

from datetime import datetime

from tonne.money.cards.invoice_charge_store import wake_card_invoices
from tonne.money.invoices.store import list_open_by_card, wake_open
from tonne.platform.db.database import Connection
from tonne.platform.values.context import Mode, Scope
from tonne.selling.orders.queue import list_retiring, wake_waiting
from tonne.supply.stock.parcels.confirm_retirements import retire_test_parcels


async def resume_orders(tx: Connection, scope: Scope, *, service_name: str, now: datetime) -> None:
    """Call it in the transaction in which the account is set to advance automatically."""
    if scope.mode is not Mode.TEST:
        return
    await wake_waiting(tx, scope, now)
    await wake_open(tx, scope, now)
    await wake_card_invoices(tx, scope, await list_open_by_card(tx, scope), now)
    for order_id in await list_retiring(tx, scope):
        # Units that were opened while the account waited would stay open for the pooling time of live accounts.
        await retire_test_parcels(tx, scope, order_id, service_name=service_name, now=now)
