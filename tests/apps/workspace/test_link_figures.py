"""Visits and payments of offset links in the dashboard."""

import csv
import io
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from tests.apps.workspace.test_links import MakePerson
from tests.channels.checkout.shopper import make_link
from tests.support.clock import ManualClock
from tests.support.people import add_user
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.apps.workspace.links.link_figures import ShownPeriod, rate
from tonne.channels.checkout.links.model import OffsetLink
from tonne.platform.values.context import Mode
from tonne.platform.web import visitor
from tonne.selling.users.model import Role

ADD = """
INSERT INTO offset_link_deltas (organisation_id, mode, account_id, offset_link_id, day, opened, begun, paid, paid_grams,
                                paid_minor)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
"""


async def add(services: Services, link: OffsetLink, day: date, *counts: int) -> None:
    scope = link.scope
    async with services.database.transaction() as tx:
        await tx.execute(ADD, scope.organisation_id, scope.mode, scope.account_id, link.id, day, *counts)


async def test_the_pages_show_what_was_counted_to_everyone_of_the_organisation(
    services: Services, world: World, person: MakePerson, clock: ManualClock
) -> None:
    scope, today = world.ours_test.scope, clock().date()
    base = f"/dashboard/test/{scope.organisation_id}"
    for address, organisation, role in (
        ("vi@ours.test", scope.organisation_id, Role.READ_ONLY),
        ("eve@theirs.test", world.theirs_test.scope.organisation_id, Role.OWNER),
    ):
        await add_user(services, address, organisation, role)
    viewer, stranger = person(), person()
    await viewer.sign_in("vi@ours.test")
    await stranger.sign_in("eve@theirs.test")
    assert "Visits and payments" not in (await viewer.get(f"{base}/links")).text, "there are no links"
    link = await make_link(services, scope, title="=Flights", created_at=clock())
    other = await make_link(services, scope, created_at=clock())
    live = await make_link(services, world.ours_live.scope, created_at=clock())
    path = f"{base}/accounts/{scope.account_id}/links/{link.id}"
    assert "Nobody has opened this link in these 30 days." in (await viewer.get(path)).text
    await add(services, link, today, 1000, 250, 97, 97_500_000, 123_456)
    await add(services, link, ShownPeriod.MONTHS.first_day(today), 7, 3, 1, 1_000_000, 1_000)
    await add(services, other, today, 5, 0, 0, 0, 0)
    await add(services, live, today, 31_415, 0, 0, 0, 0)
    page = (await viewer.get(path)).text
    for shown in (">1,000<", ">250<", "25% of those opened", ">97<", "9.7% of those opened", "€1,234.56", "97.5"):
        assert shown in page, shown
    assert page.count("<tr><td>") == 30
    year = (await viewer.get(f"{path}?period=12m")).text
    assert (year.count("<tr><td>"), ">1,007<" in year, ">98<" in year) == (12, True, True)
    both = (await viewer.get(f"{base}/links?account={scope.account_id}")).text
    assert ">1,005<" in both
    assert 'data-label="Opened" class="num">5<' in both
    assert "31,415" not in both, "test and live links are separate"
    answer = await viewer.get(f"{base}/links/days.csv?account={scope.account_id}&period=12m")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert (rows[0]["offset_link_id"], rows[0]["opened"]) == (link.id, "7")
    assert {row["title"] for row in rows} == {"'=Flights", other.title}, "no formula"
    [row] = csv.DictReader(io.StringIO((await viewer.get(f"{path}/days.csv")).text))
    assert (row["day"], row["paid"], row["currency"]) == (today.isoformat(), "97", "EUR")
    assert (Decimal(row["quantity_tonnes"]), row["amount_paid"]) == (Decimal("97.5"), "1234.56")
    for address in (f"{path}/days.csv", f"{base}/links/days.csv?account={scope.account_id}"):
        assert (await stranger.get(address)).status_code == 404
    theirs = world.theirs_test.scope.account_id
    for address in (f"{base}/links/days.csv?account={theirs}", path.replace(link.id, live.id) + "/days.csv"):
        assert (await viewer.get(address)).status_code == 404
    assert live.scope.mode is Mode.LIVE


@pytest.mark.parametrize(
    ("part", "whole", "shown"),
    [(0, 0, None), (2, 1, None), (0, 9, "0%"), (1, 3000, "0%"), (97, 1000, "9.7%"), (1, 3, "33%"), (3, 3, "100%")],
)
def test_rates(part: int, whole: int, shown: str | None) -> None:
    assert rate(part, whole, visitor.DEFAULT) == shown


def test_periods_begin_with_a_whole_day_or_month() -> None:
    today = datetime(2027, 1, 5, tzinfo=UTC).date()
    assert (ShownPeriod.DAYS.first_day(today), ShownPeriod.MONTHS.first_day(today)) == (
        date(2026, 12, 7),
        date(2026, 2, 1),
    )
