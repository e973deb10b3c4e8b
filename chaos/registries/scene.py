"""Live credits at a registry that speaks HTTP behind a bad network, and customers who buy them by card."""

import asyncio
import contextlib
import csv
import io
from collections.abc import AsyncIterator

import aiohttp

from chaos.cluster import Cluster
from chaos.model import Organisation
from tests.money.cards.gateways.fake_stripe_cards import GOOD, fake_stripe_cards
from tests.money.cards.gateways.gateway_under_test import LIVE_KEY
from tests.support.registries.isometric_server import ACCESS_TOKEN, CLIENT_SECRET, ORGANISATION, IsometricServer
from tests.support.registries.network import Network
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
from tonne.supply.stock.lots.import_lots import import_files

PROJECTS = 24
# Of one project in each order.
UNITS = 30
LOT_UNITS = 30_000
CODES = [f"K{number:03}" for number in range(PROJECTS)]
PATIENCE_S = 1.0
BUNDLES = "SELECT id FROM bundles WHERE mode = 'live' ORDER BY id"


def serial_of(code: str) -> str:
    return f"ISO-1-BSTORE-GBR-{code}-2024-1-{LOT_UNITS}"


class RegistryScene:
    def __init__(self, cluster: Cluster, network: Network, books: Database) -> None:
        self.cluster = cluster
        self.network = network
        self.books = books
        self.registry = IsometricServer(books, utc_now, network)
        self.organisation: Organisation | None = None
        self._bundles: list[str] = []

    async def open(self, resources: contextlib.AsyncExitStack) -> None:
        stripe = await resources.enter_async_context(fake_stripe_cards())
        url = await resources.enter_async_context(self.network.serving(self.registry.routes))
        for code in CODES:
            await self.registry.deposit(serial_of(code))
        self.cluster.settings.update(
            {
                **SELLER,
                "stripe_secret_key": LIVE_KEY,
                "stripe_api_base": stripe.url,
                "isometric_organisation_id": ORGANISATION,
                "isometric_client_secret": CLIENT_SECRET,
                "isometric_access_token": ACCESS_TOKEN,
                "isometric_api_base": url,
                "registry_timeout_s": PATIENCE_S,
                "registry_batch_s": 0,
                "pool_wait_days": 0,
            }
        )
        async with self.cluster.connection() as tx, tx.transaction():
            await import_files(tx, Mode.LIVE, _files(), currency="EUR", by=TESTER.at(utc_now()))
            self.organisation = await _open_organisation(tx)
        self._bundles = [row["id"] for row in await self.cluster.fetch(BUNDLES)]
        await self.cluster.start_api()

    async def buy(self, count: int) -> None:
        """Each in another name, so that each is a retirement of its own. Some share units."""
        organisation = self.organisation
        assert organisation is not None
        for _ in range(count):
            grams = UNITS * 1000 + self.cluster.rng.choice((0, 0, 0, 250))
            key = new_id("key")
            body = {
                "mass": {"amount": str(grams), "unit": "g"},
                "bundle_selection": [{"bundle_id": self.cluster.rng.choice(self._bundles)}],
                "beneficiary": {"name": f"Customer {key}"},
                "idempotency_key": key,
            }
            while True:
                # With the same key, like a careful client.
                with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                    placed = await self.cluster.call(organisation, "POST", "/v1/orders/by-mass", body)
                    self.cluster.placed[organisation.scopes[0].account_id, key] = placed["id"]
                    break
                await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def registry_scene(cluster: Cluster) -> AsyncIterator[RegistryScene]:
    """The registry has a database of its own."""
    name = f"{cluster.database}_registry"
    await cluster.postgres.clone("chaos_template", name)
    network = Network(cluster.rng, patience_s=PATIENCE_S)
    async with contextlib.AsyncExitStack() as resources:
        books = await Database(cluster.postgres.url(name), Settings(data_dir=str(cluster.folder))).open()
        resources.push_async_callback(books.close)
        scene = RegistryScene(cluster, network, books)
        await scene.open(resources)
        yield scene


async def _open_organisation(tx: Connection) -> Organisation:
    now = utc_now()
    opened = await open_organisation(tx, new_id("name"), DEFAULT_FEE_RATE, by=TESTER.at(now))
    scope = await add_account(tx, opened.id, Mode.LIVE, method=PaymentMethod.CARD)
    card = CardDetails("cus_1", GOOD, "visa", "4242", "2049-12", "card_1")
    await store_card(tx, scope, card, by=TESTER.at(now))
    _, key = await issue_key(tx, scope, "chaos", by=TESTER.at(now))
    return Organisation(opened.id, key, [scope])


def _files() -> dict[FileKind, SheetFile]:
    page = "https://registry.isometric.com"
    rows: dict[FileKind, list[dict[str, object]]] = {
        FileKind.PROJECTS: [
            {
                "registry": "Isometric",
                "registry_project_id": code,
                "name": f"Project {code}",
                "country": "United Kingdom",
                "type": "Biomass",
                "methodology": "BSTORE",
                "mechanism": "removal",
                "granularity_grams": 1000,
                "registry_url": page,
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
            {"bundle_slug": code.lower(), "registry": "Isometric", "registry_project_id": code, "weight": 1}
            for code in CODES
        ],
        FileKind.LOTS: [
            {
                "registry": "Isometric",
                "registry_project_id": code,
                "vintage": 2024,
                "serial": serial_of(code),
                "quantity": LOT_UNITS // 1000,
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
