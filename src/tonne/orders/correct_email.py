"""Correct the address of a customer who paid at checkout."""

from dataclasses import replace

from tonne.db.pool import Connection
from tonne.orders.model import Order
from tonne.orders.schemas import order_document

SET_EMAIL = "UPDATE orders SET email = $3, wire_document = $4 WHERE account_id = $1 AND id = $2"


async def correct_email(tx: Connection, order: Order, email: str) -> Order:
    """The caller has locked the order. Events that were sent keep the old address."""
    corrected = replace(order, email=email)
    await tx.execute(SET_EMAIL, order.scope.account_id, order.id, email, order_document(corrected))
    return corrected
