"""Key to scope: who is calling, for which account, and whether too fast."""

import hashlib
import ipaddress
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tonne.base.ids import is_id
from tonne.base.scope import Mode, Scope
from tonne.base.settings import Settings
from tonne.http.errors import AccountNotFound, RateLimited, Unauthorised
from tonne.http.rate_limit import TokenBuckets, Verdict, too_many

# As they go out: nearly every answer has these, and encoding them each time shows in the bill.
RawHeaders = list[tuple[bytes, bytes]]

_MAX_REMEMBERED = 10_000
_KEY_PREFIXES = (b"tonne_test_", b"tonne_live_")


@dataclass(frozen=True, slots=True)
class KeyHolder:
    """What a valid key stands for."""

    key_id: str
    scope: Scope


class Directory(Protocol):
    """Where keys and accounts are looked up: `accounts` provides it."""

    async def find_key(self, secret_hash: bytes) -> KeyHolder | None: ...

    async def has_account(self, organisation_id: str, mode: Mode, account_id: str) -> bool: ...

    def note_use(self, holder: KeyHolder) -> None: ...


def hash_key(key: bytes) -> bytes:
    """Keys carry 256 random bits, so a plain hash is enough: there is nothing to guess and nothing to salt."""
    return hashlib.sha256(key).digest()


class Authenticator:
    def __init__(
        self, directory: Directory, settings: Settings, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._directory = directory
        self._monotonic = monotonic
        self._refresh_s = settings.key_refresh_s
        self._proxies = settings.proxy_networks
        self._account_header = f"{settings.brand}-Account".lower().encode()
        self._calls = TokenBuckets(settings.rate_limit_per_second, settings.rate_limit_burst, monotonic)
        self._failures = TokenBuckets(settings.failed_auth_per_minute / 60, settings.failed_auth_burst, monotonic)
        # Looked up again after a moment, so that a revoked key stops working within it.
        self._keys: dict[bytes, tuple[float, KeyHolder]] = {}
        self._accounts: dict[tuple[str, str, str], float] = {}

    async def admit(self, headers: dict[bytes, bytes], client: str) -> tuple[KeyHolder, Scope, RawHeaders]:
        """The key's holder, the scope to act in, and the rate-limit headers for the answer."""
        holder = await self._identify(headers, client)
        verdict = self._calls.take(holder.key_id)
        limits = _limit_headers(self._calls, verdict)
        if not verdict.allowed:
            raise _too_many(verdict, limits)
        self._directory.note_use(holder)
        scope = holder.scope
        wanted = headers.get(self._account_header)
        if wanted is not None:
            scope = await self._act_for(scope, wanted.decode("latin-1"))
        return holder, scope, limits

    def client_address(self, peer: str, forwarded_for: bytes | None) -> str:
        """The caller's address: the last one in X-Forwarded-For that is not a proxy we trust."""
        address = peer
        hops = forwarded_for.decode("latin-1").split(",") if forwarded_for else []
        while hops and self._is_proxy(address):
            address = hops.pop().strip()
        return address

    def _is_proxy(self, address: str) -> bool:
        try:
            return any(ipaddress.ip_address(address) in network for network in self._proxies)
        except ValueError:
            return False

    async def _identify(self, headers: dict[bytes, bytes], client: str) -> KeyHolder:
        scheme, _, key = headers.get(b"authorization", b"").partition(b" ")
        digest = hash_key(key)
        now = self._monotonic()
        known = self._keys.get(digest)
        if known is not None and known[0] > now and scheme.lower() == b"bearer":
            return known[1]
        # Looked at before the database is asked, so that a flood of wrong keys costs no queries. A key that was good a
        # moment ago is looked up all the same: its neighbours behind one address do not lock it out.
        verdict = self._failures.take(client, 0)
        if known is None and not verdict.allowed:
            raise _too_many(verdict, _limit_headers(self._failures, verdict))
        holder = None
        if scheme.lower() == b"bearer" and key.startswith(_KEY_PREFIXES):
            holder = await self._directory.find_key(digest)
        if holder is None:
            self._keys.pop(digest, None)
            self._failures.take(client)
            raise Unauthorised
        if len(self._keys) >= _MAX_REMEMBERED:
            self._keys.clear()
        self._keys[digest] = (now + self._refresh_s, holder)
        return holder

    async def _act_for(self, scope: Scope, account_id: str) -> Scope:
        place = (scope.organisation_id, scope.mode, account_id)
        now = self._monotonic()
        if self._accounts.get(place, 0.0) <= now:
            if not is_id("acc", account_id) or not await self._directory.has_account(*place):
                raise AccountNotFound
            if len(self._accounts) >= _MAX_REMEMBERED:
                self._accounts.clear()
            self._accounts[place] = now + self._refresh_s
        return Scope(scope.organisation_id, account_id, scope.mode)


def _limit_headers(buckets: TokenBuckets, verdict: Verdict) -> RawHeaders:
    reset_s = math.ceil((buckets.burst - verdict.remaining) / buckets.per_second)
    return [
        (b"ratelimit-limit", b"%d" % buckets.burst),
        (b"ratelimit-remaining", b"%d" % verdict.remaining),
        (b"ratelimit-reset", b"%d" % reset_s),
    ]


def _too_many(verdict: Verdict, limits: RawHeaders) -> RateLimited:
    error = too_many(verdict)
    error.headers.update({name.decode(): value.decode() for name, value in limits})
    return error
