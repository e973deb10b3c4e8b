"""One scenario's world: a database of its own, an api, workers, organisations, receivers, and what went wrong."""

import asyncio
import base64
import contextlib
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg

from chaos.certificates import HOST, Certificates
from chaos.postgres import Postgres
from chaos.processes import Process, free_port
from chaos.receivers import Behaviour, Receiver, accept
from tonne.accounts.api_keys import issue_key
from tonne.accounts.model import Account, AccountKind, PaymentMethod
from tonne.accounts.open_account import open_account
from tonne.accounts.open_organisation import DEFAULT_FEE_RATE, open_organisation
from tonne.base.clock import utc_now
from tonne.base.ids import new_id
from tonne.base.scope import Mode, Scope
from tonne.db.pool import Connection

# Time shrunk by settings: a pause of a second takes a fiftieth of it, and a receiver has two seconds instead of thirty.
QUICK = {
    "TONNE_WEBHOOK_TIME_SCALE": "0.02",
    "TONNE_WEBHOOK_TIMEOUT_S": "2",
    "TONNE_WEBHOOK_LEASE_S": "3",
    "TONNE_WORKER_POLL_S": "0.2",
}
READY_WITHIN_S = 30.0

Settings = Mapping[str, str]


class Trouble(Exception):
    """The scenario cannot go on as it should; the message says what did not happen."""


class Refused(Trouble):
    """The api said no."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Organisation:
    id: str
    key: str
    scopes: list[Scope]


@dataclass(slots=True)
class Secret:
    """Valid from one moment to another of the monotonic clock, as its owner saw it."""

    text: str
    from_s: float
    until_s: float = float("inf")


@dataclass(slots=True)
class Hook:
    id: str
    organisation: Organisation
    # The names of the receivers that it has been pointed at.
    receivers: list[str]
    secrets: list[Secret]
    removed: bool = False


@dataclass(slots=True)
class Faults:
    """How often each really fired. One that was announced and never fired is a failure of the run."""

    counts: Counter[str] = field(default_factory=Counter)
    announced: dict[str, int] = field(default_factory=dict)

    def announce(self, name: str, at_least: int = 1) -> Callable[[], None]:
        """Returns the function that counts it."""
        self.announced[name] = at_least
        return lambda: self.counts.update([name])

    def missing(self) -> list[str]:
        return [
            f"fault '{name}' fired {self.counts[name]} times instead of {wanted} or more"
            for name, wanted in self.announced.items()
            if self.counts[name] < wanted
        ]


class Scene:
    def __init__(self, postgres: Postgres, database: str, folder: Path, rng: random.Random, settings: Settings) -> None:
        self.postgres = postgres
        self.url = postgres.url(database)
        self.folder = folder
        self.rng = rng
        self.faults = Faults()
        self.problems: list[str] = []
        self.notes: list[str] = []
        self.hooks: list[Hook] = []
        self.receivers: list[Receiver] = []
        self.workers: list[Process] = []
        # Orders that were answered with 2xx: id by account and idempotency key.
        self.placed: dict[tuple[str, str], str] = {}
        # The status in which an order must have ended, by its id.
        self.ends: dict[str, str] = {}
        self.failed_requests = 0
        # Log lines that tell of trouble are a failure unless the scenario causes them.
        self.trouble_in_logs_is_meant = False
        self.overlaps_are_meant = False
        self.certificates = Certificates(folder)
        self._port = free_port()
        self.environment = {
            "TONNE_DATABASE_URL": self.url,
            "TONNE_DATA_DIR": str(folder),
            "TONNE_PORT": str(self._port),
            "TONNE_SECRET_KEY": base64.b64encode(rng.randbytes(32)).decode(),
            "TONNE_RATE_LIMIT_PER_SECOND": "1000000",
            "TONNE_RATE_LIMIT_BURST": "1000000",
            "TONNE_WEBHOOK_ALLOW_PRIVATE": f"{HOST}/32",
            "TONNE_WEBHOOK_PORTS": "*",
            "TONNE_WEBHOOK_CA_FILE": str(self.certificates.authority_file),
            "TONNE_DATABASE_CONNECTIONS": "12",
            **settings,
        }
        self.api: Process | None = None
        self._http: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        self._http = aiohttp.ClientSession(f"http://{HOST}:{self._port}", timeout=aiohttp.ClientTimeout(total=15))
        await self.start_api()

    async def close(self) -> None:
        """Stops everything; the records are whole afterwards."""
        await asyncio.gather(*(self._stop(worker) for worker in self.workers))
        for receiver in self.receivers:
            await receiver.close()
        if self._http is not None:
            await self._http.close()
        if self.api is not None:
            await self.api.stop()

    async def abandon(self) -> None:
        """At once, when there is no time left for order; nothing remains to be done after `close`."""
        for process in [*self.workers, *([self.api] if self.api else [])]:
            process.kill()
        if self._http is not None:
            await self._http.close()

    async def _stop(self, worker: Process) -> None:
        if not await worker.stop():
            self.problems.append("a worker did not end in time after SIGTERM")

    @property
    def timeout_s(self) -> float:
        return float(self.environment["TONNE_WEBHOOK_TIMEOUT_S"])

    @property
    def lease_s(self) -> float:
        return float(self.environment["TONNE_WEBHOOK_LEASE_S"])

    def note(self, text: str) -> None:
        self.notes.append(text)

    def require(self, true: bool, otherwise: str) -> None:
        if not true:
            self.problems.append(otherwise)

    # Processes and time -------------------------------------------------------------------------------------------

    async def start_api(self) -> None:
        self.api = Process("api", self.environment, self.folder / "api.log")
        await self.until(self._api_is_ready, "the api starts", READY_WITHIN_S)

    @property
    def newest_worker(self) -> Process:
        return self.workers[-1]

    def start_worker(self) -> Process:
        worker = Process("worker", self.environment, self.folder / f"worker-{len(self.workers)}.log")
        self.workers.append(worker)
        return worker

    def sender_of(self, peer_port: int) -> Process:
        """The worker whose connection this is."""
        for worker in self.workers:
            if worker.owns_port(peer_port):
                return worker
        raise Trouble(f"no worker has a connection from port {peer_port}")

    async def until(
        self, holds: Callable[[], Awaitable[bool]], what: str, within_s: float, every_s: float = 0.05
    ) -> None:
        deadline = time.monotonic() + within_s
        while not await holds():
            if time.monotonic() > deadline:
                raise Trouble(f"waited {within_s:g} s in vain until {what}")
            await asyncio.sleep(every_s)

    # The database -------------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        connection: Connection = await asyncpg.connect(self.url, server_settings={"application_name": "chaos"})
        try:
            yield connection
        finally:
            await connection.close()

    async def fetch(self, sql: str, *arguments: Any) -> list[asyncpg.Record]:
        async with self.connection() as connection:
            return await connection.fetch(sql, *arguments)

    @contextlib.asynccontextmanager
    async def holding(self, lock: str, *arguments: Any) -> AsyncIterator[None]:
        """Hold a lock in a session of our own, so that the service has to wait exactly there."""
        async with self.connection() as connection:
            transaction = connection.transaction()
            await transaction.start()
            await connection.execute(lock, *arguments)
            try:
                yield
            finally:
                await transaction.rollback()

    # Tenants ------------------------------------------------------------------------------------------------------

    async def open_organisation(self, accounts: int = 3) -> Organisation:
        async with self.connection() as tx, tx.transaction():
            now = utc_now()
            opened = await open_organisation(tx, new_id("name"), DEFAULT_FEE_RATE, actor="chaos", now=now)
            scopes = [Scope(opened.id, new_id("acc"), Mode.TEST) for _ in range(accounts)]
            for number, scope in enumerate(scopes):
                kind = AccountKind.CLIENT_ACCOUNT if number else AccountKind.ACCOUNT
                account = Account(scope, kind, "Chaos", "EUR", "Chaos", PaymentMethod.INVOICE, now, auto_advance=False)
                await open_account(tx, account, actor="chaos")
            _, key = await issue_key(tx, scopes[0], "chaos", actor="chaos", now=now)
        return Organisation(opened.id, key, scopes)

    async def receiver(self, name: str, behaviour: Behaviour = accept, certificate: str = "good") -> Receiver:
        receiver = Receiver(self.folder, name, self.certificates.context(certificate), behaviour)
        self.receivers.append(receiver)
        return await receiver.open()

    async def register(self, organisation: Organisation, receiver: Receiver, account_ids: Sequence[str] = ()) -> Hook:
        body = {"url": receiver.url, "account_ids": list(account_ids)}
        started = time.monotonic()
        answer = await self.call(organisation, "POST", "/v1/webhooks", body)
        hook = Hook(answer["id"], organisation, [receiver.name], [Secret(answer["secret"], started)])
        self.hooks.append(hook)
        return hook

    async def rotate(self, hook: Hook, overlap_s: int) -> None:
        started = time.monotonic()
        path = f"/v1/webhooks/{hook.id}/rotate-secret"
        answer = await self.call(hook.organisation, "POST", path, {"overlap_seconds": overlap_s})
        hook.secrets[-1].until_s = time.monotonic() + overlap_s
        hook.secrets.append(Secret(answer["secret"], started))

    async def change(self, hook: Hook, **changes: Any) -> dict[str, Any]:
        return await self.call(hook.organisation, "PUT", f"/v1/webhooks/{hook.id}", changes)

    async def call(
        self, organisation: Organisation, method: str, path: str, body: Any = None, *, account_id: str | None = None
    ) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {organisation.key}"}
        if account_id is not None:
            headers["Service-Account"] = account_id
        async with self._session.request(method, path, json=body, headers=headers) as answer:
            text = await answer.text()
            if answer.status >= 300:
                raise Refused(answer.status, f"{method} {path} was answered with {answer.status}: {text}")
            return await answer.json() if text else {}

    async def place(self, organisation: Organisation, count: int, at_once: int = 6) -> list[str]:
        """Place orders over HTTP, for accounts by chance; returns their ids."""
        keys = [new_id("key") for _ in range(count)]
        scopes = [self.rng.choice(organisation.scopes) for _ in keys]
        gate = asyncio.Semaphore(at_once)

        async def place_one(scope: Scope, key: str) -> str:
            async with gate:
                return await self.place_one(organisation, scope, key)

        return await asyncio.gather(*(place_one(scope, key) for scope, key in zip(scopes, keys, strict=True)))

    async def place_one(self, organisation: Organisation, scope: Scope, key: str) -> str:
        """As a careful client does it: the same key again until there is an answer."""
        headers = {"Authorization": f"Bearer {organisation.key}", "Service-Account": scope.account_id}
        body = {"mass": {"amount": str(self.rng.randint(1, 50)), "unit": "kg"}, "idempotency_key": key}
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                async with self._session.post("/v1/orders/by-mass", json=body, headers=headers) as answer:
                    if answer.status in {200, 201}:
                        order_id: str = (await answer.json())["id"]
                        self.placed[scope.account_id, key] = order_id
                        return order_id
                    if answer.status < 500:
                        raise Trouble(f"an order was answered with {answer.status}: {await answer.text()}")
            self.failed_requests += 1
            await asyncio.sleep(0.1)
        raise Trouble("an order found no answer within 30 s")

    async def until_delivered(self, within_s: float) -> None:
        """Every webhook in use has got everything, and no account is parked."""
        try:
            await self.until(self._nothing_waits, "all events were delivered", within_s, every_s=0.1)
        except Trouble as trouble:
            rows = await self.fetch(WAITING)
            raise Trouble(f"{trouble}: {'; '.join(row['waiting'] for row in rows[:5])}") from trouble

    async def _nothing_waits(self) -> bool:
        return not await self.fetch(WAITING)

    async def _api_is_ready(self) -> bool:
        with contextlib.suppress(aiohttp.ClientError, TimeoutError):
            async with self._session.get("/health/ready") as answer:
                return answer.status == 200
        return False

    @property
    def _session(self) -> aiohttp.ClientSession:
        if self._http is None:
            raise RuntimeError("the scene is not open")
        return self._http


WAITING = """
SELECT format('webhook %s at %s of %s, %s failures, next attempt in %s s, %s parked', webhook.id,
              webhook.cursor_position, stream.last_position, webhook.failures,
              round(extract(epoch FROM webhook.next_attempt_at - clock_timestamp()), 1), parked.count) AS waiting
FROM webhooks webhook JOIN event_streams stream USING (organisation_id, mode)
CROSS JOIN LATERAL (SELECT count(*) FROM webhook_parked parked WHERE parked.webhook_id = webhook.id) parked
WHERE webhook.enabled AND webhook.deleted_at IS NULL
  AND (webhook.cursor_position < stream.last_position OR parked.count > 0)
"""
