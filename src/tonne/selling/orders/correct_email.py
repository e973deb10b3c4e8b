"""Correct the address of a customer who paid at checkout."""

from msgspec import structs

from tonne.platform.db.database import Connection
from tonne.platform.events.log import note_rewritten
from tonne.platform.events.notification import Stream
from tonne.selling.orders import store
from tonne.selling.orders.model import Order
from tonne.selling.orders.schemas import order_document


async def correct_email(tx: Connection, order: Order, email: str) -> Order:
    """The caller has locked the order. Events that were sent keep the old address."""
    corrected = structs.replace(order, email=email)
    await store.set_email(tx, corrected, order_document(corrected))
    await note_rewritten(tx, [Stream(order.scope.organisation_id, order.scope.mode)])
    return corrected
