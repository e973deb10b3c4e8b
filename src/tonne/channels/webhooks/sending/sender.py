"""HTTP requests to receivers: limited in time and size, and only to allowed addresses."""

import asyncio
import functools
import ipaddress
import socket
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, Self

import aiohttp
import structlog
import yarl
from aiohttp.abc import AbstractResolver, ResolveResult

from tonne import __version__
from tonne.channels.webhooks.delivery.outcomes import SendOutcome, classify
from tonne.channels.webhooks.delivery.schedule import parse_retry_after
from tonne.channels.webhooks.sending.addresses import AddressPolicy, AddressRefused
from tonne.channels.webhooks.sending.egress_proxy import EgressProxy, NameNotResolved, ProxyConnector
from tonne.platform.process.telemetry import tracing
from tonne.platform.settings.settings import Settings, parse_networks

# The client certificate that Tonne presents to receivers which ask for one (mutual TLS).

# How often the files are checked for changes: certificates are renewed while workers run.
CHECK_EVERY_S = 60.0

_log = structlog.get_logger()


class ClientIdentity:
    """Presents no certificate if the settings name no files."""

    def __init__(self, certificate_file: str, key_file: str) -> None:
        self._files = [Path(path) for path in (certificate_file, key_file) if path]
        self._context: ssl.SSLContext | None = None
        self._loaded: list[float] = []
        self._next_check_at = 0.0

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        return cls(settings.webhook_client_certificate_file, settings.webhook_client_key_file)

    def tls_context(self, ca_file: str) -> ssl.SSLContext | Literal[True]:
        """True is the context of aiohttp: it has read the certificates of the system, which takes 40 ms, at its import.

        Raises OSError, which SSLError is, if the files cannot be read or do not belong together.
        """
        if not self._files and not ca_file:
            return True
        self._context = ssl.create_default_context(cafile=ca_file or None)
        if self._files:
            self._load(self._context)
        return self._context

    def reload_if_changed(self) -> None:
        """New connections present the new certificate. A half-written file leaves the former one in use."""
        if not self._files or self._context is None or time.monotonic() < self._next_check_at:
            return
        try:
            if self._times() != self._loaded:
                self._load(self._context)
                _log.info("client_certificate_loaded")
        except OSError as error:
            _log.error("client_certificate_unreadable", error=repr(error))
        self._next_check_at = time.monotonic() + CHECK_EVERY_S

    def _load(self, context: ssl.SSLContext) -> None:
        times = self._times()
        # Without a password: OpenSSL would ask for one at the terminal.
        context.load_cert_chain(self._files[0], self._files[-1], password="")
        self._loaded, self._next_check_at = times, time.monotonic() + CHECK_EVERY_S

    def _times(self) -> list[float]:
        return [path.stat().st_mtime for path in self._files]


MAX_READ_BYTES = 16 * 1024
MAX_KEPT_BYTES = 2 * 1024
# The status decides about the outcome, so the body of the response is read for no longer than this.
READ_BODY_WITHIN_S = 1.0
_CACHED_URLS = 10_000


def policy_from_settings(settings: Settings) -> AddressPolicy:
    ports = frozenset(int(part) for part in settings.webhook_ports.split(",") if part.strip() not in {"", "*"})
    return AddressPolicy(parse_networks(settings.webhook_allow_private), ports)


class GuardedResolver(AbstractResolver):
    """Resolves names and refuses those with an address that is not allowed."""

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
    """Keeps connections alive between requests. Create and close it in the running loop."""

    def __init__(self, settings: Settings, resolver: AbstractResolver | None = None) -> None:
        self._policy = policy_from_settings(settings)
        self._timeout_s = settings.webhook_timeout_s
        self._parse_url = functools.lru_cache(_CACHED_URLS)(self._policy.parse_url)
        self.resolver = GuardedResolver(resolver or aiohttp.AsyncResolver(), self._policy)
        self._identity = ClientIdentity.from_settings(settings)
        self._proxy = EgressProxy.from_settings(settings)
        context = self._identity.tls_context(settings.webhook_ca_file)
        if self._proxy is None:
            connector = aiohttp.TCPConnector(
                ssl=context,
                resolver=self.resolver,
                socket_factory=self._make_socket,
                limit=0,
                use_dns_cache=False,
                enable_cleanup_closed=False,
            )
        else:
            # It connects to the proxy only, whose address the operator chooses. Receivers are checked before.
            connector = ProxyConnector(ssl=context, limit=0, enable_cleanup_closed=False)
        self._session = aiohttp.ClientSession(
            connector=connector,
            auto_decompress=False,  # a decompression bomb stays small
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=self._timeout_s),
            headers={"User-Agent": f"Tonne/{__version__}"},
        )

    async def close(self) -> None:
        await self._session.close()
        # The connector does not close a resolver that it was given.
        await self.resolver.close()

    async def check_receiver(self, url: str) -> None:
        """Check a URL at registration; raises UrlInvalid or OSError."""
        await asyncio.wait_for(self._resolve(self._policy.parse_url(url)), 10)

    async def _resolve(self, url: yarl.URL) -> list[str]:
        """The addresses of a receiver, all of them checked."""
        host = url.host or ""
        if _is_literal(host):
            self._policy.check_addresses([host])
            return [host]
        try:
            return [entry["host"] for entry in await self.resolver.resolve(host, url.port or 443)]
        except AddressRefused:
            raise
        except OSError as error:
            raise NameNotResolved(str(error)) from error

    async def post(self, url: str, body: bytes, headers: dict[str, str]) -> SendOutcome:
        """Returns an outcome for every failure of the receiver; raises for none."""
        started = time.monotonic()
        status: int | None = None
        error: str | None = None
        answer = b""
        retry_after_s = 0.0
        try:
            # Checked again: the settings may have changed since the registration.
            target = self._parse_url(url)
            if tracing.is_on():
                headers = headers | tracing.outgoing_headers()
            async with self._request(target, body, headers) as response:
                status = response.status
                if not 200 <= status < 300:
                    error = "redirect_refused" if 300 <= status < 400 else "status_refused"
                    retry_after_s = parse_retry_after(response.headers.get("Retry-After", ""), time.time())
                left = self._timeout_s - (time.monotonic() - started)
                answer = await _read_start(response, min(READ_BODY_WITHIN_S, left))
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as failure:
            # The status counts even if reading the body fails.
            error = error if status is not None else _error_name(failure)
        text = answer[:MAX_KEPT_BYTES].decode("utf-8", "replace").replace("\x00", "\ufffd")
        duration_ms = round((time.monotonic() - started) * 1000)
        return classify(status, error, duration_ms, text, retry_after_s=retry_after_s)

    @asynccontextmanager
    async def _request(
        self, url: yarl.URL, body: bytes, headers: dict[str, str]
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        self._identity.reload_if_changed()
        if self._proxy is None:
            async with self._session.post(url, data=body, headers=headers, allow_redirects=False) as response:
                yield response
            return
        async with asyncio.timeout(self._timeout_s):
            addresses = await self._resolve(url)
            async with self._proxy.post(self._session, url, addresses, data=body, headers=headers) as response:
                yield response

    def _make_socket(self, address: Any) -> socket.socket:
        """Checks the address that is actually connected to: DNS may have changed since the name was checked."""
        family, kind, protocol, _, target = address
        self._policy.check_addresses([target[0]])
        connecting = socket.socket(family, kind, protocol)
        connecting.setblocking(False)
        return connecting


async def _read_start(response: aiohttp.ClientResponse, within_s: float) -> bytes:
    """The first 16 KiB, as far as they arrive in time. A connection with more to read is closed, not drained."""
    content = response.content
    if content.is_eof() and content.total_bytes <= MAX_READ_BYTES:
        # Short bodies arrive together with the status.
        return content.read_nowait()
    read = b""
    try:
        async with asyncio.timeout(max(within_s, 0.01)):
            while len(read) < MAX_READ_BYTES:
                part = await response.content.read(MAX_READ_BYTES - len(read))
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


def _error_name(failure: BaseException) -> str:
    """The `error` of an attempt: a fixed name for each cause that the owner of the receiver can act on."""
    cause: BaseException | None = failure
    while cause is not None:
        if isinstance(cause, AddressRefused):
            return "address_refused"
        if isinstance(cause, ssl.SSLError) and "CERTIFICATE_REQUIRED" in str(getattr(cause, "reason", "")):
            return "client_certificate_required"
        cause = cause.__cause__ or cause.__context__
    kinds: tuple[tuple[type[BaseException], str], ...] = (
        (aiohttp.ClientHttpProxyError, "proxy_refused"),
        (aiohttp.ClientProxyConnectionError, "proxy_unreachable"),
        (TimeoutError, "timeout"),
        (aiohttp.ClientConnectorCertificateError, "certificate_invalid"),
        (aiohttp.ClientConnectorDNSError, "name_not_found"),
        (NameNotResolved, "name_not_found"),
        (aiohttp.ClientSSLError, "tls_failed"),
        (aiohttp.ClientConnectorError, "connection_refused"),
        (ConnectionError, "connection_lost"),
        (aiohttp.ClientOSError, "connection_lost"),
        (aiohttp.ServerDisconnectedError, "connection_lost"),
        (aiohttp.ClientPayloadError, "connection_lost"),
        (ValueError, "address_refused"),
    )
    return next((name for kind, name in kinds if isinstance(failure, kind)), "answer_unreadable")


async def post_once(settings: Settings, url: str, body: bytes, headers: dict[str, str]) -> tuple[int | None, str]:
    """One request to a service on the internet, by the rules for receivers: its status and the start of the body."""
    sender = Sender(settings)
    try:
        outcome = await sender.post(url, body, headers)
    finally:
        await sender.close()
    return outcome.status, outcome.answer
