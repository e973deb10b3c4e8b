"""Accounts by API key, and the bundles on sale. Both are cached for a moment, like in Tonne."""

import time
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from bench.peer.pricing import Bundle
from bench.peer.tables import AccountRow, ApiKeyRow, BundleRow

REFRESH_S = 2.0


class Account(NamedTuple):
    id: str
    organisation_id: str
    currency: str
    beneficiary: str
    payment_method: str
    fee_rate: int
    tax_rate: int
    default_selection: list[tuple[str, int]]


FIND_ACCOUNT = select(*[getattr(AccountRow, name) for name in Account._fields]).join(
    ApiKeyRow, ApiKeyRow.account_id == AccountRow.id
)
LIST_BUNDLES = select(*[getattr(BundleRow, name) for name in Bundle._fields]).where(BundleRow.enabled)


class Catalogue:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._accounts: dict[bytes, tuple[float, Account]] = {}
        self._bundles: dict[str, Bundle] = {}
        self._bundles_until = 0.0

    async def find_account(self, secret_hash: bytes) -> Account | None:
        now = time.monotonic()
        until, account = self._accounts.get(secret_hash, (0.0, None))
        if now < until:
            return account
        query = FIND_ACCOUNT.where(ApiKeyRow.secret_hash == secret_hash, ApiKeyRow.revoked_at.is_(None))
        async with self._engine.connect() as connection:
            row = (await connection.execute(query)).one_or_none()
        if row is None:
            self._accounts.pop(secret_hash, None)
            return None
        account = Account(*row)
        self._accounts[secret_hash] = (now + REFRESH_S, account)
        return account

    async def bundles(self) -> dict[str, Bundle]:
        now = time.monotonic()
        if now >= self._bundles_until:
            # Only one request refreshes them; the others use the copy of before.
            self._bundles_until = now + REFRESH_S
            async with self._engine.connect() as connection:
                rows = await connection.execute(LIST_BUNDLES)
                self._bundles = {row.id: Bundle(*row) for row in rows}
        return self._bundles
