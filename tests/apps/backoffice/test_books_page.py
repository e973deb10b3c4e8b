"""Settings, Books: what month end needs, without a shell, and settings that two people change together."""

from collections.abc import Callable
from datetime import UTC, datetime

import msgspec
import pytest

from tests.apps.backoffice.test_money import confirm
from tests.architecture.source import ROOT
from tests.money.invoices.billing import ADA, Billing
from tests.money.invoices.test_home_tax import DAILY, packed
from tests.support.clock import ManualClock
from tests.support.people import TOKEN, Person, operator
from tests.support.world import SELLER, World
from tonne.apps.wiring.app import Services
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import replace
from tonne.selling.users.guarded_settings import NoteSettings, approved_settings

PAGE = "/operator/live/books"
MakePerson = Callable[[], Person]
OLD, NEW = SELLER["bank_iban"], "FR14 2004 1010 0505 0001 3M02 606"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, **SELLER, seller_country="DE", refund_approval_above="EUR 100")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime(2026, 11, 2, 9, tzinfo=UTC))


@pytest.fixture
async def books(services: Services, world: World, clock: ManualClock) -> Billing:
    books = Billing(services, clock)
    await books.renew_rates()
    await books.add_admins(world.ours_live.scope.organisation_id, ADA)
    return books


async def upload(person: Person, path: str, field: str, content: bytes, **fields: str) -> str:
    """The page with faults, or the address after the import."""
    token = TOKEN.search((await person.get(PAGE)).text)
    assert token is not None
    files = {field: ("file.csv", content, "text/csv")}
    answer = await person.http.post(f"{PAGE}/{path}", data={"form_token": token[1], **fields}, files=files)
    return answer.headers.get("location") or answer.text


async def test_what_month_end_needs_is_imported_in_the_browser(
    books: Billing, world: World, person: MakePerson
) -> None:
    olga = person()
    await operator(books.services, olga)
    page = (await olga.get(PAGE)).text
    for words in ("so no file for DATEV", "Last imported on September 29, 2026", "There are none.", "None yet"):
        assert words in page, words
    chart = (ROOT / "docs" / "charts" / "skr03.csv").read_bytes()
    office = {"consultant": "1001", "client": "7", "year_begins": "1"}
    assert "Enter a number from 1 to 12." in await upload(
        olga, "chart", "chart", chart, **office | {"year_begins": "13"}
    )
    assert "is no account of the journal" in await upload(
        olga, "chart", "chart", chart.replace(b"Assets:Bank", b"Bank"), **office
    )
    assert (await upload(olga, "chart", "chart", chart, **office)).endswith("?done=chart_imported")
    assert "ISO 3166" in await upload(
        olga, "tax-rates", "rates", b"country,rate,valid_from,source\nXX,1,2026-01-01,us\n"
    )
    rates = b"country,rate,valid_from,source\nFR,21,2027-01-01,Loi de finances\n"
    assert (await upload(olga, "tax-rates", "rates", rates)).endswith("?done=rates_imported")
    assert "no file of the European Central Bank" in await upload(olga, "exchange-rates", "ecb", b"a,b\n1,2\n")
    daily = packed(DAILY.replace(b"27 February", b"30 October"))
    assert (await upload(olga, "exchange-rates", "ecb", daily)).endswith("?done=ecb_imported")
    await books.place_order(world.ours_live.scope)
    await books.work()
    page = (await olga.get(PAGE)).text
    for words in (
        "23 accounts",
        "Loi de finances",
        "The newest are of October 30, 2026",
        "TN-LIVE-000001",
        "Olga Berg",
    ):
        assert words in page, words


async def test_two_people_change_the_bank_account_and_a_limit(
    books: Billing, world: World, person: MakePerson, clock: ManualClock
) -> None:
    async def note(settings: Settings) -> None:
        await NoteSettings(books.database, clock, settings).run_once()

    async def ibans() -> list[str | None]:
        """Of the invoices of new orders, by a service with the new configuration."""
        books.issue = type(books.issue)(books.database, clock, changed)
        order = await books.place_order(world.ours_live.scope)
        await books.run_jobs(books.issue)
        async with books.database.connection() as connection:
            applies = await approved_settings(connection, changed)
        return [(await books.invoice(order)).read_record().bank.iban, applies.bank_iban]

    changed = replace(books.settings, bank_iban=NEW, refund_approval_above="", return_approval_above=5000)
    await note(books.settings)
    olga, omar = person(), person()
    await operator(books.services, olga)
    # One person who may approve changes it alone.
    await note(replace(books.settings, bank_accounts="USD=US-ACC-1"))
    assert "Waits" not in (await olga.get(PAGE)).text
    await note(books.settings)
    await operator(books.services, omar, "omar@tonne.test", "Omar Diaz")

    clock.advance(minutes=1)
    await note(changed)
    await note(changed)
    assert await ibans() == [OLD, OLD]
    async with books.database.connection() as connection:
        found = await approved_settings(connection, changed)
    assert (found.refund_approval_above, found.return_approval_above) == ("EUR 100", 1000)
    listed = (await omar.get("/operator/live/money/approvals")).text
    for words in ("Bank account of the service", "Limit of the service", OLD, NEW, "EUR 100", "Not set"):
        assert words in listed, words
    # Nobody knows who changed the configuration, so two users must approve.
    await confirm(olga, f"{PAGE}/settings/bank_iban/approve")
    again = await olga.submit(f"{PAGE}/settings/bank_iban/approve")
    assert (again.status_code, "another person must approve it" in again.text) == (422, True)
    assert await ibans() == [OLD, OLD]
    # Another account afterwards voids the approval.
    other = replace(changed, bank_iban="GB82 WEST 1234 5698 7654 32")
    await note(other)
    await note(changed)
    assert "applies from now on" in await confirm(omar, f"{PAGE}/settings/bank_iban/approve")
    assert await ibans() == [NEW, NEW]
    assert (await olga.submit(f"{PAGE}/settings/bank_iban/approve")).status_code == 422, "nothing waits"
    await note(books.settings)
    assert await ibans() == [NEW, NEW], "going back needs two, too"
    assert await books.breaches() == {}
    await books.execute("UPDATE guarded_settings SET value = '1' WHERE name = 'return_approval_above'")
    said = "return_approval_above is 1 instead of 1000"
    assert await books.breaches() == {"a guarded setting has the value that was noted or approved": [said]}
    await books.execute("UPDATE guarded_settings SET value = '1000' WHERE name = 'return_approval_above'")
    # One of the two disables the other, and still cannot change it alone for a week.
    await books.execute("UPDATE users SET disabled_at = $1 WHERE email = 'omar@tonne.test'", clock())
    await note(books.settings)
    clock.advance(days=6)
    await note(books.settings)
    assert await ibans() == [NEW, NEW]
    actions = await books.fetch("SELECT action FROM audit_log WHERE subject_id = 'bank_iban' ORDER BY id")
    assert [row["action"] for row in actions][-3:] == ["approval.given", "setting.changed", "setting.noted"]
    clock.advance(days=2)
    await note(books.settings)
    async with books.database.connection() as connection:
        assert (await approved_settings(connection, changed)).bank_iban == OLD
