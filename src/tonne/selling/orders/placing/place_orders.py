"""Place orders for clients. Requests that arrive while a transaction commits share the next one."""

import contextlib
from collections.abc import Callable, Sequence
from datetime import timedelta

import asyncpg

from tonne.platform.db.database import Database
from tonne.platform.db.group_commit import GroupCommit
from tonne.platform.db.idempotency import Idempotency, create_once
from tonne.platform.events.notification import Notifier
from tonne.platform.http.limits.fair_share import FairShare
from tonne.platform.process.telemetry.instruments import Metric
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock, Scope
from tonne.platform.values.errors import TonneError
from tonne.selling.accounts.directory import AccountDirectory
from tonne.selling.accounts.model import Terms
from tonne.selling.catalogue.snapshot import Catalogues
from tonne.selling.orders import store
from tonne.selling.orders.due_work import work_after
from tonne.selling.orders.model import Order
from tonne.selling.orders.placing.place_batch import Outcome, Placed, WantedOrder, place_batch
from tonne.selling.orders.placing.place_order import OrderRequest, place_order

# A transaction that the database ended to resolve a deadlock is tried again: it has changed nothing.
_DEADLOCK_RETRIES = 2


class PlaceOrders:
    """Limits itself what one organisation uses at a time: a request that waits for its batch uses no connection."""

    def __init__(
        self,
        database: Database,
        catalogues: Catalogues,
        directory: AccountDirectory,
        *,
        clock: Clock,
        settings: Settings,
        notifier: Notifier,
        shares: FairShare,
    ) -> None:
        self._database = database
        self._catalogues = catalogues
        self._directory = directory
        self._clock = clock
        self._retry_after = timedelta(seconds=settings.pricing_retry_s)
        self._notifier = notifier
        self._shares = shares
        self._group: GroupCommit[WantedOrder, Placed] = GroupCommit(
            self._place_batch, self._place_alone, wait_s=settings.statement_timeout_s
        )

    @property
    def metrics(self) -> tuple[Metric, ...]:
        return self._group.metrics

    async def place(
        self,
        scope: Scope,
        idempotency: Idempotency,
        read: Callable[[Terms], OrderRequest],
        *,
        key_id: str | None = None,
    ) -> Placed:
        """The document of the new order; or of the original with this key, and the digest of the original request."""
        await self._shares.enter(scope.organisation_id)
        try:
            terms, catalogue = await self._directory.terms_of(scope), await self._catalogues.current(scope.mode)
            limits = await self._directory.limits_of(scope, key_id)
            try:
                request = read(terms)
            except TonneError:
                original = None if idempotency.key is None else await self._find(scope, idempotency.key)
                if original is None:
                    raise
                return original
        finally:
            self._shares.leave(scope.organisation_id)
        requested = WantedOrder(scope, request, terms, catalogue, limits)
        if limits or request.user is not None or request.quote_id is not None:
            # Limits are counted, audit entries written and quotes used with each order alone.
            return await self._group.write_apart(requested)
        return await self._group.write(f"{scope.organisation_id} {scope.mode}", requested)

    async def drain(self) -> None:
        """Until all orders that were accepted are placed."""
        await self._group.drain()

    async def _find(self, scope: Scope, idempotency_key: str) -> tuple[bytes, bytes] | None:
        return await self._database.run(store.find_by_key, scope, idempotency_key)

    async def _place_batch(self, batch: Sequence[WantedOrder]) -> list[Outcome]:
        return await self._database.run(
            place_batch, batch, self._notify, now=self._clock(), retry_after=self._retry_after
        )

    def _notify(self, order: Order) -> None:
        self._notifier.notify(*work_after(order), scope=order.scope)

    async def _place_alone(self, requested: WantedOrder) -> Placed:
        organisation_id = requested.scope.organisation_id
        await self._shares.enter(organisation_id)
        try:
            for _ in range(_DEADLOCK_RETRIES):
                with contextlib.suppress(asyncpg.DeadlockDetectedError):
                    return await self._place_once(requested)
            return await self._place_once(requested)
        finally:
            self._shares.leave(organisation_id)

    async def _place_once(self, requested: WantedOrder) -> Placed:
        scope, request = requested.scope, requested.request
        async with self._database.connection() as connection:

            async def create() -> bytes | None:
                async with connection.transaction():
                    placed = await place_order(
                        connection,
                        scope,
                        request,
                        requested.terms,
                        requested.catalogue,
                        now=self._clock(),
                        retry_after=self._retry_after,
                        limits=requested.limits,
                    )
                if placed is None:
                    return None
                self._notify(placed.order)
                return placed.document

            return await create_once(
                request.idempotency.key, create, lambda key: store.find_by_key(connection, scope, key)
            )
