"""The clients: every resource of the API as an attribute."""

from types import TracebackType
from typing import Self

import httpx

from tonne_client.async_resources import AsyncResources
from tonne_client.callers import TIMEOUT, AsyncCaller, Caller, Options
from tonne_client.resources import Resources


class Client(Resources, Caller):
    """A client of one service with one API key. Close it, or use it in a `with` statement.

    `api_key` and `base_url` default to the environment variables TONNE_API_KEY and TONNE_API_URL. `account` is the
    account to act for, if it is not the one of the key. `max_retries` counts the attempts after the first one. `brand`
    begins the names of the service's own headers. `http` is an `httpx.Client` with settings of your own, such as a
    proxy; you close it yourself.
    """

    def __init__(
        self,
        api_key: str | None = None,
        *,
        base_url: str | None = None,
        account: str | None = None,
        timeout: float | httpx.Timeout = TIMEOUT,
        max_retries: int = 5,
        brand: str = "Service",
        http: httpx.Client | None = None,
    ) -> None:
        options = Options.from_arguments(
            api_key, base_url, account=account, timeout=timeout, max_retries=max_retries, brand=brand
        )
        self._is_owner = http is None
        Caller.__init__(self, options, http or httpx.Client())
        Resources.__init__(self, self)

    def with_options(
        self,
        *,
        account: str | None = None,
        timeout: float | httpx.Timeout | None = None,
        max_retries: int | None = None,
    ) -> "Client":
        """A client with other options, on the same connections: `client.with_options(account="acc_…")`."""
        copy = object.__new__(Client)
        copy._is_owner = False
        Caller.__init__(
            copy, self._options.changed(account=account, timeout=timeout, max_retries=max_retries), self._http
        )
        Resources.__init__(copy, copy)
        return copy

    def close(self) -> None:
        """Close the connections."""
        if self._is_owner:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient(AsyncResources, AsyncCaller):
    """The same for asyncio: methods are awaited, lists are read with `async for`. See `Client` for the arguments."""

    def __init__(
        self,
        api_key: str | None = None,
        *,
        base_url: str | None = None,
        account: str | None = None,
        timeout: float | httpx.Timeout = TIMEOUT,
        max_retries: int = 5,
        brand: str = "Service",
        http: httpx.AsyncClient | None = None,
    ) -> None:
        options = Options.from_arguments(
            api_key, base_url, account=account, timeout=timeout, max_retries=max_retries, brand=brand
        )
        self._is_owner = http is None
        AsyncCaller.__init__(self, options, http or httpx.AsyncClient())
        AsyncResources.__init__(self, self)

    def with_options(
        self,
        *,
        account: str | None = None,
        timeout: float | httpx.Timeout | None = None,
        max_retries: int | None = None,
    ) -> "AsyncClient":
        """A client with other options, on the same connections: `client.with_options(account="acc_…")`."""
        copy = object.__new__(AsyncClient)
        copy._is_owner = False
        AsyncCaller.__init__(
            copy, self._options.changed(account=account, timeout=timeout, max_retries=max_retries), self._http
        )
        AsyncResources.__init__(copy, copy)
        return copy

    async def close(self) -> None:
        """Close the connections."""
        if self._is_owner:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
