"""The orders of an account over HTTP."""

from datetime import timedelta
from decimal import Decimal
from typing import NamedTuple

import msgspec

from tonne.accounts.directory import AccountDirectory
from tonne.accounts.model import Terms
from tonne.base.clock import Clock
from tonne.base.currency import DECIMALS
from tonne.base.decimals import scaled
from tonne.base.errors import TonneError
from tonne.base.mass import MAX_GRAMS, to_grams
from tonne.base.scope import Scope
from tonne.base.settings import Settings
from tonne.catalog.errors import QuantityInvalid, ValueInvalid
from tonne.catalog.schemas import quote_out
from tonne.catalog.snapshot import Catalogues
from tonne.db.pool import Connection, Database
from tonne.estimates.store import find_mass_grams
from tonne.events.notify import Notifier
from tonne.http.client_fields import metadata_text, peek_idempotency_key, replay, request_digest
from tonne.http.json_body import Document, read
from tonne.http.lists import Paging, raw_list_response
from tonne.http.route import Request, Response, json_response
from tonne.orders import store
from tonne.orders.errors import EstimateUnknown, OrderNotFound
from tonne.orders.place_order import OrderRequest, Wanted, compose_order, place_order, price, price_if_possible
from tonne.orders.schemas import OrderByEstimateIn, OrderByMassIn, OrderByValueIn, place_of


class _Buyer(NamedTuple):
    scope: Scope
    terms: Terms


class OrderEndpoints:
    def __init__(
        self,
        database: Database,
        catalogues: Catalogues,
        directory: AccountDirectory,
        *,
        clock: Clock,
        settings: Settings,
        notifier: Notifier,
    ) -> None:
        self._database = database
        self._catalogues = catalogues
        self._directory = directory
        self._clock = clock
        self._notifier = notifier
        self._pricing_retry = timedelta(seconds=settings.pricing_retry_s)

    async def place_by_estimate(self, request: Request) -> Response:
        """Places an order for the mass of an estimate.

        Returns 201 with the new order. If the `idempotency_key` was used before, returns 200 with the original order in
        its current state and the header `Idempotent-Replayed: true`.
        """
        return await self._place(request, OrderByEstimateIn)

    async def place_by_mass(self, request: Request) -> Response:
        """Places an order for a mass of CO2 equivalent.

        Returns 201 with the new order. If the `idempotency_key` was used before, returns 200 with the original order in
        its current state and the header `Idempotent-Replayed: true`.
        """
        return await self._place(request, OrderByMassIn)

    async def place_by_value(self, request: Request) -> Response:
        """Places an order for an amount of money.

        Returns 201 with the new order. If the `idempotency_key` was used before, returns 200 with the original order in
        its current state and the header `Idempotent-Replayed: true`.
        """
        return await self._place(request, OrderByValueIn)

    async def quote_by_estimate(self, request: Request) -> Response:
        """Prices an order for the mass of an estimate without placing it.

        Takes the body of the order; `idempotency_key` and `metadata` are ignored.
        """
        return await self._quote(request, OrderByEstimateIn)

    async def quote_by_mass(self, request: Request) -> Response:
        """Prices an order for a mass of CO2 equivalent without placing it.

        Takes the body of the order; `idempotency_key` and `metadata` are ignored.
        """
        return await self._quote(request, OrderByMassIn)

    async def quote_by_value(self, request: Request) -> Response:
        """Prices an order for an amount of money without placing it.

        Takes the body of the order; `idempotency_key` and `metadata` are ignored.
        """
        return await self._quote(request, OrderByValueIn)

    async def read_order(self, request: Request) -> Response:
        """Returns one order of the account in its current state."""
        async with self._database.connection() as connection:
            document = await store.find_by_id(connection, request.scope, request.path("order_id"))
        if document is None:
            raise OrderNotFound
        return Response(document)

    async def read_by_key(self, request: Request) -> Response:
        """Returns the order that was placed with an `idempotency_key`.

        URL-encode the key: a slash in it is `%2F`.
        """
        async with self._database.connection() as connection:
            found = await store.find_by_key(connection, request.scope, request.path("idempotency_key"))
        if found is None:
            raise OrderNotFound
        return Response(found.document)

    async def list_orders(self, request: Request) -> Response:
        """Returns the orders of the account, newest first."""
        (link,) = request.query("offset_link_id")
        paging = Paging.of(request, f"orders {request.scope.account_id} {link}")
        async with self._database.connection() as connection:
            if link is None:
                found = await store.list_orders(connection, request.scope, paging.start, paging.fetch)
            else:
                found = await store.list_orders_of_link(connection, request.scope, paging.start, paging.fetch, link)
        if found.number < paging.fetch:
            return raw_list_response(found.joined, None)
        last, surplus = found.last_sizes
        page = found.joined[: -surplus - len(b",")]
        return raw_list_response(page, paging.cursor(place_of(page[-last:])))

    async def _place(self, request: Request, shape: type[msgspec.Struct]) -> Response:
        document = request.json()
        digest = request_digest(shape.__name__, document)
        key = peek_idempotency_key(document)
        # Before the connection is taken: one request never holds one connection and waits for another.
        buyer, catalogue = await self._buyer(request), await self._catalogues.current(request.scope.mode)
        async with self._database.connection() as connection:
            try:
                wanted, metadata = await _read(connection, document, shape, buyer)
                priced = price_if_possible(wanted, buyer.terms, catalogue)
            except TonneError:
                # A key that was used before comes first: its order is the answer, whatever else the body says. It is
                # looked up only now, and below, because nearly every request is a first one.
                if key is not None and (response := await _replay(connection, request.scope, key, digest)):
                    return response
                raise
            order_request = OrderRequest(wanted, key, metadata, digest)
            order = compose_order(request.scope, order_request, buyer.terms, priced=priced, now=self._clock())
            async with connection.transaction():
                placed = await place_order(connection, order, digest, retry_after=self._pricing_retry)
            if placed is None:
                return await _replay(connection, request.scope, order.idempotency_key, digest) or _vanished(order.id)
        self._notifier.notify()
        return Response(placed, 201)

    async def _quote(self, request: Request, shape: type[msgspec.Struct]) -> Response:
        document = request.json()
        buyer, catalogue = await self._buyer(request), await self._catalogues.current(request.scope.mode)
        async with self._database.connection() as connection:
            wanted, _ = await _read(connection, document, shape, buyer)
        quote = quote_out(
            price(wanted, buyer.terms, catalogue),
            estimate_id=wanted.estimate_id,
            requested_grams=wanted.mass_grams,
            requested_value_minor=wanted.value_minor,
        )
        return json_response(quote)

    async def _buyer(self, request: Request) -> _Buyer:
        return _Buyer(request.scope, await self._directory.terms_of(request.scope))


async def _replay(connection: Connection, scope: Scope, key: str, digest: bytes) -> Response | None:
    found = await store.find_by_key(connection, scope, key)
    return None if found is None else replay(found.document, found.request_digest, digest)


async def _read(
    connection: Connection, document: Document, shape: type[msgspec.Struct], buyer: _Buyer
) -> tuple[Wanted, str]:
    """The body, judged whole, as what is wanted and the metadata."""
    body = read(document, shape)
    metadata = metadata_text(document)
    if isinstance(body, OrderByMassIn):
        return Wanted(mass_grams=_grams(body), choices=body.bundle_selection), metadata
    if isinstance(body, OrderByValueIn):
        return Wanted(value_minor=_minor(body.value, buyer), choices=body.bundle_selection), metadata
    if isinstance(body, OrderByEstimateIn):
        mass_grams = await find_mass_grams(connection, buyer.scope, body.estimate_id)
        if mass_grams is None:
            raise EstimateUnknown(field="estimate_id")
        return Wanted(mass_grams, None, body.estimate_id, body.bundle_selection), metadata
    raise TypeError(f"{shape.__name__} is not an order")


def _grams(body: OrderByMassIn) -> int:
    mass_grams = to_grams(body.mass.amount, body.mass.unit)
    if not 1 <= mass_grams <= MAX_GRAMS:
        raise QuantityInvalid(field="mass.amount")
    return mass_grams


def _minor(value: str, buyer: _Buyer) -> int:
    value_minor = scaled(Decimal(value), DECIMALS[buyer.terms.currency])
    if value_minor is None or value_minor < 1:
        raise ValueInvalid(field="value")
    return value_minor


def _vanished(order_id: str) -> Response:
    raise LookupError(f"the key of {order_id} was taken, yet no order has it")
