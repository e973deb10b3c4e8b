"""The page of an order: a link that is the same in all mails about the order, and works as long as the order exists."""

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache

import structlog

from tonne.platform.db.database import Connection
from tonne.platform.documents.mail.link_token import hash_link_token, new_link_token
from tonne.platform.keys.secret_box import SecretBox, SecretUnreadable
from tonne.platform.settings.settings import Settings, SettingsError
from tonne.platform.values.context import Scope
from tonne.selling.orders.mails.order_link_store import LinkedOrder, find_boxes, insert_links
from tonne.selling.orders.model import Order, OrderKey

_log = structlog.get_logger()


@lru_cache(maxsize=8)
def box_of(settings: Settings) -> SecretBox | None:
    """None if a command runs without the key of the service."""
    try:
        return SecretBox.from_settings(settings)
    except SettingsError:
        return None


async def order_url(tx: Connection, scope: Scope, order_id: str, *, settings: Settings, now: datetime) -> str | None:
    """Like `order_urls`, for one order that is not loaded."""
    return (await order_urls(tx, [LinkedOrder(scope, order_id)], settings=settings, now=now))[order_id]


async def order_urls(
    tx: Connection, orders: Sequence[Order | LinkedOrder], *, settings: Settings, now: datetime
) -> dict[str, str | None]:
    """The URL of each order's page by order id, created where there is none yet.

    None if the key that seals the token is not available: a mail without its link is better than none.
    """
    box = box_of(settings)
    if box is None:
        _log.warning("order_link_left_out", reason="the secret key is not set")
        return dict.fromkeys((order.id for order in orders), None)
    tokens = [new_link_token() for _ in orders]
    boxes = [box.seal(token, order.id) for token, order in zip(tokens, orders, strict=True)]
    await insert_links(tx, orders, [hash_link_token(token) for token in tokens], boxes, now)
    sealed = await find_boxes(tx, [OrderKey(order.scope.account_id, order.id) for order in orders])
    urls: dict[str, str | None] = {}
    for order in orders:
        try:
            urls[order.id] = f"{settings.base_url}/o/{box.open(sealed[order.id], order.id)}"
        except SecretUnreadable as error:
            _log.error("order_link_left_out", order_id=order.id, reason=str(error))
            urls[order.id] = None
    return urls


async def find_order_url(connection: Connection, order: Order, *, settings: Settings) -> str | None:
    """The URL of the order's page, if a mail with it was enqueued and the key is available."""
    box, sealed = box_of(settings), await find_boxes(connection, [order.key])
    if box is None or order.id not in sealed:
        return None
    try:
        return f"{settings.base_url}/o/{box.open(sealed[order.id], order.id)}"
    except SecretUnreadable:
        return None
