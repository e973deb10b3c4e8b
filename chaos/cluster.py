"""The system under test of one scenario: a database, an api, workers, organisations, receivers, and its problems."""

import asyncio
import base64
import contextlib
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg

from chaos.failover.patroni_cluster import PatroniCluster
from chaos.model import Fault, Hook, NotAsExpected, Organisation, Payment, Refused, Secret
from chaos.receivers import Behaviour, Receiver, accept
from tests.support.postgres import Databases, PostgresServer
from tests.support.processes import HOST, Process, free_port
from tests.support.tls import Authority
from tests.support.world import TESTER, add_account
from tonne.channels.webhooks.model import STATUS_TYPES
from tonne.money.cards.gateways.card import CardDetails
from tonne.money.cards.stored_cards.stored_cards import store_card
from tonne.platform.db.database import Connection
from tonne.platform.events.log import NewEvent, append
from tonne.platform.values.context import Mode, Scope, new_id, utc_now
from tonne.selling.accounts.keys.api_keys import issue_key
from tonne.selling.accounts.model import AccountKind, PaymentMethod
from tonne.selling.accounts.organisations.change_organisation import DEFAULT_FEE_RATE, open_organisation

# Pauses last a fiftieth, and a receiver has two seconds to respond instead of thirty.
SHORT_TIMES: Mapping[str, object] = {
    "webhook_time_scale": "0.02",
    "webhook_timeout_s": "2",
    "webhook_lease_s": "3",
    "worker_poll_s": "0.2",
}
READY_WITHIN_S = 120.0
APPEND_AT_ONCE = 2_000


class Cluster:
    def __init__(
        self, databases: Databases, database: str, folder: Path, rng: random.Random, settings: Mapping[str, object]
    ) -> None:
        self._databases = databases
        self.database = database
        self.url = databases.url(database)
        self.folder = folder
        self.rng = rng
        self.faults: list[Fault] = []
        self.problems: list[str] = []
        self.notes: list[str] = []
        self.hooks: list[Hook] = []
        self.receivers: list[Receiver] = []
        self.workers: list[Process] = []
        # Processes that must run until the records are checked.
        self.supports: list[Process] = []
        # Called after the check.
        self.cleanups: list[Callable[[], None]] = []
        # Orders that the api has confirmed: their ids by account and idempotency key.
        self.placed: dict[tuple[str, str], str] = {}
        # The final status that an order must reach, by its id.
        self.final_statuses: dict[str, str] = {}
        # Whether all documents of the payments must exist.
        self.is_settled = False
        self.failed_requests = 0
        # Errors in the logs, or overlapping requests, are problems unless the scenario causes them.
        self.log_errors_expected = False
        self.overlaps_expected = False
        # With asynchronous replication a failover loses confirmed orders and delivered events; they are counted.
        self.losses_expected = False
        self.authority = Authority(folder)
        self._port = free_port()
        self.settings: dict[str, object] = {
            "database_url": self.url,
            "data_dir": folder,
            "port": self._port,
            "secret_key": base64.b64encode(rng.randbytes(32)).decode(),
            "rate_limit_per_second": 1_000_000,
            "rate_limit_burst": 1_000_000,
            "webhook_allow_private": f"{HOST}/32",
            "webhook_ports": "*",
            "webhook_ca_file": self.authority.ca_file,
            "database_connections": 12,
            **settings,
        }
        self.api: Process | None = None
        self._http: aiohttp.ClientSession | None = None

    async def open(self, *, api: bool = True) -> None:
        self._http = aiohttp.ClientSession(f"http://{HOST}:{self._port}", timeout=aiohttp.ClientTimeout(total=15))
        if api:
            await self.start_api()

    async def close(self) -> None:
        """Stop everything. The records are complete afterwards."""
        stopped = await asyncio.gather(*(asyncio.to_thread(worker.stop, 15.0) for worker in self.workers))
        self.require(all(stopped), "a worker did not stop in time after SIGTERM")
        for receiver in self.receivers:
            await receiver.close()
        if self.api is not None:
            await asyncio.to_thread(self.api.stop)

    async def kill(self) -> None:
        """Kill the processes that still run."""
        for process in [*self.workers, *([self.api] if self.api else []), *self.supports]:
            process.kill()
        for clean_up in self.cleanups:
            clean_up()
        if self._http is not None:
            await self._http.close()

    def seconds(self, setting: str) -> float:
        return float(str(self.settings[setting]))

    def announce(self, name: str, at_least: int = 1) -> Fault:
        """A fault that the scenario must cause at least this often. Call the returned object each time it happens."""
        self.faults.append(Fault(name, at_least))
        return self.faults[-1]

    def missing_faults(self) -> list[str]:
        return [
            f"fault '{fault.name}' fired {fault.count} times instead of {fault.at_least} or more"
            for fault in self.faults
            if fault.count < fault.at_least
        ]

    def require(self, condition: bool, problem: str) -> None:
        if not condition:
            self.problems.append(problem)

    # Processes and time -------------------------------------------------------------------------------------------

    async def start_api(self) -> None:
        self.api = self._start("api", "api.log")
        await asyncio.to_thread(self.api.wait_until_ready, self._port, READY_WITHIN_S)

    def start_worker(self) -> Process:
        self.workers.append(self._start("worker", f"worker-{len(self.workers)}.log"))
        return self.workers[-1]

    def _start(self, command: str, log: str) -> Process:
        return Process("tonne", command, "--stop-with-parent", settings=self.settings, log=self.folder / log)

    @property
    def port(self) -> int:
        return self._port

    def sender_of(self, peer_port: int) -> Process:
        """The worker with a connection from this port."""
        for worker in self.workers:
            if worker.owns_port(peer_port):
                return worker
        raise NotAsExpected(f"no worker has a connection from port {peer_port}")

    async def until(
        self, holds: Callable[[], bool | Awaitable[Any]], what: str, within_s: float = 20.0, every_s: float = 0.05
    ) -> Any:
        """Wait until the result is true, and return it."""
        deadline = time.monotonic() + within_s
        while True:
            result = holds()
            value = result if isinstance(result, bool) else await result
            if value:
                return value
            if time.monotonic() > deadline:
                raise NotAsExpected(f"not within {within_s:g} s: {what}")
            await asyncio.sleep(every_s)

    async def until_true(self, what: str, sql: str, *arguments: Any, within_s: float = 20.0) -> Any:
        """Wait until the first value of this query is true, and return it."""
        return await self.until(lambda: self.fetchval(sql, *arguments), what, within_s, every_s=0.02)

    async def until_empty(self, what: str, sql: str, within_s: float) -> None:
        """Wait until this query finds nothing. The error names some of the rows that it still finds."""
        deadline = time.monotonic() + within_s
        while rows := await self.fetch(sql):
            if time.monotonic() > deadline:
                shown = "; ".join(row[0] for row in rows[:5])
                raise NotAsExpected(f"not within {within_s:g} s: {what}; {len(rows)} are left, such as {shown}")
            await asyncio.sleep(0.1)

    async def until_waiting_in(self, statement: str, *, waiting: bool = True) -> None:
        """A process waits in this statement for a lock that we hold; or none waits there any more."""
        what = f"{'a' if waiting else 'no'} process waits in {statement}"
        await self.until_true(what, WAITING_IN, f"%{statement}%", waiting)

    @property
    def postgres(self) -> PostgresServer:
        assert isinstance(self._databases, PostgresServer)
        return self._databases

    @property
    def patroni(self) -> PatroniCluster:
        """Only in scenarios of the family `failover`."""
        assert isinstance(self._databases, PatroniCluster)
        return self._databases

    async def restart_postgres(self, max_pause_s: float) -> None:
        """Stop the database hard, and start it again after a random pause."""
        await self.postgres.stop_hard()
        await asyncio.sleep(self.rng.uniform(0.0, max_pause_s))
        await self.postgres.start()

    # The database -------------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        connection: Connection = await asyncpg.connect(self.url, server_settings={"application_name": "chaos"})
        try:
            yield connection
        finally:
            await connection.close()

    async def execute(self, sql: str) -> None:
        async with self.connection() as connection:
            await connection.execute(sql)

    async def fetch(self, sql: str, *arguments: Any) -> list[asyncpg.Record]:
        async with self.connection() as connection:
            return await connection.fetch(sql, *arguments)

    async def fetchval(self, sql: str, *arguments: Any) -> Any:
        """The first value of the first row, or None if there is no row."""
        async with self.connection() as connection:
            return await connection.fetchval(sql, *arguments)

    @contextlib.asynccontextmanager
    async def holding(self, lock: str, *arguments: Any) -> AsyncIterator[None]:
        """Hold a lock in a session of our own, so that the service waits exactly there."""
        async with self.connection() as connection:
            transaction = connection.transaction()
            await transaction.start()
            await connection.execute(lock, *arguments)
            try:
                yield
            finally:
                await transaction.rollback()

    # Tenants ------------------------------------------------------------------------------------------------------

    async def open_organisation(self, accounts: int | Sequence[Payment] = 3) -> Organisation:
        """Orders of its accounts stay `placed`, unless `auto_advance` is set."""
        payments = [Payment()] * accounts if isinstance(accounts, int) else accounts
        now = utc_now()
        scopes: list[Scope] = []
        async with self.connection() as tx, tx.transaction():
            opened = await open_organisation(tx, new_id("name"), DEFAULT_FEE_RATE, by=TESTER.at(now))
            for payment in payments:
                kind = AccountKind.CLIENT_ACCOUNT if scopes else AccountKind.ACCOUNT
                method = PaymentMethod.CARD if payment.card else PaymentMethod.INVOICE
                advances = payment.auto_advance
                scope = await add_account(tx, opened.id, Mode.TEST, kind=kind, method=method, auto_advance=advances)
                if payment.card:
                    customer = new_id("cus")
                    card = CardDetails(customer, payment.card, "visa", payment.card[-4:], "2049-12", customer)
                    await store_card(tx, scope, card, by=TESTER.at(now))
                scopes.append(scope)
            _, key = await issue_key(tx, scopes[0], "chaos", by=TESTER.at(now))
        return Organisation(opened.id, key, scopes)

    async def receiver(self, name: str, behaviour: Behaviour = accept, certificate: str = "good") -> Receiver:
        receiver = Receiver(self.folder, name, self.authority.context(certificate), behaviour)
        self.receivers.append(receiver)
        await receiver.open()
        return receiver

    async def open_hook(
        self, name: str, behaviour: Behaviour = accept, accounts: int = 3, *, certificate: str = "good"
    ) -> Hook:
        """A new organisation with a webhook and its receiver."""
        receiver = await self.receiver(name, behaviour, certificate)
        return await self.register(await self.open_organisation(accounts), receiver)

    async def register(self, organisation: Organisation, receiver: Receiver, account_ids: Sequence[str] = ()) -> Hook:
        # All events of orders: those that report a payment are not sent unless they are named.
        types = [*STATUS_TYPES, "order.payment_updated", "order.person_erased"]
        body = {"url": receiver.url, "account_ids": list(account_ids), "event_types": types}
        started = time.monotonic()
        created = await self.call(organisation, "POST", "/v1/webhooks", body)
        hook = Hook(created["id"], organisation, [receiver], [Secret(created["secret"], started)])
        self.hooks.append(hook)
        return hook

    async def rotate(self, hook: Hook, overlap_s: int) -> None:
        started = time.monotonic()
        path = f"/v1/webhooks/{hook.id}/rotate-secret"
        rotated = await self.call(hook.organisation, "POST", path, {"overlap_s": overlap_s})
        hook.secrets[-1].until_s = time.monotonic() + overlap_s
        hook.secrets.append(Secret(rotated["secret"], started))

    async def change(self, hook: Hook, **changes: Any) -> None:
        await self.call(hook.organisation, "PUT", f"/v1/webhooks/{hook.id}", changes)

    async def rewind_to_first_event(self, hook: Hook) -> None:
        events = await self.call(hook.organisation, "GET", "/v1/events?order=asc&limit=1")
        body = {"event_id": events["data"][0]["event_id"]}
        await self.call(hook.organisation, "POST", f"/v1/webhooks/{hook.id}/rewind", body)

    async def status_of(self, method: str, path: str, **options: Any) -> tuple[int, float, Mapping[str, str]]:
        """Status, seconds and headers of the response to any request. Raises if there is none."""
        assert self._http is not None
        started = time.monotonic()
        async with self._http.request(method, path, **options) as response:
            await response.read()
            return response.status, time.monotonic() - started, response.headers

    async def call(
        self, organisation: Organisation, method: str, path: str, body: Any = None, *, account_id: str | None = None
    ) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {organisation.key}"}
        if account_id is not None:
            headers["Service-Account"] = account_id
        assert self._http is not None
        async with self._http.request(method, path, json=body, headers=headers) as response:
            text = await response.text()
            if response.status >= 300:
                raise Refused(response.status, f"{method} {path} returned {response.status}: {text}")
            return await response.json() if text else {}

    async def place(self, organisation: Organisation, count: int, at_once: int = 6) -> list[str]:
        """Place orders over HTTP, for accounts chosen at random. Returns their ids."""
        scopes = [self.rng.choice(organisation.scopes) for _ in range(count)]
        return await self.place_for(organisation, scopes, at_once)

    async def place_for(self, organisation: Organisation, scopes: Sequence[Scope], at_once: int = 6) -> list[str]:
        slots = asyncio.Semaphore(at_once)

        async def place_one(scope: Scope) -> str:
            async with slots:
                return await self.place_one(organisation, scope)

        return await asyncio.gather(*map(place_one, scopes))

    async def place_one(self, organisation: Organisation, scope: Scope, kilograms: int | None = None) -> str:
        """Repeat the request with the same key until there is a response, like a careful client."""
        key = new_id("key")
        # At least what a card can be charged, unless it says how much.
        kilograms = kilograms or self.rng.randint(60, 150)
        body = {"mass": {"amount": str(kilograms), "unit": "kg"}, "idempotency_key": key}
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                try:
                    order = await self.call(
                        organisation, "POST", "/v1/orders/by-mass", body, account_id=scope.account_id
                    )
                    self.placed[scope.account_id, key] = order["id"]
                    return str(order["id"])
                except Refused as refused:
                    if refused.status < 500:
                        raise
            self.failed_requests += 1
            await asyncio.sleep(0.1)
        raise NotAsExpected("an order got no response within 120 s")

    async def append_events(self, scopes: Sequence[Scope], count: int) -> None:
        """Append many events with the service's own code: as orders over HTTP they would take minutes.

        Each order has two events. All events of a transaction belong to one account, chosen at random.
        """
        async with self.connection() as connection:
            for start in range(0, count, APPEND_AT_ONCE):
                events = []
                for _ in range(min(APPEND_AT_ONCE, count - start) // 2):
                    order_id = new_id("ord")
                    for status in ("received", "placed"):
                        document = f'{{"id":"{order_id}","status":"{status}"}}'
                        events.append(NewEvent(f"order.{status}", order_id, document.encode()))
                async with connection.transaction():
                    await append(connection, self.rng.choice(scopes), events, utc_now())

    async def until_delivered(self, within_s: float = 20.0) -> None:
        """Every enabled webhook has got all its events, and no account is parked."""
        await self.until_empty("all events were delivered", WAITING, within_s)


WAITING_IN = """
SELECT (count(*) > 0) = $2 FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'tonne%' AND wait_event_type = 'Lock' AND query LIKE $1
"""
WAITING = """
SELECT format('webhook %s at %s of %s, %s failures, next attempt in %s s, %s parked', webhook.id,
              webhook.cursor_position, stream.last_position, webhook.failures,
              round(extract(epoch FROM webhook.next_attempt_at - clock_timestamp()), 1), parked.count) AS waiting
FROM webhooks webhook JOIN event_streams stream USING (organisation_id, mode)
CROSS JOIN LATERAL (SELECT count(*) FROM webhook_parked parked WHERE parked.webhook_id = webhook.id) parked
WHERE webhook.enabled AND webhook.deleted_at IS NULL
  AND (webhook.cursor_position < stream.last_position OR parked.count > 0)
"""
