"""Creates orders without HTTP and moves them through their statuses."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import structs

from tonne.apps.wiring.app import Services
from tonne.platform.db.database import Connection
from tonne.platform.db.idempotency import Idempotency
from tonne.platform.values.context import Scope
from tonne.selling.accounts.store import find_terms
from tonne.selling.catalogue.model import Catalogue
from tonne.selling.catalogue.prices.price import PriceRequest, price
from tonne.selling.catalogue.snapshot import empty_catalogue
from tonne.selling.orders import store
from tonne.selling.orders.model import Order, OrderStatus
from tonne.selling.orders.move_order import move_order
from tonne.selling.orders.placing.place_order import OrderRequest, place_order
from tonne.selling.orders.placing.place_orders import WantedOrder, place_batch

DIGEST = bytes(32)
# The transitions that lead from `received` to each status.
PATHS: dict[OrderStatus, tuple[OrderStatus, ...]] = {
    OrderStatus.RECEIVED: (),
    OrderStatus.PLACED: (OrderStatus.PLACED,),
    OrderStatus.PAID: (OrderStatus.PLACED, OrderStatus.PAID),
    OrderStatus.RETIRING: (OrderStatus.PLACED, OrderStatus.PAID, OrderStatus.RETIRING),
    OrderStatus.COMPLETE: (OrderStatus.PLACED, OrderStatus.PAID, OrderStatus.RETIRING, OrderStatus.COMPLETE),
    OrderStatus.CANCELLED: (OrderStatus.CANCELLED,),
    OrderStatus.FAILED: (OrderStatus.PLACED, OrderStatus.FAILED),
}


async def receive(
    services: Services, scope: Scope, now: datetime, *, metadata: str = "{}", key: str | None = None
) -> Order:
    """An order that has no price yet."""
    requested = PriceRequest(mass_grams=1_105_697)
    request = OrderRequest(requested=requested, idempotency=Idempotency(key, DIGEST), metadata=metadata)
    return await write(services, scope, request, now, catalogue=empty_catalogue(scope.mode))


async def place(
    services: Services,
    scope: Scope,
    now: datetime,
    *,
    metadata: str = "{}",
    value_minor: int | None = None,
    mass_grams: int = 1_105_697,
    reference: str | None = None,
) -> Order:
    """An order that is received and placed at once, as a request does it."""
    requested = PriceRequest(mass_grams=mass_grams) if value_minor is None else PriceRequest(value_minor=value_minor)
    request = OrderRequest(
        requested=requested, idempotency=Idempotency(None, DIGEST), metadata=metadata, reference=reference
    )
    return await write(services, scope, request, now)


async def place_together(
    services: Services, scope: Scope, now: datetime, requests: Sequence[tuple[int, str | None]]
) -> list[Order]:
    """Orders for these values, with these references, in one transaction: a batch takes a fraction of the time."""
    catalogue, placed = await services.catalogues.current(scope.mode), list[Order]()
    async with services.database.connection() as connection:
        found = await find_terms(connection, scope, services.settings.seller_tax)
        wanted = [
            WantedOrder(
                scope,
                OrderRequest(
                    requested=PriceRequest(value_minor=value_minor),
                    idempotency=Idempotency(None, DIGEST),
                    reference=reference,
                ),
                found.at_service(services.settings),
                catalogue,
                (),
            )
            for value_minor, reference in requests
        ]
        outcomes = await place_batch(connection, wanted, placed.append, now=now, retry_after=timedelta(seconds=30))
    assert len(placed) == len(outcomes) == len(requests)
    return placed


async def write(
    services: Services, scope: Scope, request: OrderRequest, now: datetime, *, catalogue: Catalogue | None = None
) -> Order:
    catalogue = catalogue or await services.catalogues.current(scope.mode)
    async with services.database.transaction() as tx:
        found = await find_terms(tx, scope, services.settings.seller_tax)
        terms = found.at_service(services.settings)
        terms = terms if request.customer is None else terms.at_checkout()
        placed = await place_order(tx, scope, request, terms, catalogue, now=now, retry_after=timedelta(seconds=30))
    assert placed is not None
    return placed.order


async def advance(tx: Connection, services: Services, order: Order, to: OrderStatus, now: datetime) -> Order:
    """Make one transition; placing an order also prices it."""
    if (order.status, to) == (OrderStatus.RECEIVED, OrderStatus.PLACED):
        requested = PriceRequest(mass_grams=order.requested_quantity_grams)
        terms = await find_terms(tx, order.scope, services.settings.seller_tax)
        order = structs.replace(
            order, priced=price(requested, terms, await services.catalogues.current(order.scope.mode))
        )
        await store.price_order(tx, order)
    return await move_order(tx, order, to, now)


async def bring_to(services: Services, scope: Scope, status: OrderStatus, now: datetime) -> Order:
    """Create an order and bring it to `status` by valid transitions, a second apart."""
    order = await receive(services, scope, now)
    for step, to in enumerate(PATHS[status], start=1):
        async with services.database.transaction() as tx:
            order = await advance(tx, services, order, to, now + timedelta(seconds=step))
    return order
