"""Audit packs: requested in the dashboard, made by the worker, downloaded."""

import csv
import hashlib
import io
import zipfile
from collections.abc import Callable
from decimal import Decimal

import pytest

from tests.supply.retirements.shop import TONNE, Shop
from tests.support.clock import MARCH, ManualClock
from tests.support.people import Person, add_user
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.values.context import Mode
from tonne.selling.users.model import Role
from tonne.supply.certificates.packs import make_packs

MakePerson = Callable[[], Person]
HOSTILE = '=HYPERLINK("http://x")'


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(MARCH)


@pytest.fixture
def base(world: World) -> str:
    return f"/dashboard/live/{world.ours_live.scope.organisation_id}"


@pytest.fixture
async def finance(services: Services, world: World, person: MakePerson) -> Person:
    await add_user(services, "fin@ours.test", world.ours_live.scope.organisation_id, Role.FINANCE)
    someone = person()
    await someone.sign_in("fin@ours.test")
    return someone


@pytest.fixture
async def numbers(services: Services, world: World, clock: ManualClock) -> list[str]:
    """Two certificates: one of two projects, one in a hostile name."""
    shop = Shop(services, world, clock, Mode.LIVE)
    await shop.sell("mix", {"A": 1, "B": 1})
    await shop.supply("A", 2020, 10, retired=True)
    await shop.supply("B", 2021, 10, retired=True)
    first = await shop.buy(world.ours_live.scope, 4 * TONNE, "mix")
    await shop.work()
    await shop.rename(world.ours_live.scope, HOSTILE)
    second = await shop.buy(world.ours_live.scope, 2 * TONNE, "mix")
    await shop.work()
    return [str((await shop.certificate(order))["number"]) for order in (first, second)]


def rows_of(archive: zipfile.ZipFile, name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(archive.read(name).decode())))


async def request(person: Person, base: str, clock: ManualClock) -> None:
    day = str(clock().date())
    answer = await person.submit(f"{base}/audit-packs", first_day=day, last_day=day)
    assert (answer.status_code, answer.headers.get("location")) == (303, f"{base}/audit-packs?done=pack_requested")


async def fetchval(services: Services, sql: str) -> str:
    async with services.database.connection() as connection:
        return str(await connection.fetchval(sql))


async def test_a_pack_has_the_certificates_their_serials_and_the_tables(
    finance: Person, services: Services, base: str, numbers: list[str], clock: ManualClock
) -> None:
    page = await finance.get(f"{base}/audit-packs")
    assert "No audit pack yet" in page.text
    await request(finance, base, clock)
    page = await finance.get(f"{base}/audit-packs")
    assert "Waiting" in page.text
    pack_id = await fetchval(services, "SELECT id FROM audit_packs")
    assert (await finance.get(f"{base}/audit-packs/{pack_id}/file")).status_code == 404
    assert await services.make_audit_packs.run_once()
    assert not await services.make_audit_packs.run_once()
    file = await finance.get(f"{base}/audit-packs/{pack_id}/file")
    assert file.status_code == 200
    assert file.headers["content-type"] == "application/zip"
    assert int(file.headers["content-length"]) == len(file.content)
    archive = zipfile.ZipFile(io.BytesIO(file.content))
    tables = {"serial-numbers.csv", "california-ab-1305.csv", "esrs-e1-7.csv", "README.txt"}
    assert set(archive.namelist()) == tables | {f"certificates/{number}.pdf" for number in numbers}
    # Everything that leaves can be verified.
    pdf = archive.read(f"certificates/{numbers[0]}.pdf")
    assert pdf.startswith(b"%PDF")
    sql = "SELECT sha256 FROM certificate_documents WHERE number = $1"
    async with services.database.connection() as connection:
        assert await connection.fetchval(sql, numbers[0]) == hashlib.sha256(pdf).digest()
    serials = rows_of(archive, "serial-numbers.csv")
    assert sum(Decimal(row["tonnes"]) for row in serials) == 6
    assert {row["certificate"] for row in serials} == set(numbers)
    assert all(row["serial_numbers"] and row["retired_on"] and row["retired_in_advance_by"] for row in serials)
    assert {row["beneficiary"] for row in serials if row["certificate"] == numbers[1]} == {f"'{HOSTILE}"}
    disclosed = rows_of(archive, "california-ab-1305.csv")
    assert [(row["project_id"], row["tonnes_co2e"], row["vintages"]) for row in disclosed] == [
        ("A", "3", "2020"),
        ("B", "3", "2021"),
    ]
    assert {row["removal_or_avoidance"] for row in disclosed} == {"avoidance"}
    cancelled = {row["carbon_credits_cancelled"]: row for row in rows_of(archive, "esrs-e1-7.csv")}
    assert cancelled["Total (tCO2eq)"]["tonnes_co2e"] == "6"
    assert cancelled["From reduction projects"]["share_percent"] == "100.00"
    assert cancelled["With a corresponding adjustment"]["share_percent"] == "not recorded"
    assert "2, 6 t of CO2 equivalent" in archive.read("README.txt").decode()
    assert "2 certificates" in (await finance.get(f"{base}/audit-packs")).text


@pytest.mark.usefixtures("numbers")
async def test_requests_are_checked_deleted_and_recorded(
    finance: Person, services: Services, base: str, clock: ManualClock
) -> None:
    day = str(clock().date())
    for fields, message in (
        ({"first_day": "soon", "last_day": day}, "Enter a day such as"),
        ({"first_day": day, "last_day": "2020-01-01"}, "must not be before the first"),
        ({"first_day": "2020-01-01", "last_day": "2020-12-31"}, "No certificate was issued"),
    ):
        answer = await finance.submit(f"{base}/audit-packs", **fields)
        assert answer.status_code == 422
        assert message in answer.text
    for _ in range(3):
        await request(finance, base, clock)
    answer = await finance.submit(f"{base}/audit-packs", first_day=day, last_day=day)
    assert "Three packs are being made already" in answer.text
    pack_id = await fetchval(services, "SELECT min(id) FROM audit_packs")
    assert "you can make the pack again" in (await finance.get(f"{base}/audit-packs/{pack_id}/delete")).text
    await finance.submit(f"{base}/audit-packs/{pack_id}/delete")
    assert (await finance.get(f"{base}/audit-packs/{pack_id}/delete")).status_code == 404
    assert await fetchval(services, "SELECT action FROM audit_log ORDER BY id DESC LIMIT 1") == "audit_pack.deleted"
    sql = "SELECT count(*) FROM audit_log WHERE action = 'audit_pack.requested' AND actor LIKE 'user:%'"
    assert await fetchval(services, sql) == "3"
    # Nothing of live mode shows in test mode.
    assert "No audit pack yet" in (await finance.get(base.replace("/live/", "/test/") + "/audit-packs")).text


@pytest.mark.usefixtures("numbers")
async def test_a_failure_is_retried_then_shown_and_expired_packs_are_deleted(
    finance: Person, services: Services, base: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await request(finance, base, clock)
    # A certificate that cannot be rendered.
    monkeypatch.setattr(make_packs, "RETRY_AFTER", make_packs.RETRY_AFTER * 0)
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE certificates SET record = 'broken'")
    for _ in range(make_packs.MOST_FAILURES):
        assert await services.make_audit_packs.run_once()
    assert not await services.make_audit_packs.run_once()
    assert "Failed" in (await finance.get(f"{base}/audit-packs")).text
    clock.advance(days=8)
    await services.make_audit_packs.run_once()
    assert await fetchval(services, "SELECT count(*) FROM audit_packs") == "0"
