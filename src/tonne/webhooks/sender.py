"""One request to a receiver: bounded in time and size, to an address that was judged, whatever it answers."""

import asyncio
import functools
import ipaddress
import socket
import ssl
import time
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from tonne import __version__
from tonne.base.settings import Settings, parse_networks
from tonne.webhooks.addresses import AddressPolicy, AddressRefused
from tonne.webhooks.outcomes import SendOutcome, classify

MAX_ANSWER_BYTES = 16 * 1024
KEPT_ANSWER_BYTES = 2 * 1024
# The status is what counts; for the text of the answer we wait no longer than this.
ANSWER_WITHIN_S = 1.0
_REMEMBERED_URLS = 10_000


def policy_from_settings(settings: Settings) -> AddressPolicy:
    ports = frozenset(int(part) for part in settings.webhook_ports.split(",") if part.strip() not in {"", "*"})
    return AddressPolicy(parse_networks(settings.webhook_allow_private), ports)


class GuardedResolver(AbstractResolver):
    """Resolves names and refuses those of which any address is not public."""

    def __init__(self, inner: AbstractResolver, policy: AddressPolicy) -> None:
        self._inner = inner
        self._policy = policy

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await self._inner.resolve(host, port, family)
        self._policy.check_addresses(entry["host"] for entry in found)
        return found

    async def close(self) -> None:
        await self._inner.close()


class Sender:
    """Keeps connections open between requests. Make it inside the running loop, and close it there."""

    def __init__(self, settings: Settings, resolver: AbstractResolver | None = None) -> None:
        self._policy = policy_from_settings(settings)
        self._timeout_s = settings.webhook_timeout_s
        self._parse_url = functools.lru_cache(_REMEMBERED_URLS)(self._policy.parse_url)
        self.resolver = GuardedResolver(resolver or aiohttp.AsyncResolver(), self._policy)
        context = ssl.create_default_context(cafile=settings.webhook_ca_file or None)
        connector = aiohttp.TCPConnector(
            ssl=context,
            resolver=self.resolver,
            socket_factory=self._make_socket,
            limit=0,
            use_dns_cache=False,
            enable_cleanup_closed=False,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            auto_decompress=False,  # a small answer that unpacks to gigabytes stays small
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=self._timeout_s),
            headers={"User-Agent": f"Tonne/{__version__}"},
        )

    async def close(self) -> None:
        await self._session.close()

    async def check_receiver(self, url: str) -> None:
        """Judge an address at registration; raises UrlInvalid or OSError."""
        parsed = self._policy.parse_url(url)
        host = parsed.host or ""
        if _is_literal(host):
            self._policy.check_addresses([host])
        else:
            await asyncio.wait_for(self.resolver.resolve(host, parsed.port or 443), 10)

    async def post(self, url: str, body: bytes, headers: dict[str, str]) -> SendOutcome:
        """The outcome, always: a receiver's failure is nothing that is raised."""
        started = time.monotonic()
        status: int | None = None
        error: str | None = None
        answer = b""
        try:
            # Judged again, in case the rules have changed since it was registered.
            target = self._parse_url(url)
            async with self._session.post(target, data=body, headers=headers, allow_redirects=False) as response:
                status = response.status
                if not 200 <= status < 300:
                    error = "redirect_refused" if 300 <= status < 400 else "status_refused"
                left = self._timeout_s - (time.monotonic() - started)
                answer = await _read_some(response, min(ANSWER_WITHIN_S, left))
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as failure:
            # What fails after the status has been read changes nothing about it.
            error = error if status is not None else _name(failure)
        text = answer[:KEPT_ANSWER_BYTES].decode("utf-8", "replace").replace("\x00", "\ufffd")
        return classify(status)(status, error, round((time.monotonic() - started) * 1000), text)

    def _make_socket(self, address: Any) -> socket.socket:
        """The last look: this is the address that is dialled, whatever a name resolved to a moment ago."""
        family, kind, protocol, _, where = address
        self._policy.check_addresses([where[0]])
        made = socket.socket(family, kind, protocol)
        made.setblocking(False)
        return made


async def _read_some(response: aiohttp.ClientResponse, within_s: float) -> bytes:
    """At most 16 KiB and a moment; a connection with more to come is closed instead of drained."""
    content = response.content
    if content.is_eof() and content.total_bytes <= MAX_ANSWER_BYTES:
        # All of it came with the status, as short answers do.
        return content.read_nowait()
    read = b""
    try:
        async with asyncio.timeout(max(within_s, 0.01)):
            while len(read) < MAX_ANSWER_BYTES:
                part = await response.content.read(MAX_ANSWER_BYTES - len(read))
                if not part:
                    return read
                read += part
    except (TimeoutError, aiohttp.ClientError, OSError):
        pass
    response.close()
    return read


def _is_literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _name(failure: BaseException) -> str:
    """A word for people and metrics; the causes that matter to a receiver's owner each have their own."""
    cause: BaseException | None = failure
    while cause is not None:
        if isinstance(cause, AddressRefused):
            return "address_refused"
        cause = cause.__cause__ or cause.__context__
    kinds: tuple[tuple[type[BaseException], str], ...] = (
        (TimeoutError, "timeout"),
        (aiohttp.ClientConnectorCertificateError, "certificate_invalid"),
        (aiohttp.ClientConnectorDNSError, "name_not_found"),
        (aiohttp.ClientSSLError, "tls_failed"),
        (aiohttp.ClientConnectorError, "connection_refused"),
        (ConnectionError, "connection_lost"),
        (aiohttp.ServerDisconnectedError, "connection_lost"),
        (aiohttp.ClientPayloadError, "connection_lost"),
        (ValueError, "address_refused"),
    )
    return next((name for kind, name in kinds if isinstance(failure, kind)), "answer_unreadable")
