"""Lock the price of an order for 30 minutes, and hold its supply within the quota of the account."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Protocol

import msgspec
from msgspec import structs

from tonne.platform.db.database import Connection, Database
from tonne.platform.db.group_commit import GroupCommit, NotWritten
from tonne.platform.db.idempotency import Idempotency, create_once
from tonne.platform.http.limits.fair_share import FairShare
from tonne.platform.process.expiring_cache import ExpiringCache
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import format_tonnes
from tonne.platform.values.context import Clock, Mode, Scope, new_id
from tonne.platform.values.errors import TonneError
from tonne.selling.accounts.directory import AccountDirectory
from tonne.selling.accounts.model import Terms
from tonne.selling.catalogue.prices.price import PriceRequest
from tonne.selling.catalogue.prices.pricing import PricedLine
from tonne.selling.catalogue.schemas import QuoteOut, quote_out
from tonne.selling.catalogue.snapshot import Catalogues
from tonne.selling.orders.errors import NotEnoughInStock, SupplyInsufficient
from tonne.selling.orders.placing.bodies import price_request
from tonne.selling.orders.placing.place_order import with_mass_of_estimate
from tonne.selling.orders.placing.quote_order import quote_order
from tonne.selling.orders.quotes.errors import HoldQuotaExceeded
from tonne.selling.orders.quotes.locked_price import LockedPrice, encode_locked
from tonne.selling.orders.quotes.schemas import LockedQuoteIn, quote_document, with_status
from tonne.selling.orders.quotes.set_hold_quota import HoldQuota, has_quota, list_of_organisation, lock_quota
from tonne.selling.orders.quotes.store import NewQuote, StoredQuote, find_quote_by_key, insert_quotes, sum_held_grams

QUOTE_LIFE = timedelta(minutes=30)
# An order that is placed in the last moment of a quote still finds its hold.
HOLD_GRACE = timedelta(minutes=1)

# The JSON of the new quote and None; or of the original with the key, and the digest of the original request.
Locked = tuple[bytes, bytes | None]


class HoldSupply(Protocol):
    """Hold the grams of these lines for a quote, and return how many are reserved, in whole units of the registries.

    Raises NotEnoughInStock. It locks lots until the transaction ends.
    """

    async def __call__(
        self, tx: Connection, scope: Scope, quote_id: str, lines: Sequence[PricedLine], expires_at: datetime
    ) -> int: ...


class _KeyTaken(Exception):
    """Another quote has the idempotency key."""


class ComposedQuote(msgspec.Struct, frozen=True):
    """A new quote, and what is needed to hold its supply."""

    new: NewQuote
    shown: QuoteOut
    lines: Sequence[PricedLine]
    quantity_grams: int


class LockQuotes:
    """Quotes that hold no supply share transactions, as orders do."""

    def __init__(
        self,
        database: Database,
        catalogues: Catalogues,
        directory: AccountDirectory,
        *,
        clock: Clock,
        settings: Settings,
        shares: FairShare,
        hold_supply: HoldSupply,
    ) -> None:
        self._database = database
        self._catalogues = catalogues
        self._directory = directory
        self._clock = clock
        self._shares = shares
        self._hold_supply = hold_supply
        self._has_quota: ExpiringCache[str, bool] = ExpiringCache(settings.key_refresh_s)
        self._group: GroupCommit[ComposedQuote, Locked] = GroupCommit(
            self._write_batch, self._write_alone, wait_s=settings.statement_timeout_s
        )

    async def lock(self, scope: Scope, idempotency: Idempotency, read: Callable[[], LockedQuoteIn]) -> Locked:
        """The JSON of the new quote; or of the original with this key, and the digest of the original request."""
        try:
            body = read()
            quote = await self._compose(scope, idempotency, body)
            if body.hold_supply is not False and await self._may_hold(scope):
                try:
                    return await self._write_holding(quote)
                except (SupplyInsufficient, HoldQuotaExceeded):
                    if body.hold_supply:
                        raise
            elif body.hold_supply:
                raise HoldQuotaExceeded(
                    "The operator has granted this account no quota to hold supply. Ask for one, or omit hold_supply.",
                    field="hold_supply",
                )
        except TonneError:
            original = None if idempotency.key is None else await self._find(scope, idempotency.key)
            if original is None:
                raise
            return original
        return await self._group.write(f"{scope.organisation_id} {scope.mode}", quote)

    async def drain(self) -> None:
        """Until all quotes that were accepted are stored."""
        await self._group.drain()

    async def _compose(self, scope: Scope, idempotency: Idempotency, body: LockedQuoteIn) -> ComposedQuote:
        terms, catalogue = await self._directory.terms_of(scope), await self._catalogues.current(scope.mode)
        terms.require_open()
        requested = await self._amount(scope, body, terms)
        priced = quote_order(requested, terms, catalogue)
        now = self._clock()
        shown = quote_out(priced.priced, requested, terms, estimate_id=body.estimate_id)
        locked = LockedPrice.of(requested, priced.priced, priced.tax, terms, estimate_id=body.estimate_id)
        quote_id, expires_at = new_id("quo"), now + QUOTE_LIFE
        new = NewQuote(
            scope=scope,
            id=quote_id,
            document=quote_document(shown, quote_id=quote_id, created_at=now, expires_at=expires_at, is_held=False),
            locked=encode_locked(locked),
            idempotency_key=idempotency.key,
            request_digest=idempotency.digest,
            created_at=now,
            expires_at=expires_at,
        )
        return ComposedQuote(new, shown, priced.priced.lines, priced.priced.quantity_grams)

    async def _amount(self, scope: Scope, body: LockedQuoteIn, terms: Terms) -> PriceRequest:
        requested = price_request(
            mass=body.mass,
            masses=body.bundle_masses,
            value=body.value,
            choices=body.bundle_selection,
            unit=body.quantity_trunc,
            terms=terms,
        )
        if body.estimate_id is None:
            return requested
        async with self._connection(scope) as connection:
            return await with_mass_of_estimate(connection, scope, requested, body.estimate_id)

    async def _may_hold(self, scope: Scope) -> bool:
        known = self._has_quota.get(scope.account_id)
        if known is None:
            async with self._connection(scope) as connection:
                known = await has_quota(connection, scope)
            self._has_quota.put(scope.account_id, known)
        return known

    @asynccontextmanager
    async def _connection(self, scope: Scope) -> AsyncIterator[Connection]:
        """A connection out of the share of the organisation."""
        await self._shares.enter(scope.organisation_id)
        try:
            async with self._database.connection() as connection:
                yield connection
        finally:
            self._shares.leave(scope.organisation_id)

    async def _find(self, scope: Scope, idempotency_key: str) -> tuple[bytes, bytes] | None:
        async with self._connection(scope) as connection:
            return await self._find_original(connection, scope, idempotency_key)

    async def _find_original(
        self, connection: Connection, scope: Scope, idempotency_key: str
    ) -> tuple[bytes, bytes] | None:
        found = await find_quote_by_key(connection, scope, idempotency_key)
        return None if found is None else (with_status(found, self._clock()), found.request_digest)

    async def _write_batch(self, batch: Sequence[ComposedQuote]) -> list[Locked | NotWritten]:
        inserted = await self._database.run(insert_quotes, [each.new for each in batch])
        return [
            (_new_document(each.new), None) if each.new.id in inserted else NotWritten.NEEDS_OWN_ATTEMPT
            for each in batch
        ]

    async def _write_alone(self, quote: ComposedQuote) -> Locked:
        new = quote.new
        async with self._connection(new.scope) as connection:

            async def create() -> bytes | None:
                return _new_document(new) if await insert_quotes(connection, [new]) else None

            return await create_once(
                new.idempotency_key, create, lambda key: self._find_original(connection, new.scope, key)
            )

    async def _write_holding(self, quote: ComposedQuote) -> Locked:
        async with self._connection(quote.new.scope) as connection:

            async def create() -> bytes | None:
                try:
                    async with connection.transaction():
                        held = await self._hold(connection, quote)
                        await _insert(connection, held)
                except _KeyTaken:
                    return None
                return _new_document(held)

            return await create_once(
                quote.new.idempotency_key, create, lambda key: self._find_original(connection, quote.new.scope, key)
            )

    async def _hold(self, tx: Connection, quote: ComposedQuote) -> NewQuote:
        """The quote with the grams that it holds now. Raises SupplyInsufficient or HoldQuotaExceeded."""
        new, scope = quote.new, quote.new.scope
        quota = await lock_quota(tx, scope)
        left = 0 if quota is None else quota.quota_grams - await _used_grams(tx, scope, quota, new.created_at)
        _require_quota(quote.quantity_grams, left)
        held_grams = quote.quantity_grams
        # Test supply does not run out, so that only the quota is counted.
        if scope.mode is Mode.LIVE:
            try:
                held_grams = await self._hold_supply(tx, scope, new.id, quote.lines, new.expires_at + HOLD_GRACE)
            except NotEnoughInStock as error:
                raise SupplyInsufficient(
                    "Supply does not cover this quote now, so it cannot be held. Ask for less, or omit hold_supply.",
                    field="hold_supply",
                ) from error
            _require_quota(held_grams, left)
        document = quote_document(
            quote.shown, quote_id=new.id, created_at=new.created_at, expires_at=new.expires_at, is_held=True
        )
        return structs.replace(new, document=document, held_grams=held_grams, is_holding=True)


async def _insert(tx: Connection, new: NewQuote) -> None:
    if not await insert_quotes(tx, [new]):
        raise _KeyTaken


async def _used_grams(tx: Connection, scope: Scope, quota: HoldQuota, now: datetime) -> int:
    if quota.subject_id == scope.account_id:
        return await sum_held_grams(tx, scope.organisation_id, scope.mode, now, account_id=scope.account_id)
    others = [each.subject_id for each in await list_of_organisation(tx, scope.tenant)]
    return await sum_held_grams(tx, scope.organisation_id, scope.mode, now, without_accounts=others)


def _require_quota(grams: int, left_grams: int) -> None:
    if grams > left_grams:
        raise HoldQuotaExceeded(
            f"To hold {format_tonnes(grams)} t, in whole units of the registry, would exceed the quota: "
            f"{format_tonnes(max(0, left_grams))} t are left. Let other quotes expire, ask for less, or omit "
            "hold_supply.",
            field="hold_supply",
        )


def _new_document(new: NewQuote) -> bytes:
    stored = StoredQuote(
        new.document, new.locked, new.request_digest, new.expires_at, None, new.held_grams, new.is_holding
    )
    return with_status(stored, new.created_at)
