"""Lookups of keys and accounts for the HTTP layer. Terms are cached for a few seconds."""

import time
from collections.abc import Callable
from datetime import datetime

from tonne.accounts import store
from tonne.accounts.model import Terms
from tonne.base.clock import Clock
from tonne.base.expiring_cache import ExpiringCache
from tonne.base.scope import Mode, Scope
from tonne.base.tax import NO_TAX, TaxTerms
from tonne.db.pool import Database
from tonne.http.authenticator import KeyHolder


class AccountDirectory:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        refresh_s: float,
        monotonic: Callable[[], float] = time.monotonic,
        *,
        seller_tax: TaxTerms = NO_TAX,
    ) -> None:
        self._database = database
        self._seller_tax = seller_tax
        self._clock = clock
        self._terms: ExpiringCache[str, Terms] = ExpiringCache(refresh_s, monotonic)
        self._uses: dict[tuple[str, str], datetime] = {}

    async def find_key(self, secret_hash: bytes) -> KeyHolder | None:
        async with self._database.connection() as connection:
            return await store.find_valid_key(connection, secret_hash)

    async def has_account(self, organisation_id: str, mode: Mode, account_id: str) -> bool:
        async with self._database.connection() as connection:
            return await store.has_account(connection, organisation_id, mode, account_id)

    def note_use(self, holder: KeyHolder) -> None:
        self._uses[holder.scope.organisation_id, holder.key_id] = self._clock()

    async def write_uses(self) -> None:
        """Write the last-used times that were noted since the last call, in one statement."""
        uses, self._uses = self._uses, {}
        if uses:
            async with self._database.connection() as connection:
                await store.note_uses_any_account(connection, [(*place, at) for place, at in uses.items()])

    def forget_terms(self, scope: Scope) -> None:
        """After a change in this process. Other processes notice it when their copy expires."""
        self._terms.drop(scope.account_id)

    async def terms_of(self, scope: Scope) -> Terms:
        terms = self._terms.get(scope.account_id)
        if terms is None:
            async with self._database.connection() as connection:
                terms = await store.find_terms(connection, scope, self._seller_tax)
            self._terms.put(scope.account_id, terms)
        return terms
