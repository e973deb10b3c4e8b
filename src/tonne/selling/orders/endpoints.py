"""Endpoints that place, quote, read and list orders."""

from collections.abc import Hashable
from typing import TypeVar

from msgspec import Struct

from tonne.platform.db.database import Database
from tonne.platform.db.grouped_read import GroupedRead
from tonne.platform.db.idempotency import Idempotency
from tonne.platform.events.notification import Notifier, WorkKind
from tonne.platform.http.client_fields import idempotency_of, metadata_text, replay
from tonne.platform.http.json_body import Document
from tonne.platform.http.lists import Paging, raw_list_response
from tonne.platform.http.route import Request, Response, json_response
from tonne.platform.values.context import Clock
from tonne.selling.accounts.directory import AccountDirectory
from tonne.selling.accounts.model import Terms
from tonne.selling.catalogue.schemas import quote_out
from tonne.selling.catalogue.snapshot import Catalogues
from tonne.selling.orders.errors import OrderNotFound
from tonne.selling.orders.filter_store import list_filtered
from tonne.selling.orders.model import OrderKey
from tonne.selling.orders.order_filter import OrderFilter, read_filter
from tonne.selling.orders.placing import bodies
from tonne.selling.orders.placing.insert_store import KeyOfClient
from tonne.selling.orders.placing.place_order import OrderRequest, with_mass_of_estimate
from tonne.selling.orders.placing.place_orders import PlaceOrders
from tonne.selling.orders.placing.quote_order import quote_order
from tonne.selling.orders.read_store import ReadOrder, list_orders
from tonne.selling.orders.release_order import release_order
from tonne.selling.orders.schemas import order_document, position_of
from tonne.selling.orders.tags import OrderTags

# Quotes write nothing, so they need no key.
_NO_KEY = Idempotency(None, b"")
K = TypeVar("K", bound=Hashable)


class OrderEndpoints(Struct, frozen=True):
    database: Database
    catalogues: Catalogues
    directory: AccountDirectory
    place_orders: PlaceOrders
    by_key: GroupedRead[KeyOfClient, ReadOrder]
    by_id: GroupedRead[OrderKey, ReadOrder]
    tags: OrderTags
    clock: Clock
    notifier: Notifier

    async def place_by_estimate(self, request: Request) -> Response:
        """Place an order by estimate.

        The order offsets the mass of the estimate.

        Returns 201 with the new order. If the `idempotency_key` was used before, returns 200 with the original order in
        its current state and the header `Idempotent-Replayed: true`.
        """
        return await self._place(request, bodies.OrderByEstimateIn)

    async def place_by_mass(self, request: Request) -> Response:
        """Place an order by mass.

        The order offsets this mass of CO2 equivalent: `mass` is split over the bundles, `bundle_masses` has a mass for
        each.

        Returns 201 with the new order. If the `idempotency_key` was used before, returns 200 with the original order in
        its current state and the header `Idempotent-Replayed: true`.
        """
        return await self._place(request, bodies.OrderByMassIn)

    async def place_by_value(self, request: Request) -> Response:
        """Place an order by value.

        The order offsets as much as the value buys, fee included. It never costs more than the value.

        Returns 201 with the new order. If the `idempotency_key` was used before, returns 200 with the original order in
        its current state and the header `Idempotent-Replayed: true`.
        """
        return await self._place(request, bodies.OrderByValueIn)

    async def quote_by_estimate(self, request: Request) -> Response:
        """Price an order by estimate without placing it.

        Takes the body of the order and reserves nothing. Only the amount, the bundles and `quantity_trunc` matter.
        """
        return await self._quote(request, bodies.OrderByEstimateIn)

    async def quote_by_mass(self, request: Request) -> Response:
        """Price an order by mass without placing it.

        Takes the body of the order and reserves nothing. Only the amount, the bundles and `quantity_trunc` matter.
        """
        return await self._quote(request, bodies.OrderByMassIn)

    async def quote_by_value(self, request: Request) -> Response:
        """Price an order by value without placing it.

        Takes the body of the order and reserves nothing. Only the amount, the bundles and `quantity_trunc` matter.
        """
        return await self._quote(request, bodies.OrderByValueIn)

    async def read_order(self, request: Request) -> Response:
        """Read an order.

        Returns one order of the account in its current state.
        """
        return await self._read(request, self.by_id, OrderKey(request.scope.account_id, request.path("order_id")))

    async def read_by_key(self, request: Request) -> Response:
        """Read an order by its idempotency key.

        Returns the order that was placed with an `idempotency_key`.

        URL-encode the key: a slash in it is `%2F`.
        """
        key = KeyOfClient(request.scope.account_id, request.path("idempotency_key"))
        return await self._read(request, self.by_key, key)

    async def _read(self, request: Request, orders: GroupedRead[K, ReadOrder], key: K) -> Response:
        if (unchanged := await self.tags.unchanged(request)) is not None:
            return unchanged
        found = await orders.find(key)
        if found is None:
            raise OrderNotFound
        return self.tags.tagged(request, Response(found.document), found.version)

    async def release_order(self, request: Request) -> Response:
        """Release an order that waits until it is fulfilled.

        Ends the wait of `fulfil_after`: credits are allocated within seconds, and the order can no longer be cancelled
        or reduced. Only while it is `paid`. Releasing it again changes nothing.
        """
        released = await self.database.commit(
            release_order, request.scope, request.path("order_id"), by=request.actor.at(self.clock())
        )
        self.notifier.notify(WorkKind.EVENTS, WorkKind.PAID_ORDERS, scope=request.scope)
        return Response(order_document(released))

    async def list_orders(self, request: Request) -> Response:
        """List the account's orders.

        Returns the orders of one account, newest first. All filters that are sent must match. With filters, a page may
        be shorter than `limit`, even empty, while `has_more` is true: continue with `next_cursor`.
        """
        # Its query was valid when the client got the tag.
        if (unchanged := await self.tags.unchanged(request)) is not None:
            return unchanged
        requested = read_filter(request)
        paging = Paging.of(request, f"orders {request.scope.account_id} {requested.name}")
        if requested != OrderFilter():
            return await self._list_filtered(request, requested, paging)
        found = await self.database.run(list_orders, request.scope, paging.start, paging.fetch)
        page, cursor = memoryview(found.joined), None
        if found.number == paging.fetch:
            last, surplus = found.last_sizes
            # A view: the page is copied only once, into the response.
            page = page[: -surplus - len(b",")]
            cursor = paging.cursor(position_of(page[-last:]))
        return self.tags.tagged(request, raw_list_response(page, cursor), found.version)

    async def _list_filtered(self, request: Request, requested: OrderFilter, paging: Paging) -> Response:
        version = await self.tags.version_of(request.scope)
        found = await self.database.run(list_filtered, request.scope, requested, paging.start, paging.limit)
        cursor = None if found.next is None else paging.cursor(found.next)
        return self.tags.tagged(request, raw_list_response(b",".join(found.documents), cursor), version)

    async def _place(self, request: Request, shape: type[bodies.OrderIn]) -> Response:
        document = request.json()
        idempotency = idempotency_of(shape.__name__, document)
        body, original_digest = await self.place_orders.place(
            request.scope,
            idempotency,
            lambda terms: read_request(request, document, shape, terms, idempotency),
            key_id=request.actor.key_id,
        )
        return Response(body, 201) if original_digest is None else replay(body, original_digest, idempotency.digest)

    async def _quote(self, request: Request, shape: type[bodies.OrderIn]) -> Response:
        document, scope = request.json(), request.scope
        terms, catalogue = await self.directory.terms_of(scope), await self.catalogues.current(scope.mode)
        terms.require_open()
        order_request = read_request(request, document, shape, terms, _NO_KEY)
        requested = order_request.requested
        if order_request.estimate_id is not None:
            requested = await self.database.run(with_mass_of_estimate, scope, requested, order_request.estimate_id)
        return json_response(
            quote_out(
                quote_order(requested, terms, catalogue).priced, requested, terms, estimate_id=order_request.estimate_id
            )
        )


def read_request(
    request: Request, document: Document, shape: type[bodies.OrderIn], terms: Terms, idempotency: Idempotency
) -> OrderRequest:
    """Validate a body and convert its amount to grams or minor units."""
    body = bodies.read_order(document, shape)
    fulfil_after, fulfil_manually = bodies.read_window(body.fulfil_after)
    return OrderRequest(
        requested=bodies.price_request(
            mass=body.mass if isinstance(body, bodies.OrderByMassIn) else None,
            masses=body.bundle_masses if isinstance(body, bodies.OrderByMassIn) else None,
            value=body.value if isinstance(body, bodies.OrderByValueIn) else None,
            choices=body.bundle_selection,
            unit=body.quantity_trunc,
            terms=terms,
        ),
        idempotency=idempotency,
        metadata=metadata_text(document),
        estimate_id=body.estimate_id if isinstance(body, bodies.OrderByEstimateIn) else None,
        key_id=request.actor.key_id,
        beneficiary=None if body.beneficiary is None else body.beneficiary.value,
        reject_if_short=body.reject_if_short,
        quote_id=body.quote_id,
        external_id=body.external_id,
        reference=body.reference,
        fulfil_after=fulfil_after,
        fulfil_manually=fulfil_manually,
    )
