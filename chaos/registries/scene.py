"""Credits at registries that speak HTTP behind a bad network, and customers who buy them by card."""

import asyncio
import contextlib
import csv
import io
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence

import aiohttp
import asyncpg

from chaos.cluster import Cluster
from chaos.model import NotAsExpected, Organisation, Payment, Refused
from chaos.registries.books import Books, compare_books
from chaos.registries.servers import BREACH
from tests.money.cards.gateways.fake_stripe_cards import GOOD, fake_stripe_cards
from tests.money.cards.gateways.gateway_under_test import LIVE_KEY
from tests.support.processes import HOST, Process, free_port
from tests.support.registries import isometric_server, puro_server
from tests.support.registries.isometric_server import IsometricServer
from tests.support.registries.network import Fault, Network
from tests.support.registries.puro_server import PuroServer
from tests.support.world import SELLER, TESTER, add_account
from tonne.money.cards.gateways.card import CardDetails
from tonne.money.cards.stored_cards.stored_cards import store_card
from tonne.platform.db.database import Connection, Database
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode, new_id, utc_now
from tonne.selling.accounts.keys.api_keys import issue_key
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.accounts.organisations.change_organisation import DEFAULT_FEE_RATE, open_organisation
from tonne.selling.catalogue.imports.plan import FileKind
from tonne.supply.registries.adapters.puro import serial_of as puro_serial_of
from tonne.supply.stock.lots.import_lots import import_files
from tonne_verify.serials.parse import parse

LOT_UNITS = 30_000
ISOMETRIC_CODES = [f"K{number:03}" for number in range(12)]
PURO_CODES = [f"{577_000 + number}" for number in range(12)]
CODES = [*ISOMETRIC_CODES, *PURO_CODES]
PATIENCE_S = 1.0
READY_WITHIN_S = 120.0
TEST_CARD = "4242424242424242"
# What registries do for such beneficiaries besides what the network does. No order of them needs a person: none is
# refused or rejected. Live accounts are compared every second, in which a part of a request whose answer is lost is a
# difference: they retire what they are asked for.
ISOMETRIC_NAMES = ("Registry Answer Lost", "Registry Doubled")
PURO_NAMES = (*ISOMETRIC_NAMES, "Registry Pending", "Registry Other Serials")
TEST_NAMES = (*PURO_NAMES, "Registry Fewer", "Registry Lost", "Registry Late")
BUNDLES = """
SELECT bundle.mode, bundle.id, min(project.granularity_grams) AS unit_grams
FROM bundles bundle JOIN bundle_projects part ON part.mode = bundle.mode AND part.bundle_id = bundle.id
JOIN projects project ON project.mode = part.mode AND project.id = part.project_id
WHERE bundle.enabled GROUP BY bundle.mode, bundle.id ORDER BY bundle.mode, bundle.id
"""
LIVE_COSTS = "SELECT id, total_cost_minor FROM orders WHERE mode = 'live'"
WRONG_SHARES = """
SELECT bought.id, bought.quantity_grams, coalesce(supplied.grams, 0) AS supplied
FROM orders bought LEFT JOIN (
    SELECT share.order_id, sum(share.quantity_grams) AS grams
    FROM shares share JOIN parcels parcel ON parcel.mode = share.mode AND parcel.id = share.parcel_id
    WHERE parcel.status = 'retired' GROUP BY share.order_id) supplied ON supplied.order_id = bought.id
WHERE supplied.grams IS DISTINCT FROM bought.quantity_grams
"""
NAMESPACES = """
SELECT lot.id, block.namespace FROM lots lot JOIN serial_blocks block ON block.number = lot.serial_block
"""


def registry_of(code: str) -> str:
    return "Isometric" if code in ISOMETRIC_CODES else "Puro"


def serial_of(code: str) -> str:
    if code in ISOMETRIC_CODES:
        return f"ISO-1-BSTORE-GBR-{code}-2024-1-{LOT_UNITS}"
    return f"PURO_PR_CORC100+_FI_{code}_2024_{int(code):08x}-eabc-4535-b9cf-1028e7d18f89_1-{LOT_UNITS}"


class RegistryScene:
    def __init__(self, cluster: Cluster, books: str) -> None:
        self.cluster = cluster
        self._books = books
        self._record = cluster.folder / "faults"
        self._record.touch()
        self.counts: Counter[tuple[str, Fault]] = Counter()
        self._counted = 0
        self._ports = free_port(), free_port()
        self._servers: Process | None = None
        self._probability: Mapping[str, float] = {}
        self._organisations: dict[str, Organisation] = {}
        self._bundles: list[tuple[str, str, int]] = []

    def count(self) -> Counter[tuple[str, Fault]]:
        """What the network has done so far, by method."""
        with self._record.open("rb") as record:
            record.seek(self._counted)
            for line in record:
                method, _, fault = line.decode().rstrip().partition(" ")
                if method == BREACH:
                    self.cluster.problems.append(f"not what the interface of a registry says: {fault}")
                else:
                    self.counts[method, Fault(fault)] += 1
                self._counted += len(line)
        return self.counts

    async def open(self, resources: contextlib.AsyncExitStack) -> None:
        stripe = self._stripe = await resources.enter_async_context(fake_stripe_cards())
        await self._issue()
        isometric_port, puro_port = self._ports
        self.cluster.settings.update(
            {
                **SELLER,
                "seller_country": "GB",
                "stripe_secret_key": LIVE_KEY,
                "stripe_api_base": stripe.url,
                "isometric_organisation_id": isometric_server.ORGANISATION,
                "isometric_client_secret": isometric_server.CLIENT_SECRET,
                "isometric_access_token": isometric_server.ACCESS_TOKEN,
                "isometric_api_base": f"http://{HOST}:{isometric_port}",
                "puro_account_number": puro_server.NUMBER,
                "puro_api_key": puro_server.KEY,
                "puro_api_secret": puro_server.SECRET,
                "puro_api_base": f"http://{HOST}:{puro_port}",
                "puro_unit_price": "EUR 120.00",
                "puro_contact_email": "operator@seller.example",
                "registry_timeout_s": PATIENCE_S,
                "registry_batch_s": 0,
                "pool_wait_days": 0,
            }
        )
        async with self.cluster.connection() as tx, tx.transaction():
            await import_files(tx, Mode.LIVE, _files(), currency="EUR", by=TESTER.at(utc_now()))
            self._organisations["live"] = await _open_organisation(tx)
        self._organisations["test"] = await self.cluster.open_organisation([Payment(TEST_CARD, auto_advance=True)])
        self._bundles = [tuple(row) for row in await self.cluster.fetch(BUNDLES)]
        await self.start_servers()
        await self.cluster.start_api()

    async def _issue(self) -> None:
        """Every credit at once, before the registries are started."""
        database = await Database(self.cluster.postgres.url(self._books), Settings()).open()
        isometric, puro = (type_(database, utc_now, Network()) for type_ in (IsometricServer, PuroServer))
        for code in CODES:
            await (isometric if code in ISOMETRIC_CODES else puro).deposit(serial_of(code))
        await database.close()

    async def start_servers(self, probability: Mapping[str, float] | None = None) -> None:
        """Start them again, after they were killed or with other faults: how often, by method."""
        self.kill_servers()
        self._probability = self._probability if probability is None else probability
        self._servers = Process(
            "chaos.registries.servers",
            self.cluster.postgres.url(self._books),
            str(self._record),
            *map(str, self._ports),
            f"--seed={self.cluster.rng.randrange(1_000_000)}",
            f"--of-get={self._probability.get('GET', 0)}",
            f"--of-post={self._probability.get('POST', 0)}",
            f"--patience-s={PATIENCE_S}",
            settings={},
            log=self.cluster.folder / "registries.txt",
        )
        self.cluster.supports.append(self._servers)
        await self.cluster.until(self._are_ready, "the registries are started", READY_WITHIN_S)

    def kill_servers(self) -> None:
        if self._servers is not None:
            self._servers.kill()

    async def _are_ready(self) -> bool:
        with contextlib.suppress(OSError):
            for port in self._ports:
                _, writer = await asyncio.open_connection(HOST, port)
                writer.close()
            return True
        return False

    async def buy(self, count: int) -> None:
        """Most in a name of their own, so that each is a retirement of its own. Some share units."""
        rng = self.cluster.rng
        for _ in range(count):
            mode = rng.choice(("live", "live", "live", "test"))
            bundle_id, unit_grams = rng.choice([each[1:] for each in self._bundles if each[0] == mode])
            key = new_id("key")
            live_names = ISOMETRIC_NAMES if unit_grams == 1000 else PURO_NAMES
            names = (f"Customer {key}", *(live_names if mode == "live" else TEST_NAMES))
            # What a card can be charged, at least.
            units = 30 if unit_grams == 1000 else rng.choice((1, 1, 2))
            body: dict[str, object] = {
                "mass": {"amount": str(units * unit_grams + rng.choice((0, 0, 0, unit_grams // 4))), "unit": "g"},
                "bundle_selection": [{"bundle_id": bundle_id}],
                "beneficiary": {"name": names[0] if rng.random() < 0.7 else rng.choice(names)},
                "idempotency_key": key,
            }
            await self._place(self._organisations[mode], key, body)

    async def _place(self, organisation: Organisation, key: str, body: dict[str, object]) -> None:
        """With the same key until there is an answer, like a careful client."""
        deadline = time.monotonic() + 2 * READY_WITHIN_S
        while time.monotonic() < deadline:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                try:
                    placed = await self.cluster.call(organisation, "POST", "/v1/orders/by-mass", body)
                except Refused as refused:
                    if refused.status < 500:
                        raise
                else:
                    self.cluster.placed[organisation.scopes[0].account_id, key] = placed["id"]
                    self.cluster.final_statuses[placed["id"]] = "complete"
                    return
            await asyncio.sleep(0.2)
        raise NotAsExpected("an order got no answer")

    async def compare(self) -> dict[str, int]:
        """The books of all accounts. Returns how many units each has retired."""
        async with self.cluster.connection() as here, self.cluster.postgres.connection(self._books) as there:
            namespaces = {row["id"]: row["namespace"] for row in await here.fetch(NAMESPACES)}
            accounts: Sequence[tuple[Books, Connection]] = (
                (Books("isometric", isometric_server.ACCOUNT, _isometric_namespace), there),
                (Books("puro", puro_server.ACCOUNT, _puro_namespace), there),
                (Books("sim-key", "sim-key", namespaces.__getitem__, retires_fewer=True), here),
                (Books("sim-holding", "sim-holding", namespaces.__getitem__, retires_fewer=True), here),
            )
            retired: dict[str, int] = {}
            for books, of_one in accounts:
                retired[books.account], problems = await compare_books(books, here, of_one)
                self.cluster.problems += problems
            self._require_none("orders with other grams than they bought", await here.fetch(WRONG_SHARES))
            self._require_none("orders that were not charged once", await self._wrong_charges(here))
            return retired

    async def _wrong_charges(self, here: Connection) -> list[str]:
        """Live orders are charged at Stripe; the checker looks at the others."""
        taken: defaultdict[str, list[int]] = defaultdict(list)
        for intent in self._stripe.intents.values():
            if intent["status"] == "succeeded":
                taken[intent["metadata"]["order_id"]].append(intent["amount_received"])
        costs = {row["id"]: [row["total_cost_minor"]] for row in await here.fetch(LIVE_COSTS)}
        return sorted(id_ for id_ in costs.keys() | taken.keys() if costs.get(id_) != taken[id_])

    def _require_none(self, what: str, found: Sequence[object]) -> None:
        self.cluster.require(not found, f"{what}: {len(found)}, such as {found[:3]}")


def _isometric_namespace(lot_id: str) -> str:
    return parse("Isometric", isometric_server.serial_of(lot_id)).namespace


def _puro_namespace(frame: str) -> str:
    return parse("Puro", puro_serial_of(frame, 1, 1)).namespace


@contextlib.asynccontextmanager
async def registry_scene(cluster: Cluster) -> AsyncIterator[RegistryScene]:
    """The registries have a database of their own."""
    name = f"{cluster.database}_registry"
    await cluster.postgres.clone("chaos_template", name)
    async with contextlib.AsyncExitStack() as resources:
        scene = RegistryScene(cluster, name)
        await scene.open(resources)
        yield scene


async def _open_organisation(tx: asyncpg.Connection) -> Organisation:
    now = utc_now()
    opened = await open_organisation(tx, new_id("name"), DEFAULT_FEE_RATE, by=TESTER.at(now))
    scope = await add_account(tx, opened.id, Mode.LIVE, method=PaymentMethod.CARD)
    card = CardDetails("cus_1", GOOD, "visa", "4242", "2049-12", "card_1")
    await store_card(tx, scope, card, by=TESTER.at(now))
    _, key = await issue_key(tx, scope, "chaos", by=TESTER.at(now))
    return Organisation(opened.id, key, [scope])


def _files() -> dict[FileKind, SheetFile]:
    page = {"Isometric": "https://registry.isometric.com", "Puro": "https://registry.puro.earth"}
    rows: dict[FileKind, list[dict[str, object]]] = {
        FileKind.PROJECTS: [
            {
                "registry": registry_of(code),
                "registry_project_id": code,
                "name": f"Project {code}",
                "country": "United Kingdom" if code in ISOMETRIC_CODES else "Finland",
                "type": "Biomass",
                "methodology": "BSTORE",
                "mechanism": "removal",
                "granularity_grams": 1000 if code in ISOMETRIC_CODES else 1_000_000,
                "registry_url": page[registry_of(code)],
            }
            for code in CODES
        ],
        FileKind.BUNDLES: [
            {
                "slug": code.lower(),
                "name": code,
                "description": "",
                "primary_image": "",
                "unit_price": "200.00",
                "enabled": "true",
                "position": number,
            }
            for number, code in enumerate(CODES, 1)
        ],
        FileKind.BUNDLE_PROJECTS: [
            {"bundle_slug": code.lower(), "registry": registry_of(code), "registry_project_id": code, "weight": 1}
            for code in CODES
        ],
        FileKind.LOTS: [
            {
                "registry": registry_of(code),
                "registry_project_id": code,
                "vintage": 2024,
                "serial": serial_of(code),
                "quantity": LOT_UNITS // 1000 if code in ISOMETRIC_CODES else LOT_UNITS,
                "status": "held",
                "retirement_url": "",
                "retired_on": "",
            }
            for code in CODES
        ],
    }
    return {kind: SheetFile(kind, _csv(lines)) for kind, lines in rows.items()}


def _csv(lines: list[dict[str, object]]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(lines[0]))
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue().encode()
