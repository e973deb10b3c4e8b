"""HTTP to a registry, and what each failure means: nothing was retired, or nobody knows."""

import asyncio
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, NamedTuple, TypeVar

import aiohttp
import msgspec
import yarl

from tonne import __version__
from tonne.platform.settings.settings import Settings
from tonne.supply.registries.gateway import UNAUTHORISED, Answer, NotRead, Outcome
from tonne.supply.transparency.witnesses import is_local

CONNECT_TIMEOUT_S = 10.0
MAX_BYTES = 4_000_000
MAX_WORDS = 300
# These say that the request was wrong, so nothing was retired.
_REFUSED = frozenset({400, 422})
_UNAUTHORISED = frozenset({401, 403})
# The same request may have been accepted, or may still be.
_DOUBTFUL = frozenset({408, 409, 425})
T = TypeVar("T")
# One without an offset could not be compared with ours.
Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class NotServed(NotRead):
    """The request was certainly not served: the registry was not reached, or refused to look at it."""

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code

    @property
    def answer(self) -> Answer:
        return Answer(outcome=Outcome.UNAVAILABLE, code=self.code, message=str(self))


class NotFoundThere(NotServed):
    """The registry has no such object, or does not show it to this account."""


class Reply(NamedTuple):
    """`document` is the JSON of the body, None if it is something else."""

    status: int
    document: Any

    @property
    def is_refusal(self) -> bool:
        """The registry understood the request and did not do it. Others than these come from what is in between."""
        return self.status in _REFUSED and isinstance(self.document, dict)

    @property
    def words(self) -> str:
        """Why, in the registry's words."""
        document = self.document if isinstance(self.document, dict) else {}
        found = document.get("detail") or document.get("message")
        parts = found if isinstance(found, list) else [found]
        texts = [each.get("msg") or each.get("message") or each if isinstance(each, dict) else each for each in parts]
        words = "; ".join(str(each) for each in texts if each)
        return f"{words or 'The registry gave no reason.'} (status {self.status})"[:MAX_WORDS]


class RegistryHttp:
    """One request at a time: registries do not say how many they serve."""

    def __init__(self, base_url: str, headers: Mapping[str, str], settings: Settings) -> None:
        self._base_url = base_url.rstrip("/")
        # Compressed answers would not be read: `auto_decompress` is off, so that no answer is larger than it seems.
        own = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": f"Tonne/{__version__}"}
        self._headers = own | dict(headers)
        total_s = settings.registry_timeout_s
        self._timeout = aiohttp.ClientTimeout(total=total_s, connect=min(CONNECT_TIMEOUT_S, total_s))
        is_direct = is_local(yarl.URL(self._base_url))
        self._proxy = None if is_direct or not settings.egress_proxy else yarl.URL(settings.egress_proxy)
        self._turn = asyncio.Lock()

    async def read(self, path: str, type_: type[T], **query: str) -> T:
        """Raises NotRead."""
        reply = await self.send("GET", path, query=query)
        if reply.status == 404:
            raise NotFoundThere(f"The registry has no {path}.")
        if reply.status != 200:
            raise NotRead(f"{path}: {reply.words}")
        return convert(reply.document, type_)

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Raises NotServed if that is certain, and NotRead if the registry may have got the request."""
        try:
            async with self._turn:
                reply = await self._exchange(method, path, query or {}, body, headers or {})
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise NotServed(f"The registry was not reached: {type(error).__name__}.") from error
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise NotRead(f"There was no answer: {type(error).__name__}.") from error
        status = reply.status
        if status in _UNAUTHORISED:
            raise NotServed(f"The registry does not accept the credentials of the account: {reply.words}", UNAUTHORISED)
        if status == 429:
            raise NotServed("The registry serves no more requests at the moment.", "too_many_requests")
        if status < 200 or 300 <= status < 400 or status in _DOUBTFUL or status >= 500:
            raise NotRead(f"The registry answered with status {status}.")
        is_answer = reply.is_refusal or (status == 404 and method == "GET")
        if status >= 400 and not is_answer:
            raise NotServed(f"The registry does not serve this address: {reply.words}")
        return reply

    async def _exchange(
        self, method: str, path: str, query: Mapping[str, str], body: object, headers: Mapping[str, str]
    ) -> Reply:
        # A connection of its own: the server may have closed an old one, and then nobody knows what it has read.
        async with (
            aiohttp.ClientSession(
                timeout=self._timeout, trust_env=False, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
            ) as session,
            session.request(
                method,
                self._base_url + path,
                params=query,
                json=body,
                headers={**self._headers, **headers},
                allow_redirects=False,
                proxy=self._proxy,
            ) as response,
        ):
            content = b""
            while part := await response.content.read(MAX_BYTES + 1 - len(content)):
                content += part
        try:
            return Reply(response.status, json.loads(content) if len(content) <= MAX_BYTES else None)
        except ValueError:
            return Reply(response.status, None)


def convert(document: object, type_: type[T]) -> T:
    """Raises NotRead, so that a field that is gone is not read as something else."""
    try:
        return msgspec.convert(document, type_)
    except msgspec.ValidationError as error:
        raise NotRead(f"The answer is not what the registry's interface says: {error}.") from error
