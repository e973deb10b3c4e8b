"""Requests to receivers through a proxy, for networks from which nothing else leaves.

Tonne resolves the name of a receiver and checks its addresses itself, and the proxy gets an address: otherwise it would
resolve the name again, perhaps to an internal address. TLS ends at the receiver, whose certificate must have its name.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Self

import aiohttp
import yarl
from msgspec import Struct

from tonne.platform.settings.settings import Settings

# A host may have addresses of both families, and the proxy may have a route to one of them only.
MAX_ADDRESSES = 3
CHECK_WITHIN_S = 10.0


class NameNotResolved(OSError):
    pass


class ProxyUnusable(Exception):
    """The proxy cannot be reached. The message says why, for the operator."""


class ProxyConnector(aiohttp.TCPConnector):
    """The CONNECT request names only the address. aiohttp would copy the `Host` of the request to the receiver."""

    def _update_proxy_auth_header_and_build_proxy_req(self, req: aiohttp.ClientRequest) -> aiohttp.ClientRequest:
        connecting = super()._update_proxy_auth_header_and_build_proxy_req(req)
        connecting.headers["Host"] = req.url.raw_authority
        return connecting


class EgressProxy(Struct, frozen=True):
    url: yarl.URL
    # The value of Proxy-Authorization; None if the proxy needs no password.
    authorization: str | None

    @classmethod
    def from_settings(cls, settings: Settings) -> Self | None:
        if not settings.egress_proxy:
            return None
        url = yarl.URL(settings.egress_proxy)
        authorization = aiohttp.encode_basic_auth(url.user, url.password or "") if url.user else None
        return cls(url.with_user(None), authorization)

    @asynccontextmanager
    async def post(
        self,
        session: aiohttp.ClientSession,
        url: yarl.URL,
        addresses: Sequence[str],
        *,
        data: bytes,
        headers: dict[str, str],
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Through a tunnel to one of these addresses. The next one is tried only if the proxy refuses the tunnel."""
        host = url.raw_host or ""
        tried = addresses[:MAX_ADDRESSES]
        for address in tried:
            try:
                response = await session.post(
                    url.with_host(address),
                    data=data,
                    headers={**headers, "Host": url.raw_authority},
                    allow_redirects=False,
                    proxy=self.url,
                    # A new one each time: aiohttp changes it, and compares it before it uses a connection again.
                    proxy_headers={"Proxy-Authorization": self.authorization} if self.authorization else None,
                    server_hostname=host,
                )
            except aiohttp.ClientHttpProxyError:
                if address == tried[-1]:
                    raise
                continue
            async with response:
                yield response
            return
        raise NameNotResolved("it has no address")

    async def check(self) -> None:
        """Raises ProxyUnusable if nothing accepts connections there."""
        try:
            async with asyncio.timeout(CHECK_WITHIN_S):
                _, writer = await asyncio.open_connection(self.url.host, self.url.port)
        except (OSError, TimeoutError) as error:
            raise ProxyUnusable(str(error) or "it does not respond in time") from error
        writer.close()
