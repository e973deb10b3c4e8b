"""Lookups of keys and accounts for the HTTP layer. Terms are cached for a few seconds."""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from tonne.platform.db.database import Database
from tonne.platform.http.authenticator import KeyHolder
from tonne.platform.process.expiring_cache import ExpiringCache
from tonne.platform.process.single_flight import SingleFlight
from tonne.platform.values.amounts import NO_TAX, TaxTerms
from tonne.platform.values.context import Clock, Mode, Scope
from tonne.platform.values.spending_limit import SpendingLimit
from tonne.selling.accounts import store
from tonne.selling.accounts.keys import store as key_store
from tonne.selling.accounts.limit_store import find_key_limit
from tonne.selling.accounts.model import Terms


class AccountDirectory:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        refresh_s: float,
        monotonic: Callable[[], float] = time.monotonic,
        *,
        seller_tax: TaxTerms = NO_TAX,
        minimum_orders: Mapping[str, int] | None = None,
    ) -> None:
        self._database = database
        self._seller_tax = seller_tax
        self._minimum_orders = minimum_orders or {}
        self._clock = clock
        self._terms: ExpiringCache[str, Terms] = ExpiringCache(refresh_s, monotonic)
        self._key_limits: ExpiringCache[str, tuple[SpendingLimit, ...]] = ExpiringCache(refresh_s, monotonic)
        self._key_lookups: SingleFlight[bytes, KeyHolder | None] = SingleFlight()
        self._account_lookups: SingleFlight[tuple[str, Mode, str], bool] = SingleFlight()
        self._term_lookups: SingleFlight[str, Terms] = SingleFlight()
        self._limit_lookups: SingleFlight[str, tuple[SpendingLimit, ...]] = SingleFlight()
        self._uses: dict[tuple[str, str], datetime] = {}

    async def find_key(self, secret_hash: bytes) -> KeyHolder | None:
        return await self._key_lookups.run(secret_hash, lambda: self._find_key(secret_hash))

    async def _find_key(self, secret_hash: bytes) -> KeyHolder | None:
        return await self._database.run(key_store.find_valid_key, secret_hash, self._clock())

    async def has_account(self, organisation_id: str, mode: Mode, account_id: str) -> bool:
        key = (organisation_id, mode, account_id)
        return await self._account_lookups.run(key, lambda: self._has_account(*key))

    async def _has_account(self, organisation_id: str, mode: Mode, account_id: str) -> bool:
        return await self._database.run(store.has_account, organisation_id, mode, account_id)

    def note_use(self, holder: KeyHolder) -> None:
        self._uses[holder.scope.organisation_id, holder.key_id] = self._clock()

    async def write_uses(self) -> None:
        """Write the last-used times that were noted since the last call, in one statement."""
        uses, self._uses = self._uses, {}
        if uses:
            await self._database.run(key_store.note_uses, [(*place, at) for place, at in uses.items()])

    def forget_terms(self, scope: Scope) -> None:
        """After a change in this process. Other processes notice it when their copy expires."""
        self._terms.drop(scope.account_id)
        self._term_lookups.forget(scope.account_id)

    async def terms_of(self, scope: Scope) -> Terms:
        terms = self._terms.get(scope.account_id)
        if terms is None:
            terms = await self._term_lookups.run(scope.account_id, lambda: self._find_terms(scope))
        return terms

    async def _find_terms(self, scope: Scope) -> Terms:
        terms = await self._database.run(store.find_terms, scope, self._seller_tax)
        terms = terms.with_minimum(self._minimum_orders)
        self._terms.put(scope.account_id, terms)
        return terms

    async def limits_of(self, scope: Scope, key_id: str | None) -> Sequence[SpendingLimit]:
        """The spending limits of an order: the account's, then the key's."""
        terms = await self.terms_of(scope)
        limits = account_limits(scope, terms)
        if key_id is None:
            return limits
        of_key = self._key_limits.get(key_id)
        if of_key is None:
            of_key = await self._limit_lookups.run(key_id, lambda: self._find_key_limit(scope, key_id))
        return (*limits, *of_key)

    async def _find_key_limit(self, scope: Scope, key_id: str) -> tuple[SpendingLimit, ...]:
        found = await self._database.run(find_key_limit, scope.organisation_id, key_id)
        limits = () if found is None else (found,)
        self._key_limits.put(key_id, limits)
        return limits


def account_limits(scope: Scope, terms: Terms) -> tuple[SpendingLimit, ...]:
    if terms.monthly_limit_minor is None:
        return ()
    return (SpendingLimit(scope.account_id, "account", terms.monthly_limit_minor, terms.currency),)
