"""Endpoints that place, quote, read and list orders."""

from decimal import Decimal

from tonne.accounts.directory import AccountDirectory
from tonne.accounts.model import Terms
from tonne.base.currency import DECIMALS
from tonne.base.decimals import scaled
from tonne.base.idempotency import Idempotency
from tonne.base.mass import MAX_GRAMS, to_grams
from tonne.catalog.errors import QuantityInvalid, ValueInvalid
from tonne.catalog.price import PriceRequest, price
from tonne.catalog.schemas import quote_out
from tonne.catalog.snapshot import Catalogues
from tonne.db.pool import Database
from tonne.http.client_fields import idempotency_of, metadata_text, replay
from tonne.http.errors import AccountClosed
from tonne.http.json_body import Document, read
from tonne.http.lists import Paging, raw_list_response
from tonne.http.route import Request, Response, json_response
from tonne.orders import store
from tonne.orders.errors import OrderNotFound
from tonne.orders.place_order import OrderRequest, resolve_amount
from tonne.orders.place_orders import PlaceOrders
from tonne.orders.schemas import OrderByEstimateIn, OrderByMassIn, OrderByValueIn, OrderIn, position_of


class OrderEndpoints:
    def __init__(
        self, database: Database, catalogues: Catalogues, directory: AccountDirectory, place_orders: PlaceOrders
    ) -> None:
        self._database = database
        self._catalogues = catalogues
        self._directory = directory
        self._place_orders = place_orders

    async def place_by_estimate(self, request: Request) -> Response:
        """Place an order by estimate.

        The order offsets the mass of the estimate.

        Returns 201 with the new order. If the `idempotency_key` was used before, returns 200 with the original order in
        its current state and the header `Idempotent-Replayed: true`.
        """
        return await self._place(request, OrderByEstimateIn)

    async def place_by_mass(self, request: Request) -> Response:
        """Place an order by mass.

        The order offsets this mass of CO2 equivalent.

        Returns 201 with the new order. If the `idempotency_key` was used before, returns 200 with the original order in
        its current state and the header `Idempotent-Replayed: true`.
        """
        return await self._place(request, OrderByMassIn)

    async def place_by_value(self, request: Request) -> Response:
        """Place an order by value.

        The order offsets as much as the value buys, fee included. It never costs more than the value.

        Returns 201 with the new order. If the `idempotency_key` was used before, returns 200 with the original order in
        its current state and the header `Idempotent-Replayed: true`.
        """
        return await self._place(request, OrderByValueIn)

    async def quote_by_estimate(self, request: Request) -> Response:
        """Price an order by estimate without placing it.

        Takes the body of the order and reserves nothing. `idempotency_key`, `metadata` and `beneficiary`
        are ignored.
        """
        return await self._quote(request, OrderByEstimateIn)

    async def quote_by_mass(self, request: Request) -> Response:
        """Price an order by mass without placing it.

        Takes the body of the order and reserves nothing. `idempotency_key`, `metadata` and `beneficiary`
        are ignored.
        """
        return await self._quote(request, OrderByMassIn)

    async def quote_by_value(self, request: Request) -> Response:
        """Price an order by value without placing it.

        Takes the body of the order and reserves nothing. `idempotency_key`, `metadata` and `beneficiary`
        are ignored.
        """
        return await self._quote(request, OrderByValueIn)

    async def read_order(self, request: Request) -> Response:
        """Read an order.

        Returns one order of the account in its current state.
        """
        async with self._database.connection() as connection:
            document = await store.find_by_id(connection, request.scope, request.path("order_id"))
        if document is None:
            raise OrderNotFound
        return Response(document)

    async def read_by_key(self, request: Request) -> Response:
        """Read an order by its idempotency key.

        Returns the order that was placed with an `idempotency_key`.

        URL-encode the key: a slash in it is `%2F`.
        """
        async with self._database.connection() as connection:
            found = await store.find_by_key(connection, request.scope, request.path("idempotency_key"))
        if found is None:
            raise OrderNotFound
        return Response(found[0])

    async def list_orders(self, request: Request) -> Response:
        """List the account's orders.

        Returns the orders of one account, newest first. With `offset_link_id`, only those paid through that link.
        """
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
        # A view: the page is copied only once, into the response.
        page = memoryview(found.joined)[: -surplus - len(b",")]
        return raw_list_response(page, paging.cursor(position_of(page[-last:])))

    async def _place(self, request: Request, shape: type[OrderIn]) -> Response:
        document = request.json()
        idempotency = idempotency_of(shape.__name__, document)
        body, original_digest = await self._place_orders.place(
            request.scope,
            idempotency,
            lambda terms: _read(request, document, shape, terms, idempotency),
            key_id=request.actor.key_id,
        )
        return Response(body, 201) if original_digest is None else replay(body, original_digest, idempotency.digest)

    async def _quote(self, request: Request, shape: type[OrderIn]) -> Response:
        document, scope = request.json(), request.scope
        terms, catalogue = await self._directory.terms_of(scope), await self._catalogues.current(scope.mode)
        if terms.is_closed:
            raise AccountClosed
        order_request = _read(request, document, shape, terms, idempotency_of(shape.__name__, document))
        async with self._database.connection() as connection:
            wanted = await resolve_amount(connection, scope, order_request)
        return json_response(
            quote_out(price(wanted, terms, catalogue), wanted, terms, estimate_id=order_request.estimate_id)
        )


def _read(
    request: Request, document: Document, shape: type[OrderIn], terms: Terms, idempotency: Idempotency
) -> OrderRequest:
    """Validate a body and convert its amount to grams or minor units."""
    body = read(document, shape)
    mass_grams = value_minor = estimate_id = None
    if isinstance(body, OrderByMassIn):
        mass_grams = to_grams(body.mass.amount, body.mass.unit)
        if not 1 <= mass_grams <= MAX_GRAMS:
            raise QuantityInvalid(field="mass.amount")
    elif isinstance(body, OrderByValueIn):
        decimals = DECIMALS[terms.currency]
        value_minor = scaled(Decimal(body.value), decimals)
        if value_minor is None:
            count = "1 decimal" if decimals == 1 else f"{decimals or 'no'} decimals"
            raise ValueInvalid(f"{terms.currency} has {count}. Round the value to that.", field="value")
        if value_minor < 1:
            raise ValueInvalid("The value must be above zero.", field="value")
    else:
        estimate_id = body.estimate_id
    return OrderRequest(
        wanted=PriceRequest(mass_grams=mass_grams, value_minor=value_minor, choices=body.bundle_selection),
        idempotency=idempotency,
        metadata=metadata_text(document),
        estimate_id=estimate_id,
        key_id=request.actor.key_id,
        beneficiary=None if body.beneficiary is None else body.beneficiary.value,
    )
