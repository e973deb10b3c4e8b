"""The page of an order: a link that is the same in all mails about the order, and works as long as the order exists."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

import structlog

from tonne.platform.db.database import Connection, columns, scope_of
from tonne.platform.documents.mail.link_token import hash_link_token, new_link_token
from tonne.platform.keys.sealed import SealedSecrets
from tonne.platform.keys.secret_box import SecretBox, SecretUnreadable
from tonne.platform.settings.settings import Settings, SettingsError
from tonne.platform.values.context import Scope
from tonne.selling.orders.model import Order, OrderKey


class LinkedOrder(NamedTuple):
    """What the link of an order needs to know of it."""

    scope: Scope
    id: str


INSERT_LINKS = """
INSERT INTO order_links (account_id, order_id, organisation_id, mode, token_hash, token_box, created_at)
SELECT account_id, order_id, organisation_id, mode, token_hash, token_box, $1
FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::bytea[], $7::bytea[])
     AS new (account_id, order_id, organisation_id, mode, token_hash, token_box)
ON CONFLICT (account_id, order_id) DO NOTHING
"""


async def insert_links(
    tx: Connection,
    orders: Sequence[Order | LinkedOrder],
    hashes: Sequence[bytes],
    boxes: Sequence[bytes],
    now: datetime,
) -> None:
    """Orders that have a link keep it."""
    values = columns(orders, "scope.account_id, id, scope.organisation_id, scope.mode")
    await tx.execute(INSERT_LINKS, now, *values, hashes, boxes)


FIND_BOXES = """
SELECT link.order_id, link.token_box FROM unnest($1::text[], $2::text[]) AS keys (account_id, id)
JOIN order_links link ON link.account_id = keys.account_id AND link.order_id = keys.id
"""


async def find_boxes(connection: Connection, keys: Sequence[OrderKey]) -> Mapping[str, bytes]:
    """The sealed tokens by order id."""
    rows = await connection.fetch(FIND_BOXES, *columns(keys, "account_id, id"))
    return {row["order_id"]: row["token_box"] for row in rows}


FIND_LINK = "SELECT organisation_id, account_id, mode, order_id FROM order_links WHERE token_hash = $1"


async def find_linked_order(connection: Connection, secret_hash: bytes) -> tuple[Scope, str] | None:
    """The order whose link has this token."""
    row = await connection.fetchrow(FIND_LINK, secret_hash)
    if row is None:
        return None
    return scope_of(row), row["order_id"]


SEALED = SealedSecrets(
    owner="page of order",
    action="order.link_resealed",
    table="order_links",
    id="order_id",
    key=("account_id", "order_id"),
    column="token_box",
)


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
