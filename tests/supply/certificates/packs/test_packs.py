"""Audit packs: requested in the dashboard, made by the worker, downloaded."""

import csv
import hashlib
import io
import re
import zipfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.supply.retirements.shop import TONNE, Shop
from tests.support.clock import MARCH, ManualClock
from tests.support.people import Person, add_user
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.values.context import Mode, Scope
from tonne.selling.users.model import Role
from tonne.supply.certificates.packs import make_packs
from tonne_verify.cli import main

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
async def shop(services: Services, world: World, clock: ManualClock) -> Shop:
    shop = Shop(services, world, clock, Mode.LIVE)
    await shop.sell("mix", {"A": 1, "B": 1})
    await shop.supply("A", 2020, 10, retired=True)
    await shop.supply("B", 2021, 10, retired=True)
    return shop


@pytest.fixture
async def numbers(shop: Shop, world: World) -> list[str]:
    """Two certificates: one of two projects, one in a hostile name."""
    first = await shop.buy(world.ours_live.scope, 4 * TONNE, "mix")
    await shop.work()
    await shop.rename(world.ours_live.scope, HOSTILE)
    second = await shop.buy(world.ours_live.scope, 2 * TONNE, "mix")
    await shop.work()
    return [str((await shop.certificate(order))["number"]) for order in (first, second)]


class Desk(NamedTuple):
    finance: Person
    services: Services
    base: str
    clock: ManualClock
    shop: Shop
    scope: Scope

    async def make_pack(self) -> bytes:
        await self.finance.sign_in("fin@ours.test")
        await request(self.finance, self.base, self.clock)
        async with self.services.database.transaction() as tx:
            # Packs are due by the clock of the database, which is behind that of the test.
            await tx.execute("UPDATE audit_packs SET next_attempt_at = now()")
        assert await self.services.make_audit_packs.run_once()
        pack_id = await fetchval(self.services, "SELECT id FROM audit_packs")
        return (await self.finance.get(f"{self.base}/audit-packs/{pack_id}/file")).content


@pytest.fixture
def desk(finance: Person, base: str, world: World, shop: Shop) -> Desk:
    return Desk(finance, shop.services, base, shop.clock, shop, world.ours_live.scope)


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
    quarters = re.findall(r'first_day=([\d-]+)&amp;last_day=([\d-]+)#new">(Q\d \d{4})<', page.text)
    assert quarters[0] == ("2025-10-01", "2025-12-31", "Q4 2025")
    assert quarters[3] == ("2025-01-01", "2025-03-31", "Q1 2025")
    chosen = await finance.get(f"{base}/audit-packs?first_day={quarters[0][0]}&last_day={quarters[0][1]}")
    assert 'value="2025-10-01"' in chosen.text
    assert 'value="2025-12-31"' in chosen.text
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
    tables = {"serial-numbers.csv", "california-ab-1305.csv", "esrs-e1-7.csv", "planned-cancellations.csv"}
    tables |= {"README.txt", "pack.json"}
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
    assert rows_of(archive, "planned-cancellations.csv")[-1]["tonnes_co2e"] == "0"
    assert "2, 6 t of CO2 equivalent" in archive.read("README.txt").decode()
    assert "2 certificates" in (await finance.get(f"{base}/audit-packs")).text


async def test_every_figure_can_be_computed_again_without_the_seller(
    desk: Desk, numbers: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With certificates of the year before, an order that waits for supply, and no change unseen."""
    desk.clock.advance(days=365)
    for tonnes in (3, 3, 900):
        await desk.shop.buy(desk.scope, tonnes * TONNE, "mix")
    await desk.shop.work()
    content = await desk.make_pack()
    issuer = tmp_path / "tonne-issuer.json"
    issuer.write_bytes((await desk.finance.get("/.well-known/tonne-issuer.json")).content)

    def check(changed: str = "", old: bytes = b"", new: bytes = b"", *, to: str = "") -> tuple[int, str]:
        path = tmp_path / "pack.zip"
        with zipfile.ZipFile(io.BytesIO(content)) as archive, zipfile.ZipFile(path, "w") as copy:
            for name in archive.namelist():
                data = archive.read(name)
                assert name != changed or old in data
                copy.writestr(
                    to if to and name == changed else name, data.replace(old, new) if name == changed else data
                )
        return main(["pack", str(path), "--issuer", str(issuer)]), capsys.readouterr().out

    assert check()[0] == 0, check()[1]
    # Nobody has cosigned the log. Other files of the pack are no certificates.
    assert main([str(tmp_path / "pack.zip"), "--issuer", str(issuer)]) == 3
    assert "cannot be checked" not in capsys.readouterr().out
    archive = zipfile.ZipFile(io.BytesIO(content))
    assert {name for name in archive.namelist() if name.startswith("previous-period/")} == {
        f"previous-period/{number}.pdf" for number in numbers
    }
    [total] = [row for row in rows_of(archive, "esrs-e1-7.csv") if row["carbon_credits_cancelled"].startswith("Total")]
    assert (total["tonnes_co2e"], total["tonnes_co2e_of_the_previous_period"]) == ("6", "6")
    assert rows_of(archive, "planned-cancellations.csv")[-1]["tonnes_co2e"] == "900"
    for name, old, new in (
        ("esrs-e1-7.csv", b"100.00", b"99.00"),
        ("california-ab-1305.csv", b"avoidance", b"removal"),
        ("serial-numbers.csv", b"2020", b"2022"),
        ("planned-cancellations.csv", b"Total (tCO2eq),,900", b"Total (tCO2eq),,90"),
        ("README.txt", b"6 t", b"7 t"),
        ("pack.json", b'"live"', b'"test"'),
    ):
        code, report = check(name, old, new)
        assert (code, "does not hold" in report) == (1, True), (name, report)
    assert "From the certificates it would be" in check("esrs-e1-7.csv", b"100.00", b"99.00")[1]
    kept = f"previous-period/{numbers[0]}.pdf"
    assert "not of this pack" in check(kept, to=f"certificates/{numbers[0]}.pdf")[1]
    assert check(kept, b"%PDF-1.7", b"%PDF-1.6")[0] == 1
    assert check("README.txt", to="ratings.csv")[0] == 1
    assert check("pack.json", to="about.json")[0] == 2
    assert check("pack.json", b'"made_on"', b'"count"')[0] == 2


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
