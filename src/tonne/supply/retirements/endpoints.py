"""Endpoints for retirements and the name on a certificate, and test helpers."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from msgspec import Struct

from tonne.platform.db.database import Database
from tonne.platform.events.notification import Notifier, WorkKind
from tonne.platform.http.errors import RouteNotFound, require_test_mode
from tonne.platform.http.json_body import read
from tonne.platform.http.lists import Paging, list_response
from tonne.platform.http.route import Request, Response, json_response
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import MAX_GRAMS, MassUnit, format_tonnes, to_grams
from tonne.platform.values.context import Clock, Mode, Scope
from tonne.selling.accounts.directory import AccountDirectory
from tonne.selling.orders import store as order_store
from tonne.selling.orders.errors import OrderNotFound
from tonne.selling.orders.model import Beneficiary
from tonne.selling.orders.schemas import order_document
from tonne.supply.retirements import retirement_store
from tonne.supply.retirements.rename_order import rename_order
from tonne.supply.retirements.schemas import RenameIn, SupplyIn, SupplyOut
from tonne.supply.stock.simulate_supply import simulate_supply

Step = Callable[[Scope, str], Awaitable[bytes]]


class RetiresTestOrders(Protocol):
    """Retires the credits of an order at the simulated registry; returns its JSON."""

    async def retire(self, scope: Scope, order_id: str) -> bytes: ...

    async def complete(self, scope: Scope, order_id: str) -> bytes: ...


class RetirementEndpoints(Struct, frozen=True):
    database: Database
    retire_test_order: RetiresTestOrders
    directory: AccountDirectory
    clock: Clock
    settings: Settings
    notifier: Notifier

    async def rename_order(self, request: Request) -> Response:
        """Correct the name on the certificate.

        Until the first credit is retired, the order changes, and the registry gets the new name. Once the order is
        complete, a new certificate replaces the old one; what the registry has cannot change, and the certificate says
        so. In between, returns 409. An order in test mode works the same way.
        """
        scope, order_id, document = request.scope, request.path("order_id"), request.json()
        async with self.database.transaction() as tx:
            # Before the body: an order of another account is unknown, whatever the body says.
            if await order_store.find_by_id(tx, scope, order_id) is None:
                raise OrderNotFound
            body = read(document, RenameIn)
            order = await rename_order(
                tx,
                scope,
                order_id,
                Beneficiary(body.name, body.kind),
                reason=body.reason,
                settings=self.settings,
                by=request.actor.at(self.clock()),
            )
        self.notifier.notify(WorkKind.EVENTS, WorkKind.CERTIFICATES, WorkKind.MAILS, scope=request.scope)
        return Response(order_document(order))

    async def list_retirements(self, request: Request) -> Response:
        """List the retirements of your organisation.

        Returns the organisation's retirements, newest first, with their serial numbers and the share of each
        order.
        """
        paging = Paging.of(request, f"retirements {request.scope.organisation_id} {request.scope.mode}")
        async with self.database.snapshot() as connection:
            found = await retirement_store.list_retirements(connection, request.scope, paging.start, paging.fetch)
        page, cursor = paging.cut(found, lambda retirement: retirement.place)
        return list_response([retirement.wire for retirement in page], cursor)

    async def retire(self, request: Request) -> Response:
        """Retire the credits of a paid order.

        Allocates the credits first if necessary. Test keys only.

        The order is `retiring` afterwards and completes within seconds.
        """
        return await self._help(request, self.retire_test_order.retire)

    async def complete(self, request: Request) -> Response:
        """Complete a paid order.

        Retires its credits if necessary and issues its certificate. Test keys only.
        """
        return await self._help(request, self.retire_test_order.complete)

    async def simulate_supply(self, request: Request) -> Response:
        """Simulate short supply.

        Test supply does not run out. With this helper, only `available_quantity` tonnes seem to be available to the
        account: quotes and orders above have `insufficient_available_quantity` set to true, and orders above wait in
        `paid`. Send null to end it: orders that wait are then allocated.

        It applies to the account that the key acts for, and takes effect within 2 seconds. Test keys only.
        """
        require_test_mode(request.scope)
        requested = read(request.json(), SupplyIn).available_quantity
        grams = None if requested is None else min(MAX_GRAMS, to_grams(requested, MassUnit.T))
        await self.database.commit(simulate_supply, request.scope, grams, by=request.actor.at(self.clock()))
        self.directory.forget_terms(request.scope)
        self.notifier.notify(WorkKind.PAID_ORDERS)
        return json_response(SupplyOut(None if grams is None else format_tonnes(grams)))

    async def _help(self, request: Request, step: Step) -> Response:
        if request.scope.mode is not Mode.TEST:
            raise RouteNotFound
        document = await step(request.scope, request.path("order_id"))
        kinds = (WorkKind.EVENTS, WorkKind.PAID_ORDERS, WorkKind.POOLED_UNITS, WorkKind.CERTIFICATES, WorkKind.MAILS)
        self.notifier.notify(*kinds, scope=request.scope)
        return Response(document)
