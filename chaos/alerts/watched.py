"""The service that is watched: two api and a worker with live customers, a mail server, a gateway and a receiver."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import aiohttp

from chaos.cluster import Cluster
from chaos.model import Hook, NotAsExpected, Organisation
from tests.money.cards.gateways.fake_stripe_cards import GOOD, FakeStripeCards, fake_stripe_cards
from tests.money.cards.gateways.gateway_under_test import LIVE_KEY
from tests.support.processes import HOST, Process, free_port
from tests.support.receivers import Listener, read_request
from tests.support.world import SELLER, TESTER, add_account
from tonne.money.cards.gateways.card import CardDetails
from tonne.money.cards.stored_cards.stored_cards import store_card
from tonne.platform.values.context import Mode, Scope, new_id, utc_now
from tonne.selling.accounts.keys.api_keys import issue_key
from tonne.selling.accounts.model import AccountKind, PaymentMethod
from tonne.selling.accounts.organisations.change_organisation import DEFAULT_FEE_RATE, open_organisation
from tonne.selling.catalogue.demo import demo_files
from tonne.supply.stock.lots.import_lots import import_files

# Each customer orders and reads, and then waits for this long.
CUSTOMERS = 2
THINK_S = 1.0
# Each is a customer of its own at the gateway: what a charge became is looked up in the payments of its customer.
ACCOUNTS = 50
API_CONNECTIONS = 4
DONE_WITHIN_S = 60.0
SEND_RECEIPTS = "UPDATE accounts SET receipt_email = 'payer@buyer.example'"


class Gateway:
    """Stripe's stand-in behind a port that can stop answering: it reads requests and closes their connections."""

    def __init__(self, stripe: FakeStripeCards) -> None:
        self._port = int(stripe.url.rpartition(":")[2])
        self._listener = Listener(self._serve)
        self.answers = True

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._listener.port}"

    async def open(self) -> None:
        await self._listener.open()

    async def close(self) -> None:
        await self._listener.close()

    def stop_answering(self) -> None:
        self.answers = False
        self._listener.drop_connections()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream = await asyncio.open_connection(HOST, self._port)
        answering = asyncio.create_task(_copy(upstream_reader, writer))
        try:
            while True:
                head, body = await read_request(reader)
                if not self.answers:
                    return
                upstream.write(head + body)
        finally:
            answering.cancel()
            upstream.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while found := await reader.read(65536):
        writer.write(found)


class Service:
    """Everything runs after `open`. Faults stop and change its parts from outside."""

    def __init__(self, cluster: Cluster, resources: contextlib.AsyncExitStack) -> None:
        self.cluster = cluster
        self._resources = resources
        self._mail_port = free_port()
        # The main port and the metrics port of each process by its name.
        self.ports = {
            "api-1": (cluster.port, free_port()),
            "api-2": (free_port(), free_port()),
            "worker": (free_port(), free_port()),
        }
        self.processes: dict[str, Process] = {}
        self.organisation: Organisation | None = None
        self.answers: dict[str, int] = {}
        self._closing = False

    @property
    def targets(self) -> list[int]:
        return [metrics for _, metrics in self.ports.values()]

    async def open(self, data_of_second: Path, wrapper_of_second: Sequence[str]) -> None:
        """The second api has a data folder, and a wrapper, of its own."""
        stripe = await self._resources.enter_async_context(fake_stripe_cards())
        self.gateway = Gateway(stripe)
        await self.gateway.open()
        self._resources.push_async_callback(self.gateway.close)
        await self.open_mail()
        self._resources.push_async_callback(self.close_mail)
        mail = {"smtp_url": f"smtp://localhost:{self._mail_port}", "mail_from": "tonne@seller.example"}
        stripe_settings = {"stripe_secret_key": LIVE_KEY, "stripe_api_base": self.gateway.url}
        self.cluster.settings.update({**SELLER, **mail, **stripe_settings})
        self._second = {"data_dir": data_of_second}, tuple(wrapper_of_second)
        async with self.cluster.connection() as tx, tx.transaction():
            await import_files(
                tx, Mode.LIVE, demo_files(Mode.LIVE), currency="EUR", by=TESTER.at(utc_now()), is_demo=True
            )
        self.organisation = await self._open_organisation()
        await asyncio.gather(*(asyncio.to_thread(self.start, name) for name in self.ports))
        self.hook = await self._open_hook(self.organisation)

    # Its parts ----------------------------------------------------------------------------------------------------

    async def open_mail(self) -> None:
        """In a process of its own: many mails at once would keep this one, with the customers, from running."""
        listen = f"{HOST}:{self._mail_port}"
        log = self.cluster.folder / "mail.log"
        self._mail = Process("aiosmtpd", "-n", "-l", listen, "-c", "aiosmtpd.handlers.Sink", settings={}, log=log)
        self.cluster.supports.append(self._mail)

    async def close_mail(self) -> None:
        self._mail.kill()

    def start(self, name: str) -> None:
        """Start a process, and wait until it serves its metrics."""
        own: Mapping[str, object]
        own, wrapper = self._second if name == "api-2" else ({}, ())
        if name != "worker":
            # Few, so that they can be used up.
            own = {**own, "database_connections": API_CONNECTIONS}
        self.processes[name] = self.start_process(name, self.ports[name], own, wrapper)

    def start_process(
        self, name: str, ports: tuple[int, int], own: Mapping[str, object] = {}, wrapper: Sequence[str] = ()
    ) -> Process:
        port, metrics_port = ports
        command = name.partition("-")[0]
        settings = {**self.cluster.settings, "port": port, "metrics_port": metrics_port, **own}
        log = self.cluster.folder / f"{name}.log"
        # The wrapper leaves the working folder.
        process = Process("tonne", command, "--stop-with-parent", settings=settings, log=log, wrapper=wrapper)
        self.cluster.supports.append(process)
        process.wait_until_ready(metrics_port if command == "worker" else port)
        return process

    async def run(self, *words: str, wrapper: Sequence[str] = ()) -> None:
        """A command, until it ends. 3 are the warnings of the doctor."""
        log = self.cluster.folder / f"{words[0]}.log"
        process = Process("tonne", *words, settings=self.cluster.settings, log=log, wrapper=wrapper)
        code = await asyncio.to_thread(process.wait, DONE_WITHIN_S)
        process.kill()
        if code not in {0, 3}:
            raise NotAsExpected(f"tonne {words[0]} ended with {code}: {log.read_text()[-500:]}")

    async def stop(self) -> None:
        stopped = await asyncio.gather(*(asyncio.to_thread(each.stop) for each in self.processes.values()))
        self.cluster.require(all(stopped), "a process did not stop in time after SIGTERM")

    # Its customers ------------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def customers(self) -> AsyncIterator[None]:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as http:
            tasks = [asyncio.create_task(self._be_customer(http, number)) for number in range(CUSTOMERS)]
            try:
                yield
            finally:
                self._closing = True
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _be_customer(self, http: aiohttp.ClientSession, number: int) -> None:
        """Half of them begin with each api. Failures are counted; the alerts are what is tested."""
        for at in itertools.count(number):
            if self._closing:
                return
            port = self.ports[("api-1", "api-2")[at % 2]][0]
            await self.order(http, port)
            await self.read(http, port)
            await asyncio.sleep(THINK_S)

    async def order(self, http: aiohttp.ClientSession, port: int) -> None:
        body = {"mass": {"amount": "60", "unit": "kg"}, "idempotency_key": new_id("key")}
        await self._send(http, port, "POST", "/v1/orders/by-mass", body)

    async def read(self, http: aiohttp.ClientSession, port: int, query: str = "limit=5") -> None:
        await self._send(http, port, "GET", f"/v1/orders?{query}")

    async def _send(self, http: aiohttp.ClientSession, port: int, method: str, path: str, body: object = None) -> None:
        assert self.organisation is not None
        scope = self.cluster.rng.choice(self.organisation.scopes)
        headers = {"Authorization": f"Bearer {self.organisation.key}", "Service-Account": scope.account_id}
        what = "order" if method == "POST" else "read"
        try:
            async with http.request(method, f"http://{HOST}:{port}{path}", json=body, headers=headers) as found:
                await found.read()
                outcome = f"{what} {found.status}"
        except (aiohttp.ClientError, TimeoutError):
            outcome = f"{what} lost"
        self.answers[outcome] = self.answers.get(outcome, 0) + 1

    async def _open_organisation(self) -> Organisation:
        """Its orders are live, and paid with a card at Stripe."""
        now = utc_now()
        scopes: list[Scope] = []
        async with self.cluster.connection() as tx, tx.transaction():
            opened = await open_organisation(tx, new_id("name"), DEFAULT_FEE_RATE, by=TESTER.at(now))
            for number in range(ACCOUNTS):
                kind = AccountKind.CLIENT_ACCOUNT if scopes else AccountKind.ACCOUNT
                scopes.append(await add_account(tx, opened.id, Mode.LIVE, kind=kind, method=PaymentMethod.CARD))
                card = CardDetails(f"cus_{number}", GOOD, "visa", "4242", "2049-12", f"card_{number}")
                await store_card(tx, scopes[-1], card, by=TESTER.at(now))
            await tx.execute(SEND_RECEIPTS)
            _, key = await issue_key(tx, scopes[0], "chaos", by=TESTER.at(now))
        return Organisation(opened.id, key, scopes)

    async def _open_hook(self, organisation: Organisation) -> Hook:
        return await self.cluster.register(organisation, await self.cluster.receiver("receiver"))
