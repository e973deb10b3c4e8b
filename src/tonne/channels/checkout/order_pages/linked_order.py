"""Finds the order that the link in a mail leads to."""

from tonne.channels.checkout.errors import OrderPageNotFound
from tonne.platform.db.database import Connection
from tonne.platform.documents.mail.link_token import hash_link_token, is_link_token
from tonne.selling.orders.load import load_orders
from tonne.selling.orders.mails.order_link_store import find_linked_order
from tonne.selling.orders.model import Order, OrderKey


async def load_linked_order(connection: Connection, token: str) -> Order:
    """Knowing the token is the permission to see the order. Raises OrderPageNotFound."""
    found = await find_linked_order(connection, hash_link_token(token)) if is_link_token(token) else None
    if found is None:
        raise OrderPageNotFound
    scope, order_id = found
    [order] = await load_orders(connection, [OrderKey(scope.account_id, order_id)])
    return order
