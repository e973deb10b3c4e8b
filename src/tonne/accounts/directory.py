"""What the HTTP gate and the endpoints ask about keys and accounts, remembered for a moment."""

import time
from collections.abc import Callable
from datetime import datetime

from tonne.accounts import store
from tonne.accounts.model import Terms
from tonne.base.clock import Clock
from tonne.base.scope import Mode, Scope
from tonne.db.pool import Database
from tonne.http.authenticator import KeyHolder

_MAX_REMEMBERED = 10_000


class AccountDirectory:
    def __init__(
        self, database: Database, clock: Clock, refresh_s: float, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._database = database
        self._clock = clock
        self._refresh_s = refresh_s
        self._monotonic = monotonic
        self._terms: dict[str, tuple[float, Terms]] = {}
        self._uses: dict[tuple[str, str], datetime] = {}

    async def find_key(self, secret_hash: bytes) -> KeyHolder | None:
        async with self._database.connection() as connection:
            found = await store.find_valid_key(connection, secret_hash)
        return None if found is None else KeyHolder(*found)

    async def has_account(self, organisation_id: str, mode: Mode, account_id: str) -> bool:
        async with self._database.connection() as connection:
            return await store.has_account(connection, organisation_id, mode, account_id)

    def note_use(self, holder: KeyHolder) -> None:
        self._uses[holder.scope.organisation_id, holder.key_id] = self._clock()

    async def write_uses(self) -> None:
        """Record when keys were last used: all since the last call in one statement."""
        uses, self._uses = self._uses, {}
        if uses:
            async with self._database.connection() as connection:
                await store.note_uses_any_account(connection, [(*place, at) for place, at in uses.items()])

    async def terms_of(self, scope: Scope) -> Terms:
        now = self._monotonic()
        known = self._terms.get(scope.account_id)
        if known is not None and known[0] > now:
            return known[1]
        async with self._database.connection() as connection:
            terms = await store.find_terms(connection, scope)
        if len(self._terms) >= _MAX_REMEMBERED:
            self._terms.clear()
        self._terms[scope.account_id] = (now + self._refresh_s, terms)
        return terms
