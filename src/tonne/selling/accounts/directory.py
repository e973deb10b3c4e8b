"""Lookups of keys and accounts for the HTTP layer, and names and lists of accounts for people.

Terms are cached for a few seconds.
"""

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime

from msgspec import Struct, field

from tonne.platform.db.database import Connection, Database, value_of
from tonne.platform.http.authenticator import KeyHolder
from tonne.platform.process.expiring_cache import ExpiringCache
from tonne.platform.process.single_flight import SingleFlight
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock, Mode, Scope, Tenant
from tonne.platform.values.paging import Position
from tonne.platform.values.spending_limit import SpendingLimit
from tonne.selling.accounts import store
from tonne.selling.accounts.keys import store as key_store
from tonne.selling.accounts.limit_store import find_key_limit
from tonne.selling.accounts.model import Account, AccountKind, PaymentMethod, Terms
from tonne.selling.accounts.store import ACCOUNT_COLUMNS, account_of_row


class AccountDirectory:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        refresh_s: float,
        monotonic: Callable[[], float] = time.monotonic,
        *,
        settings: Settings | None = None,
    ) -> None:
        self._database = database
        self._settings = settings or Settings()
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
        terms = await self._database.run(store.find_terms, scope, self._settings.seller_tax)
        terms = terms.at_service(self._settings)
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


class Names(Struct, frozen=True):
    """Names of accounts and organisations by id. An unknown id is its own name."""

    by_id: dict[str, str] = field(default_factory=dict)

    def of(self, id_: str | None) -> str:
        return "-" if id_ is None else self.by_id.get(id_, id_)


FIND_NAMES = """
SELECT id, name FROM accounts WHERE id = ANY ($1::text[])
UNION ALL SELECT id, name FROM organisations WHERE id = ANY ($1::text[])
"""


async def find_names_any_account(connection: Connection, ids: Iterable[str | None]) -> Names:
    """The names of the accounts and organisations with these ids."""
    requested = sorted({id_ for id_ in ids if id_ is not None})
    return Names({row["id"]: row["name"] for row in await connection.fetch(FIND_NAMES, requested)} if requested else {})


FIND_NAMES_OF_ORGANISATION = """
SELECT id, name FROM accounts WHERE organisation_id = $1 AND id = ANY ($2::text[])
UNION ALL SELECT id, name FROM organisations WHERE id = $1
"""


async def find_names(connection: Connection, organisation_id: str, account_ids: Iterable[str]) -> Names:
    """The names of these accounts and of their organisation."""
    rows = await connection.fetch(FIND_NAMES_OF_ORGANISATION, organisation_id, sorted(set(account_ids)))
    return Names({row["id"]: row["name"] for row in rows})


LIST_ACCOUNT_NAMES = """
SELECT id, name FROM accounts WHERE organisation_id = $1 AND mode = $2 ORDER BY created_at, id LIMIT $3
"""


async def list_account_names(connection: Connection, tenant: Tenant, *, limit: int) -> Names:
    """The oldest accounts of an organisation, to choose one of."""
    rows = await connection.fetch(LIST_ACCOUNT_NAMES, *tenant, limit)
    return Names({row["id"]: row["name"] for row in rows})


FIND_KEY_NAMES = "SELECT id, name FROM api_keys WHERE organisation_id = $1 AND id = ANY ($2::text[])"


async def find_key_names(connection: Connection, organisation_id: str, key_ids: Iterable[str]) -> dict[str, str]:
    """The names of API keys by id."""
    rows = await connection.fetch(FIND_KEY_NAMES, organisation_id, sorted(set(key_ids)))
    return {row["id"]: row["name"] for row in rows}


class ListedAccount(Struct, frozen=True):
    id: str
    kind: AccountKind
    name: str
    currency: str
    beneficiary: str
    payment_method: PaymentMethod
    created_at: datetime
    closed_at: datetime | None
    archived_at: datetime | None

    @property
    def is_client(self) -> bool:
        return self.kind is AccountKind.CLIENT_ACCOUNT


# Ids sort by creation time, and the index on (organisation_id, mode, id) has them in order.
LIST_ACCOUNTS_AFTER = """
SELECT id, kind, name, currency, beneficiary, payment_method, created_at, closed_at, archived_at
FROM accounts
WHERE organisation_id = $1 AND mode = $2 AND id > $3 AND ($4 = '' OR strpos(lower(name), lower($4)) > 0)
ORDER BY id LIMIT $5
"""


async def list_accounts_after(
    connection: Connection, tenant: Tenant, *, after: str, limit: int, name: str = ""
) -> list[ListedAccount]:
    """Oldest first. With `name`, only accounts whose name contains it."""
    rows = await connection.fetch(LIST_ACCOUNTS_AFTER, *tenant, after, name, limit)
    return [value_of(ListedAccount, row) for row in rows]


HAS_OWN_SELECTION = """
SELECT default_bundle_selection IS NOT NULL FROM accounts WHERE organisation_id = $1 AND mode = $2 AND id = $3
"""


async def has_own_selection(connection: Connection, scope: Scope) -> bool:
    """Whether the account has default bundles of its own."""
    place = (scope.organisation_id, scope.mode, scope.account_id)
    return await connection.fetchval(HAS_OWN_SELECTION, *place) is True


class AccountFilter(Struct, frozen=True):
    """`account_ids` are those that the API key is restricted to; None: all. `archived` None: both."""

    kind: AccountKind
    name: str = ""
    archived: bool | None = None
    account_ids: Collection[str] | None = None


# Ids sort by creation time, and the index on (organisation_id, mode, id) has them in order.
LIST_ACCOUNTS_BEFORE = f"""
SELECT {ACCOUNT_COLUMNS} FROM accounts
WHERE organisation_id = $1 AND mode = $2 AND id < $3 AND kind = $4
  AND ($5 = '' OR strpos(lower(name), lower($5)) > 0)
  AND ($6::boolean IS NULL OR (archived_at IS NOT NULL) = $6) AND ($7::text[] IS NULL OR id = ANY ($7))
ORDER BY id DESC LIMIT $8
"""  # noqa: S608 - columns above
# Sorts after every id, in any collation.
_AFTER_ALL = "acc_" + "z" * 27


async def list_accounts_before(
    connection: Connection, scope: Scope, requested: AccountFilter, start: Position, limit: int
) -> list[Account]:
    """The accounts of one kind in the organisation and mode."""
    allowed = None if requested.account_ids is None else sorted(requested.account_ids)
    rows = await connection.fetch(
        LIST_ACCOUNTS_BEFORE,
        scope.organisation_id,
        scope.mode,
        min(start.id, _AFTER_ALL),
        requested.kind,
        requested.name,
        requested.archived,
        allowed,
        limit,
    )
    return [account_of_row(row) for row in rows]
