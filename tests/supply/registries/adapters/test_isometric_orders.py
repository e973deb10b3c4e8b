"""Live orders of Isometric's credits are retired without a person."""

import base64
from collections.abc import AsyncIterator
from datetime import date, timedelta

import pytest

from tests.supply.registries.adapters.test_isometric import SERIAL, settings_for
from tests.supply.retirements.shop import Shop
from tests.support.command import tonne
from tests.support.processes import free_port
from tests.support.registries.isometric_server import ACCESS_TOKEN, CLIENT_SECRET, ORGANISATION, IsometricServer
from tests.support.registries.network import Fault, Network
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import replace
from tonne.selling.catalogue.imports.plan import FileKind
from tonne.supply.registries.adapters.configured import find_expiry
from tonne.supply.registries.instruction_store import find_waiting_any_account
from tonne.supply.registries.waiting import WAITING

BATCH = 1000
URL = "SELECT DISTINCT retirement_url FROM parcels WHERE status = 'retired'"


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def batch_s() -> int:
    return 0


@pytest.fixture
def settings(settings: Settings, port: int, batch_s: int) -> Settings:
    return replace(settings_for(settings, f"http://127.0.0.1:{port}"), registry_batch_s=batch_s)


@pytest.fixture
async def isometric(live: Shop, port: int) -> AsyncIterator[IsometricServer]:
    network = Network(patience_s=0.6)
    server = IsometricServer(live.database, live.clock, network)
    async with network.serving(server.routes, port):
        yield server
    assert network.breaches == []


async def sell(shop: Shop, tonnes: str = "1", serial: str = SERIAL) -> str:
    """A bundle of one project at Isometric with one lot, whose id is returned."""
    head = "registry,registry_project_id,name,country,type,methodology,mechanism,granularity_grams,registry_url"
    await shop.import_files(
        {
            FileKind.PROJECTS: [
                head,
                "Isometric,F5X7,Bio-oil,United Kingdom,Biomass,BSTORE,removal,1000,https://registry.isometric.com",
            ],
            FileKind.BUNDLES: [
                "slug,name,description,primary_image,unit_price,enabled,position",
                "oil,Bio-oil,,,200.00,true,5",
            ],
            FileKind.BUNDLE_PROJECTS: ["bundle_slug,registry,registry_project_id,weight", "oil,Isometric,F5X7,1"],
            FileKind.LOTS: [
                "registry,registry_project_id,vintage,serial,quantity,status,retirement_url,retired_on",
                f"Isometric,F5X7,2024,{serial},{tonnes},held,,",
            ],
        }
    )
    await shop.read_bundles()
    return str(await shop.fetchval("SELECT id FROM lots WHERE serial = $1", serial))


async def look(shop: Shop) -> None:
    shop.clock.advance(minutes=5)
    await shop.services.check_registries.run_once()


async def test_a_lot_is_connected_by_its_serial_and_its_orders_are_retired(
    live: Shop, isometric: IsometricServer
) -> None:
    lot_id = await sell(live)
    batch_id = await isometric.deposit(SERIAL)
    await look(live)
    assert await live.fetchval("SELECT holding_id FROM lots WHERE id = $1", lot_id) == batch_id
    orders = [await live.buy(await live.account(name), 3000, "oil") for name in ("Ada", "Berta")]
    await live.work()
    assert await live.statuses(*orders) == ["complete"] * 2
    [first, second] = await live.fetch("SELECT units, state FROM registry_instructions ORDER BY recorded_at, id")
    assert {first["state"], second["state"]} == {"retired"}
    assert len(await live.fetch(URL)) == 2
    for _ in range(3):
        await look(live)
    assert await live.fetch("SELECT * FROM registry_drifts") == []
    account = await live.fetch("SELECT here_grams, there_grams FROM registry_accounts WHERE id = 'isometric'")
    assert [tuple(each) for each in account] == [(994_000, 994_000)]


@pytest.mark.parametrize("fault", list(Fault))
async def test_what_the_network_does_is_found_out(live: Shop, isometric: IsometricServer, fault: Fault) -> None:
    await sell(live)
    await isometric.deposit(SERIAL)
    await look(live)
    isometric.network.script["POST"].append(fault)
    order = await live.buy(await live.account("Ada"), 3000, "oil")
    for _ in range(30):
        await live.work()
        await isometric.network.settle()
        live.clock.advance(minutes=1)
    assert await live.statuses(order) == ["complete"]
    assert await live.fetchval("SELECT count(*) FROM simulated_retirements") == 1


@pytest.mark.parametrize("batch_s", [Settings().registry_batch_s])
async def test_19_of_20_orders_are_retired_within_three_minutes(live: Shop, isometric: IsometricServer) -> None:
    """Each in another name, all of one batch, which is used by one request at a time; one of ten answers is lost."""
    await sell(live)
    await isometric.deposit(SERIAL)
    await look(live)
    isometric.network.script["POST"] += [Fault.ANSWER_LOST if number % 10 == 3 else None for number in range(20)]
    for number in range(20):
        await live.buy(await live.account(f"Customer {number}"), 3000, "oil")
        await live.work()
        live.clock.advance(seconds=10)
    for _ in range(12):
        await live.work()
        live.clock.advance(seconds=20)
    rows = await live.fetch("SELECT extract(epoch FROM retired_at - opened_at) AS waited_s FROM parcels")
    waited = sorted(float(row["waited_s"] or "inf") for row in rows)
    assert len(waited) == 20
    assert waited[0] >= 60, "requests of one beneficiary wait to be merged"
    assert waited[len(waited) * 95 // 100] <= 180


async def test_credits_wait_since_they_can_be_retired(live: Shop, isometric: IsometricServer) -> None:
    """A unit that was open for a month has not waited for the registry, nor has what a dispute holds."""
    await sell(live)
    await isometric.deposit(SERIAL)
    await look(live)
    ada, berta = await live.account("Ada"), await live.account("Berta")
    for buyer in (ada, berta):
        await live.buy(buyer, 3250, "oil")
    await live.work()
    assert await live.fetchval("SELECT count(*) FROM parcels WHERE status = 'open'") == 2
    live.clock.advance(days=29)
    await live.buy(ada, 750, "oil")
    await live.services.allocate_orders.run_once()
    live.clock.advance(minutes=10)
    assert await waiting_seconds(live) == pytest.approx(600, abs=1), "since the fraction that filled the unit"
    await live.execute("UPDATE orders SET has_open_dispute = true")
    live.clock.advance(days=2)
    await live.services.close_units.run_once()
    assert await waiting_seconds(live) == 0, "a dispute holds them"
    await live.execute("UPDATE orders SET has_open_dispute = account_id = $1", ada.account_id)
    live.clock.advance(minutes=5)
    assert await waiting_seconds(live) == 300, "since the unit was closed"
    async with live.database.connection() as connection:
        batches = [
            await find_waiting_any_account(connection, live.mode, live.clock.now - timedelta(minutes=minutes))
            for minutes in (6, 5)
        ]
    assert [len(each) for each in batches] == [0, 1], "it waits for others to be merged since then"


async def waiting_seconds(shop: Shop) -> float:
    await shop.services.check_registries.run_once()
    snapshots = [each.snapshot() for each in shop.services.check_registries.metrics]
    [found] = [each for each in snapshots if each.name == "tonne_registry_waiting_seconds"]
    return {labels[0]: max(values) for labels, values in found.series}["isometric"]


async def test_work_of_before_the_connection_stays_on_the_desk(live: Shop, isometric: IsometricServer) -> None:
    await sell(live)
    earlier = await live.buy(await live.account("Ada"), 3000, "oil")
    await live.work()
    await isometric.deposit(SERIAL)
    await look(live)
    later = await live.buy(await live.account("Berta"), 3000, "oil")
    await live.work()
    assert await live.statuses(earlier, later) == ["retiring", "complete"]
    [task] = await live.work_list()
    assert task.beneficiary == "Ada"


async def test_a_lot_with_other_units_than_the_holding_is_not_connected(live: Shop, isometric: IsometricServer) -> None:
    lot_id = await sell(live)
    batch_id = await isometric.deposit(SERIAL)
    await isometric.retire_for_another(batch_id, 1)
    await look(live)
    assert await live.fetchval("SELECT registry_account FROM lots WHERE id = $1", lot_id) is None


async def test_a_batch_that_somebody_else_splits_pauses_its_lot(live: Shop, isometric: IsometricServer) -> None:
    lot_id = await sell(live)
    batch_id = await isometric.deposit(SERIAL)
    await look(live)
    await isometric.retire_for_another(batch_id, 10)
    for _ in range(3):
        await look(live)
    assert await live.fetchval("SELECT pause_reason FROM lots WHERE id = $1", lot_id)


async def test_a_registry_that_is_down_is_not_asked_until_a_look_works(live: Shop, isometric: IsometricServer) -> None:
    await sell(live)
    await isometric.deposit(SERIAL)
    await look(live)
    isometric.network.refusals = (401,)
    isometric.network.script["GET"] += [Fault.REFUSED] * 100
    orders = [await live.buy(await live.account(name), 3000, "oil") for name in ("Ada", "Berta")]
    for _ in range(12):
        await live.work()
        live.clock.advance(minutes=10)
    [account] = await live.fetch("SELECT failures, stopped_at, problem FROM registry_accounts WHERE id = 'isometric'")
    assert (account["failures"], account["stopped_at"] is not None) == (5, True)
    assert "does not accept the credentials" in account["problem"]
    stopped = await live.fetch("SELECT subject_id, details FROM audit_log WHERE action = 'registry_account.stopped'")
    assert [each["subject_id"] for each in stopped] == ["isometric"], "once, however many answers follow"
    assert "does not accept the credentials" in stopped[0]["details"]
    sent = len(isometric.network.requests)
    await live.work()
    assert len(isometric.network.requests) == sent, "nothing is asked"
    [check] = [each for each in WAITING if each.name.startswith("registries serve")]
    [warning] = await live.fetch(check.sql, live.clock.now)
    assert "does not accept the credentials" in warning["where"]
    assert await live.fetchval("SELECT count(*) FROM registry_instructions WHERE state = 'declined'") == 0
    isometric.network.script["GET"].clear()
    live.clock.advance(minutes=1)
    await live.services.check_registries.run_once()
    live.clock.advance(hours=1)
    await live.work()
    assert await live.statuses(*orders) == ["complete"] * 2


def test_the_expiry_of_a_token_is_read_from_it() -> None:
    claims = base64.urlsafe_b64encode(b'{"exp": 1798761600}').decode().rstrip("=")
    assert find_expiry(f"eyJhbGciOiJub25lIn0.{claims}.x") == date(2027, 1, 1)
    assert find_expiry("no token") is None


@pytest.mark.usefixtures("isometric")
async def test_the_doctor_finds_retirements_that_are_none(live: Shop) -> None:
    await look(live)
    sandbox, local = [
        next(each for each in WAITING if each.name.startswith(name)) for name in ("live credits", "no registry of live")
    ]
    assert (sandbox.is_broken, local.is_broken) == (False, True)
    for address, counts in (
        (live.settings.isometric_api_base, (0, 1)),
        ("http://localhost:8000", (0, 1)),
        ("https://api.sandbox.isometric.com/registry/v0", (1, 0)),
        ("https://api.isometric.com/registry/v0", (0, 0)),
    ):
        settings = replace(live.settings, isometric_api_base=address)
        found = [await live.fetch(each.sql, *each.parameters(settings, live.clock.now)) for each in (sandbox, local)]
        assert (len(found[0]), len(found[1])) == counts, address


@pytest.mark.usefixtures("isometric")
async def test_a_registry_on_this_machine_is_a_failure_of_the_doctor(live: Shop) -> None:
    await look(live)
    done = tonne(
        "doctor",
        "--only",
        "on this machine",
        database_url=live.database._url,
        secret_key=live.settings.secret_key,
        isometric_organisation_id=ORGANISATION,
        isometric_client_secret=CLIENT_SECRET,
        isometric_access_token=ACCESS_TOKEN,
        isometric_api_base="http://127.0.0.1:9",
    )
    assert done.returncode == 1
    assert "BROKEN  no registry of live credits is on this machine" in done.stdout


async def test_the_doctor_warns_of_a_token_that_expires(live: Shop, isometric: IsometricServer) -> None:  # noqa: ARG001 - configured
    await look(live)
    [check] = [each for each in WAITING if each.name.startswith("credentials")]
    for days, count in ((31, 0), (29, 1)):
        expires_on = (live.clock.now + timedelta(days=days)).date()
        await live.execute("UPDATE registry_accounts SET expires_on = $1 WHERE id = 'isometric'", expires_on)
        assert len(await live.fetch(check.sql, live.clock.now)) == count
