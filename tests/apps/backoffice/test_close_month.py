"""A closed month does not change: what is found later is booked in the open month, and the files keep their bytes."""

import hashlib
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import msgspec
import pytest

from tests.apps.backoffice.test_money import confirm
from tests.architecture.source import ROOT
from tests.money.invoices.bank import Line, camt_file
from tests.money.invoices.billing import ADA, Billing
from tests.money.invoices.test_transfers import import_file
from tests.support.clock import ManualClock
from tests.support.people import Person, approver, operator
from tests.support.world import ADDRESS, SELLER, TESTER, World, add_account
from tonne.apps.cli.operations.doctor import broken_checks
from tonne.apps.wiring.app import Services
from tonne.money.accounting.books.chart import Office, import_chart
from tonne.money.accounting.books.check_month import check_month
from tonne.money.accounting.books.close_month import (
    DIGESTS,
    WriteDigests,
    approve_reopening,
    close_month,
    request_reopening,
)
from tonne.money.accounting.books.errors import MonthNotClosable, MonthNotReopenable
from tonne.money.accounting.books.files import FILES
from tonne.money.accounting.books.month_store import ClosedMonth, find_closed
from tonne.money.accounting.journal.model import JournalEntry
from tonne.money.accounting.journal.read_journal import month_period, read_entries_any_account
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import TaxTreatment
from tonne.platform.values.context import Actor, ActorKind, Mode, Scope
from tonne.selling.accounts.tax.tax_profile import set_tax_profile
from tonne.selling.catalogue.prices.reference_rates import ReferenceRate, save_reference_rates
from tonne.selling.users.errors import SecondPersonNeeded

OCTOBER, NOVEMBER, DECEMBER = date(2026, 10, 1), date(2026, 11, 1), date(2025, 12, 1)
# As of a consumer in France.
SOLD_IN_FRANCE = """
UPDATE tax_documents SET tax_lines = replace(tax_lines::text, 'DE-S-19', 'FR-S-20-OSS')::jsonb,
       record = convert_to(replace(convert_from(record, 'UTF8'), 'DE-S-19', 'FR-S-20-OSS'), 'UTF8')
WHERE currency = 'USD'
"""
# As if a card had paid it.
CAPTURED = """
INSERT INTO charges (id, account_id, order_id, organisation_id, mode, amount_minor, currency, gateway, source, attempt,
                     status, created_at, settled_at, captured_minor, reference)
SELECT 'chg_x', account_id, id, organisation_id, mode, 1660, currency, 'simulated', 'none', 1, 'captured',
       '2026-10-06', '2026-10-06', 1660, 'ref_x'
FROM orders WHERE id = '{order_id}'
"""
PAGE = "/operator/live/month-end/2026-10"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, **SELLER, seller_country="DE", seller_vat_id="DE136695976")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime(2026, 10, 5, 12, tzinfo=UTC))


class Books(Billing):
    async def begin(self, ours: Scope) -> None:
        """With exchange rates, tax and a chart of accounts."""
        await self.renew_rates()
        async with self.database.transaction() as tx:
            profile = {"treatment": TaxTreatment.STANDARD, "rate": Decimal("0.19"), **ADDRESS}
            await set_tax_profile(tx, ours.organisation_id, profile, by=TESTER.at(self.clock()))
            chart = SheetFile("chart.csv", (ROOT / "docs" / "charts" / "skr03.csv").read_bytes())
            await import_chart(tx, chart, Office(1001, 7), by=TESTER.at(self.clock()))

    async def close(self, month: date = OCTOBER) -> ClosedMonth:
        async with self.database.transaction() as tx:
            closed = await close_month(tx, Mode.LIVE, month, settings=self.settings, by=TESTER.at(self.clock.now))
        await self.run_jobs(WriteDigests(self.database, self.clock))
        return closed

    async def files(self, month: date = OCTOBER) -> dict[str, str]:
        async with self.database.snapshot() as tx:
            period = month_period(Mode.LIVE, month)
            return {name: "".join([text async for text in file.write(tx, period)]) for name, file in FILES.items()}

    async def entries(self, month: date) -> list[JournalEntry]:
        await self.post_entries()
        async with self.database.snapshot() as tx:
            return [each async for each in read_entries_any_account(tx, month_period(Mode.LIVE, month))]


async def sell_in_october(services: Services, world: World, clock: ManualClock) -> Books:
    """In October two invoices with tax, of which one is paid. It is now the second of November."""
    books, ours = Books(services, clock), world.ours_live.scope
    await books.begin(ours)
    await books.add_admins(ours.organisation_id, ADA)
    for _ in range(2):
        await books.place_order(ours)
    await books.work()
    await import_file(books, camt_file([Line(date(2026, 10, 7), 1660, "TN-LIVE-000001", reference="B1")]))
    clock.now = datetime(2026, 11, 2, 9, tzinfo=UTC)
    return books


@pytest.fixture
async def books(services: Services, world: World, clock: ManualClock) -> Books:
    return await sell_in_october(services, world, clock)


async def test_what_is_found_later_is_booked_in_the_open_month(books: Books) -> None:
    await books.close()
    before = await books.files()
    await import_file(books, camt_file([Line(date(2026, 10, 30), 1660, "TN-LIVE-000002", reference="B2")]))
    await books.check_invariants()
    late = {each.kind: each for each in await books.entries(NOVEMBER)}
    assert (late["received"].booked_on, late["received"].happened_on) == (NOVEMBER, date(2026, 10, 30))
    assert (late["assigned"].booked_on, late["assigned"].happened_on) == (date(2026, 11, 2), None)
    assert await books.files() == before
    assert before["journal.csv"].count("received:") == 2, "two postings of one transfer"
    await books.check_invariants()


async def test_a_changed_record_adds_a_version_that_names_the_one_before(books: Books) -> None:
    await books.close()
    before = await books.files()
    await books.execute("UPDATE bank_transfers SET amount_minor = amount_minor + 5")
    [correction] = await books.entries(NOVEMBER)
    assert (correction.version, correction.corrects) == (2, f"received:{correction.source_id}")
    assert correction.booked_on == NOVEMBER
    assert sorted(posting.amount_minor for posting in correction.postings) == [-5, 5]
    assert await books.files() == before
    await books.post_entries()
    assert await books.entries(NOVEMBER) == [correction], "nothing is booked twice"


async def test_a_month_is_closed_only_when_nothing_is_missing(books: Books) -> None:
    with pytest.raises(MonthNotClosable, match="one hour after its end"):
        await books.close(NOVEMBER)
    with pytest.raises(MonthNotClosable, match="Close 2026-10 first"):
        await books.close(NOVEMBER)
    await books.tamper("UPDATE tax_documents SET tax_minor = tax_minor - 1 WHERE number = 1")
    await books.post_entries()
    await books.tamper("UPDATE tax_documents SET tax_minor = tax_minor + 1 WHERE number = 1")
    with pytest.raises(
        MonthNotClosable, match=r"without a code of the documents is 0\.00 EUR, that of the journal -0\.01"
    ):
        await books.close()


async def test_a_month_is_not_closed_while_a_document_or_an_entry_is_missing(books: Books) -> None:
    async with books.database.connection() as connection:
        check = await check_month(connection, month_period(Mode.LIVE, OCTOBER), books.clock())
    assert "changes are not booked yet: a worker books them within seconds." in check.refusals[-1]
    await books.post_entries()
    order_id = await books.fetchval("SELECT id FROM orders WHERE status = 'paid'")
    unbilled = f"DELETE FROM invoice_orders WHERE order_id = '{order_id}'"  # noqa: S608 - our own id
    await books.tamper(CAPTURED.format(order_id=order_id), unbilled)
    with pytest.raises(MonthNotClosable, match=f"Paid orders have no document yet: {order_id}"):
        await books.close()


async def test_a_closed_month_has_its_balances_and_number_ranges(books: Books) -> None:
    closed = await books.close()
    assert [(each.first, each.last, each.count) for each in closed.number_ranges] == [
        ("TN-LIVE-000001", "TN-LIVE-000002", 2)
    ]
    balances = msgspec.json.decode(await books.fetchval("SELECT balances FROM closed_months"))
    assert {each["account"]: each["debit_minor"] - each["credit_minor"] for each in balances}["Assets:Bank"] == 1660
    with pytest.raises(MonthNotClosable, match="is closed already"):
        await books.close()
    await books.tamper("UPDATE tax_documents SET reference = 'X' || reference WHERE number = 2")
    async with books.database.snapshot() as tx:
        assert DIGESTS in await broken_checks(tx, books.settings)


async def test_an_exchange_rate_that_is_imported_late_does_not_change_a_closed_quarter(
    services: Services, world: World, clock: ManualClock
) -> None:
    clock.now = datetime(2025, 12, 15, 12, tzinfo=UTC)
    books, ours, by = Books(services, clock), world.ours_live.scope, TESTER.at(clock.now)
    await books.begin(ours)
    async with books.database.transaction() as tx:
        abroad = await add_account(tx, ours.organisation_id, Mode.LIVE, currency="USD")
        await save_reference_rates(tx, [ReferenceRate("USD", date(2025, 12, 15), Decimal("1.25"), "ECB")], by=by)
    await books.place_order(abroad)
    await books.work()
    await books.tamper(SOLD_IN_FRANCE)
    await books.post_entries()
    clock.now = datetime(2026, 1, 4, 12, tzinfo=UTC)
    with pytest.raises(MonthNotClosable, match="no exchange rate of the last days of the month for USD"):
        await books.close(DECEMBER)
    async with books.database.transaction() as tx:
        await save_reference_rates(tx, [ReferenceRate("USD", date(2025, 12, 30), Decimal("1.25"), "ECB")], by=by)
    assert "2025-12-30" in (await books.files(DECEMBER))["oss.csv"], "an open month has the newest rate"
    closed = await books.close(DECEMBER)
    before = await books.files(DECEMBER)
    async with books.database.transaction() as tx:
        newer = [ReferenceRate("USD", date(2025, 12, day), Decimal(2), "ECB") for day in (30, 31)]
        await save_reference_rates(tx, newer, by=by)
    assert await books.files(DECEMBER) == before
    assert ("FR,19,USD," in before["oss.csv"], closed.name) == (True, "2025-12")
    await books.check_invariants()
    async with books.database.snapshot() as tx:
        assert DIGESTS not in await broken_checks(tx, books.settings)


async def test_the_last_closed_month_is_reopened_by_two_people(books: Books) -> None:
    await books.close()
    books.clock.now += timedelta(days=31)
    await books.close(NOVEMBER)
    by = Actor(ActorKind.CLI, "ann@host").at(books.clock.now)
    second = await approver(books.database, "second")
    for month, words in ((OCTOBER, "That is 2026-11"), (NOVEMBER, "Nobody has asked")):
        with pytest.raises(MonthNotReopenable, match=words):
            async with books.database.transaction() as tx:
                await approve_reopening(tx, Mode.LIVE, month, approver=second, now=by.at)
    async with books.database.transaction() as tx:
        await request_reopening(tx, Mode.LIVE, NOVEMBER, "A mistake", by=by)
        # A command line without a login needs two others.
        assert not await approve_reopening(tx, Mode.LIVE, NOVEMBER, approver=second, now=by.at)
        assert await find_closed(tx, Mode.LIVE, NOVEMBER) is not None
    with pytest.raises(SecondPersonNeeded):
        async with books.database.transaction() as tx:
            await approve_reopening(tx, Mode.LIVE, NOVEMBER, approver=second, now=by.at)
    third = await approver(books.database, "third")
    async with books.database.transaction() as tx:
        assert await approve_reopening(tx, Mode.LIVE, NOVEMBER, approver=third, now=by.at)
        assert await find_closed(tx, Mode.LIVE, NOVEMBER) is None
    await books.close(NOVEMBER)


async def test_an_accountant_closes_october_and_gets_the_same_files_again(
    books: Books, person: Callable[[], Person]
) -> None:
    olga, omar = person(), person()
    await operator(books.services, olga)
    await operator(books.services, omar, "omar@tonne.test", "Omar Diaz")
    await books.post_entries()
    page = (await olga.get(PAGE)).text
    assert ("Close the month" in page, page.count("€5.30") >= 2) == (True, True), "by the documents, and by the journal"
    assert "Nothing is booked in October 2026 any more." in await confirm(olga, f"{PAGE}/close")
    await books.run_jobs(WriteDigests(books.database, books.clock))
    page = (await olga.get(PAGE)).text
    for part in ("TN-LIVE-000001 to TN-LIVE-000002", "SHA-256", "Closed on", "Liabilities:Tax:DE-S-19"):
        assert part in page, part
    handed = {name: (await olga.get(f"{PAGE}/files/{name}")).content for name in FILES}
    await import_file(books, camt_file([Line(date(2026, 10, 30), 1660, "TN-LIVE-000002", reference="B2")]))
    await books.post_entries()
    assert {name: (await olga.get(f"{PAGE}/files/{name}")).content for name in FILES} == handed
    for name, content in handed.items():
        assert hashlib.sha256(content).hexdigest()[:16] in page, name
    await confirm(olga, f"{PAGE}/reopen", reason="A wrong rate")
    refused = await olga.submit(f"{PAGE}/approve")
    assert (refused.status_code, "another person must approve it" in refused.text) == (422, True)
    await confirm(omar, f"{PAGE}/approve")
    assert await books.fetchval("SELECT action FROM audit_log ORDER BY id DESC LIMIT 1") == "month.reopened"
    assert "Close the month" in (await olga.get(PAGE)).text
