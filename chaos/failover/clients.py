"""Clients that order and read all the time, and that record every response: what they see of a failover."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Any

import aiohttp

from chaos.cluster import Cluster
from chaos.model import Hook, NotAsExpected, Organisation
from tests.support.processes import HOST
from tonne.platform.values.context import new_id, utc_now

ORGANISATIONS = 2
ORDERING = 4
# The api answers before: after the time limits of a statement and of a connection.
ANSWERED_WITHIN_S = 30.0
# A client with nothing else to do tries again this soon, although Retry-After asks for a second.
PAUSE_S = 0.1
# Between two orders of a client. Without a pause the clients take all cores, and Patroni gets too little of them.
THINK_S = 0.05
BACK_WITHIN_S = 90.0


class Client:
    """Sends one request after the other, and repeats a failed one with the same key until it succeeds."""

    def __init__(self) -> None:
        self.succeeded_s = time.monotonic()
        # The longest time from one success to the next, and when it ended.
        self.longest_s = 0.0
        self.back_at = utc_now()

    def succeed(self) -> None:
        now_s = time.monotonic()
        if now_s - self.succeeded_s > self.longest_s:
            self.longest_s, self.back_at = now_s - self.succeeded_s, utc_now()
        self.succeeded_s = now_s


class Clients:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._hooks: list[Hook] = []
        self._clients: list[Client] = []
        self._stop = asyncio.Event()
        self.statuses: Counter[str] = Counter()
        self.slowest_s = 0.0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Clients"]:
        """Two workers deliver to two organisations, for whose accounts eight clients order and two read."""
        cluster = self._cluster
        # While there is no primary, jobs fail.
        cluster.log_errors_expected = True
        self._hooks = [await cluster.open_hook(f"receiver-{number}") for number in range(ORGANISATIONS)]
        for _ in range(2):
            cluster.start_worker()
        # Before the clients take all cores, of which the start of a worker needs one for seconds.
        for hook in self._hooks:
            await cluster.place(hook.organisation, 1)
        await cluster.until(lambda: all(hook.receiver.exchanges for hook in self._hooks), "all deliver", 30)
        timeout = aiohttp.ClientTimeout(total=ANSWERED_WITHIN_S)
        async with (
            aiohttp.ClientSession(f"http://{HOST}:{cluster.port}", timeout=timeout) as http,
            asyncio.TaskGroup() as tasks,
        ):
            for hook in self._hooks:
                for _ in range(ORDERING):
                    tasks.create_task(self._order(http, hook.organisation, self._client()))
                tasks.create_task(self._read(http, hook.organisation, self._client()))
            try:
                await cluster.until(lambda: all(each.longest_s for each in self._clients), "all clients succeed", 30)
                yield self
                await asyncio.sleep(1.0)
            finally:
                self._stop.set()
        self._report()

    @contextlib.asynccontextmanager
    async def measured(self, name: str, limit_s: float) -> AsyncIterator[None]:
        """The fault happens inside. Afterwards, every client must have had a success within `limit_s` of its last."""
        await asyncio.sleep(1.0)
        for client in self._clients:
            client.longest_s = 0.0
        before = self.statuses["503"]
        yield
        ended_s = time.monotonic()
        await self._cluster.until(
            lambda: all(client.succeeded_s > ended_s for client in self._clients),
            f"all clients succeed again after {name}",
            BACK_WITHIN_S,
        )
        longest_s = max(client.longest_s for client in self._clients)
        self._cluster.notes.append(
            f"{name}: {longest_s:.1f} s (limit {limit_s:g} s) without success, {self.statuses['503'] - before} x 503"
        )
        self._cluster.require(
            longest_s <= limit_s, f"{name}: a client had no success for {longest_s:.1f} s, which is over {limit_s:g} s"
        )

    def back_at(self) -> tuple[datetime, datetime]:
        """When the first and the last client had a success again after the fault that was measured."""
        times = [client.back_at for client in self._clients]
        return min(times), max(times)

    async def until_notified(self, within_s: float = 5.0) -> None:
        """New events are delivered at once, so the workers listen again: their polls are further apart."""
        started = time.monotonic()
        counts = [len(hook.receiver.exchanges) for hook in self._hooks]
        await self._cluster.until(
            lambda: all(len(h.receiver.exchanges) > count + 3 for h, count in zip(self._hooks, counts, strict=True)),
            "the workers are notified of new events",
            within_s,
        )
        self._cluster.notes.append(f"deliveries again after {time.monotonic() - started:.1f} s")

    def _client(self) -> Client:
        self._clients.append(Client())
        return self._clients[-1]

    async def _order(self, http: aiohttp.ClientSession, organisation: Organisation, client: Client) -> None:
        while not self._stop.is_set():
            scope = self._cluster.rng.choice(organisation.scopes)
            body = {"mass": {"amount": "60", "unit": "kg"}, "idempotency_key": new_id("key")}
            order = await self._until_success(
                http, client, "POST", "/v1/orders/by-mass", organisation.key, account_id=scope.account_id, body=body
            )
            self._cluster.placed[scope.account_id, str(body["idempotency_key"])] = order["id"]
            await asyncio.sleep(THINK_S)

    async def _read(self, http: aiohttp.ClientSession, organisation: Organisation, client: Client) -> None:
        while not self._stop.is_set():
            for path in ("/v1/orders?limit=5", "/v1/events?limit=5", "/v1/webhooks"):
                await self._until_success(http, client, "GET", path, organisation.key)
            await asyncio.sleep(0.05)

    async def _until_success(
        self,
        http: aiohttp.ClientSession,
        client: Client,
        method: str,
        path: str,
        key: str,
        *,
        account_id: str | None = None,
        body: Mapping[str, object] | None = None,
    ) -> Any:
        headers = {"Authorization": f"Bearer {key}"} | ({"Service-Account": account_id} if account_id else {})
        deadline = time.monotonic() + BACK_WITHIN_S
        while time.monotonic() < deadline:
            started = time.monotonic()
            try:
                async with http.request(method, path, json=body, headers=headers) as response:
                    text = await response.text()
                    self._record(response.status, f"{method} {path}", "Retry-After" in response.headers, text)
                    if response.status < 300:
                        client.succeed()
                        return await response.json()
            except (aiohttp.ClientError, TimeoutError) as error:
                self.statuses[type(error).__name__] += 1
                self._cluster.problems.append(f"{method} {path} got no answer: {error!r}")
            finally:
                self.slowest_s = max(self.slowest_s, time.monotonic() - started)
            await asyncio.sleep(PAUSE_S)
        raise NotAsExpected(f"{method} {path} did not succeed within {BACK_WITHIN_S:g} s")

    def _record(self, status: int, request: str, has_retry_after: bool, text: str) -> None:
        self.statuses[str(status)] += 1
        if status >= 300 and status != 503:
            self._cluster.problems.append(f"{request} returned {status}: {text[:300]}")
        if status == 503 and not has_retry_after:
            self._cluster.problems.append(f"{request} returned 503 without Retry-After")

    def _report(self) -> None:
        counts = ", ".join(f"{count} x {status}" for status, count in sorted(self.statuses.items()))
        self._cluster.notes.append(
            f"{counts}, {len(self._cluster.placed)} orders, slowest response {self.slowest_s:.1f} s"
        )
