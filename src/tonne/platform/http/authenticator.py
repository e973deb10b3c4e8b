"""Authenticates API keys, applies the rate limits, and determines the scope that a request acts in."""

import hashlib
import math
import time
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from tonne.platform.http import errors
from tonne.platform.http.client_address import Network, client_address, limit_name, parse_address
from tonne.platform.http.limits.rate_limit import Quota, TokenBuckets, rate_limited
from tonne.platform.http.permissions import FULL_ACCESS
from tonne.platform.process.expiring_cache import ExpiringCache
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode, Scope, is_id

# Encoded already: almost every response has these headers.
RawHeaders = list[tuple[bytes, bytes]]

_KEY_PREFIXES = (b"tonne_test_", b"tonne_live_")
# The keys of an organisation in one mode are together allowed as much as this number of them.
ORGANISATION_KEYS = 5
_ORGANISATION_LIMITED = "The keys of your organisation have sent too many requests together. Wait, then try again."
_NO_HEADER = "There is no Authorization header. Send your API key as `Authorization: Bearer <API_KEY>`."


class KeyHolder(Struct, frozen=True):
    """A valid API key, its default scope, and what it may do."""

    key_id: str
    scope: Scope
    # The key's own account, or its organisation, is closed.
    is_closed: bool = False
    permissions: frozenset[str] = FULL_ACCESS
    # None: all accounts of the organisation. Its default account is always one of them.
    accounts: frozenset[str] | None = None
    # Empty: the key works from everywhere.
    networks: tuple[Network, ...] = ()


class Directory(Protocol):
    """Looks up keys and accounts. Implemented in `accounts`, which this package cannot import."""

    async def find_key(self, secret_hash: bytes) -> KeyHolder | None: ...

    async def has_account(self, organisation_id: str, mode: Mode, account_id: str) -> bool: ...

    def note_use(self, holder: KeyHolder) -> None: ...


def hash_key(key: bytes) -> bytes:
    """A plain hash is enough: keys have 256 random bits, so they cannot be guessed and need no salt."""
    return hashlib.sha256(key).digest()


class Authenticator:
    def __init__(
        self, directory: Directory, settings: Settings, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._directory = directory
        self._proxies = settings.proxy_networks
        self._account_header = f"{settings.brand}-Account".lower().encode()
        self._requests = TokenBuckets("keys", settings.rate_limit_per_second, settings.rate_limit_burst, monotonic)
        self._organisations = TokenBuckets(
            "organisations",
            settings.rate_limit_per_second * ORGANISATION_KEYS,
            settings.rate_limit_burst * ORGANISATION_KEYS,
            monotonic,
        )
        self._failures = TokenBuckets(
            "failed_auth", settings.failed_auth_per_minute / 60, settings.failed_auth_burst, monotonic
        )
        # A revoked key stops working when its entry expires.
        self._keys: ExpiringCache[bytes, KeyHolder] = ExpiringCache(settings.key_refresh_s, monotonic)
        self._scopes: ExpiringCache[tuple[str, Mode, str], Scope] = ExpiringCache(settings.key_refresh_s, monotonic)

    @property
    def limits(self) -> tuple[TokenBuckets, ...]:
        return self._requests, self._organisations, self._failures

    async def admit(
        self, holder: KeyHolder, headers: dict[bytes, bytes], client: str, permission: str
    ) -> tuple[Scope, RawHeaders]:
        """The scope to act in, and the rate-limit headers of the response."""
        if holder.is_closed:
            raise errors.AccountClosed
        if holder.networks:
            self._require_network(holder, client)
        quota = self._requests.consume(holder.key_id)
        limits = _limit_headers(self._requests, quota)
        if not quota.allowed:
            raise _rate_limited(quota, limits)
        self._charge_organisation(holder.scope, 1)
        self._directory.note_use(holder)
        if permission not in holder.permissions:
            raise errors.KeyPermissionMissing.of(permission)
        account_id = headers.get(self._account_header)
        if account_id is None:
            return holder.scope, limits
        scope = await self._act_for(holder.scope, account_id.decode("latin-1"))
        if holder.accounts is not None and scope.account_id not in holder.accounts:
            raise errors.KeyAccountNotAllowed
        return scope, limits

    def charge(self, key_id: str, scope: Scope, requests: int) -> None:
        """Count further requests against the rate limits, for a request that contains several.

        Raises RateLimited. A full burst is enough for any number.
        """
        requested = min(requests, self._requests.burst)
        if not requested:
            return
        quota = self._requests.consume(key_id, requested)
        if not quota.allowed:
            wait_s = (requested - quota.remaining) / self._requests.per_second
            raise _rate_limited(quota._replace(retry_after_s=wait_s), _limit_headers(self._requests, quota))
        self._charge_organisation(scope, requested)

    def _charge_organisation(self, scope: Scope, requests: int) -> None:
        """All keys of an organisation in one mode together. Raises RateLimited."""
        quota = self._organisations.consume(f"{scope.organisation_id} {scope.mode}", requests)
        if not quota.allowed:
            raise _rate_limited(quota, _limit_headers(self._organisations, quota), _ORGANISATION_LIMITED)

    def client_address(self, peer: str, forwarded_for: bytes | None) -> str:
        """The client's address: the last one in X-Forwarded-For that is not a trusted proxy."""
        return client_address(peer, forwarded_for, self._proxies)

    def _require_network(self, holder: KeyHolder, client: str) -> None:
        """A refusal counts as a failed attempt, and not against the rate limit of the key's own clients."""
        address = parse_address(client)
        if address is None or not any(address in network for network in holder.networks):
            quota = self._failures.consume(limit_name(client))
            if not quota.allowed:
                raise _rate_limited(quota, _limit_headers(self._failures, quota))
            raise errors.KeyNetworkNotAllowed.of(client)

    async def identify(self, headers: dict[bytes, bytes], client: str) -> KeyHolder:
        """The holder of the key in the request. Raises Unauthorised."""
        scheme, _, key = headers.get(b"authorization", b"").partition(b" ")
        digest = hash_key(key)
        is_bearer = scheme.lower() == b"bearer"
        holder = self._keys.get(digest)
        if holder is not None and is_bearer:
            return holder
        # Checked before the query, so that a flood of wrong keys costs no queries. A key that was valid a moment ago is
        # exempt: other clients behind the same address must not lock it out.
        client = limit_name(client)
        quota = self._failures.consume(client, 0)
        if not quota.allowed and digest not in self._keys:
            raise _rate_limited(quota, _limit_headers(self._failures, quota))
        holder = None
        if is_bearer and key.startswith(_KEY_PREFIXES):
            holder = await self._directory.find_key(digest)
        if holder is None:
            self._keys.drop(digest)
            self._failures.consume(client)
            raise errors.Unauthorised(None if b"authorization" in headers else _NO_HEADER)
        self._keys.put(digest, holder)
        return holder

    async def _act_for(self, scope: Scope, account_id: str) -> Scope:
        key = (scope.organisation_id, scope.mode, account_id)
        found = self._scopes.get(key)
        if found is None:
            if not is_id("acc", account_id) or not await self._directory.has_account(*key):
                raise errors.AccountNotFound
            found = Scope(scope.organisation_id, account_id, scope.mode)
            self._scopes.put(key, found)
        return found


def _limit_headers(buckets: TokenBuckets, quota: Quota) -> RawHeaders:
    reset_s = math.ceil((buckets.burst - quota.remaining) / buckets.per_second)
    return [
        (b"ratelimit-limit", b"%d" % buckets.burst),
        (b"ratelimit-remaining", b"%d" % quota.remaining),
        (b"ratelimit-reset", b"%d" % reset_s),
    ]


def _rate_limited(quota: Quota, limits: RawHeaders, message: str | None = None) -> errors.RateLimited:
    error = rate_limited(quota, message)
    error.headers.update({name.decode(): value.decode() for name, value in limits})
    return error
