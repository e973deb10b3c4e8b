"""The books of a seller in the EU who is paid in dollars: each posting has its value in euros."""

import csv
import io
from collections.abc import Mapping
from datetime import date
from decimal import Decimal

import pytest

from tests.architecture.source import ROOT
from tests.stories.test_write_offs import Debts
from tests.support.clock import ManualClock
from tests.support.people import approver
from tests.support.world import ADDRESS, TESTER, World, add_account
from tonne.apps.wiring.app import Services
from tonne.money.accounting.books.chart import Office, import_chart
from tonne.money.accounting.books.close_month import WriteDigests, approve_reopening, close_month, request_reopening
from tonne.money.accounting.books.errors import MonthNotClosable
from tonne.money.accounting.books.files import FILES
from tonne.money.accounting.books.month_store import list_closed
from tonne.money.accounting.journal.model import LedgerAccount as To
from tonne.money.accounting.journal.read_journal import month_period, sum_turnover
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.values.amounts import TaxTreatment
from tonne.platform.values.context import Mode
from tonne.selling.accounts.tax.tax_profile import set_tax_profile
from tonne.selling.catalogue.prices.reference_rates import ReferenceRate, save_reference_rates

MONTH = date(2026, 3, 1)


@pytest.fixture
async def debts(services: Services, clock: ManualClock, world: World) -> Debts:
    debts, ours = Debts(services, clock), world.ours_live.scope.organisation_id
    await debts.renew_rates()
    async with debts.database.transaction() as tx:
        profile = {"treatment": TaxTreatment.STANDARD, "rate": Decimal("0.19"), **ADDRESS}
        await set_tax_profile(tx, ours, profile, by=TESTER.at(clock()))
        chart = SheetFile("chart.csv", (ROOT / "docs" / "charts" / "skr03.csv").read_bytes())
        await import_chart(tx, chart, Office(1001, 7), by=TESTER.at(clock()))
    await rate(debts, date(2026, 2, 27), "1.25")
    await rate(debts, date(2026, 3, 20), "1.1")
    return debts


async def rate(debts: Debts, day: date, number: str) -> None:
    async with debts.database.transaction() as tx:
        await save_reference_rates(tx, [ReferenceRate("USD", day, Decimal(number), "ECB")], by=TESTER.at(debts.clock()))


async def euros(debts: Debts) -> Mapping[str, int]:
    """What the accounts in dollars are worth. The doctor finds nothing."""
    await debts.post_entries()
    await debts.check_invariants()
    async with debts.database.connection() as connection:
        found = await sum_turnover(connection, month_period(Mode.LIVE, MONTH))
    assert {each.home_currency for each in found} == {"EUR"}
    assert sum(each.home_minor for each in found) == 0
    return {each.account_name: each.home_minor for each in found if each.home_minor}


async def close(debts: Debts) -> None:
    async with debts.database.transaction() as tx:
        await close_month(tx, Mode.LIVE, MONTH, settings=debts.settings, by=TESTER.at(debts.clock()))
    await debts.run_jobs(WriteDigests(debts.database, debts.clock))


async def test_dollars_are_worth_something_else_when_they_arrive_and_at_the_end_of_the_month(
    debts: Debts, world: World
) -> None:
    async with debts.database.transaction() as tx:
        scope = await add_account(tx, world.ours_live.scope.organisation_id, Mode.LIVE, currency="USD")
    order = await debts.place_order(scope)
    await debts.work()
    invoice = await debts.invoice(order)
    home = invoice.read_record().home
    total, tax = invoice.total_minor, invoice.tax_minor
    assert home is not None
    assert tax is not None
    before = await euros(debts)
    assert before["Liabilities:Tax:DE-S-19"] == -int(Decimal(home.tax) * 100)
    assert before[To.RECEIVABLES] == round(total / Decimal("1.25"))

    debts.clock.turn_to(3, 20, 12)
    await debts.book(f"2026-03-20,{total / 100:.2f},USD,Ada,{invoice.reference}")
    paid = await euros(debts)
    assert paid[To.BANK] == round(total / Decimal("1.1"))
    assert paid[To.RECEIVABLES] == before[To.RECEIVABLES] - paid[To.BANK], "nothing is owed in dollars"

    debts.clock.turn_to(4, 2, 9)
    with pytest.raises(MonthNotClosable, match="no exchange rate of the last days of the month for USD"):
        await close(debts)
    await rate(debts, date(2026, 3, 31), "1")
    await close(debts)
    closed = await euros(debts)
    net = total - tax
    assert closed == {
        "Liabilities:Tax:DE-S-19": before["Liabilities:Tax:DE-S-19"],
        To.BANK: total,
        To.DEFERRED: -net,
        To.CURRENCY_DIFFERENCES: -total + net - before["Liabilities:Tax:DE-S-19"],
    }
    async with debts.database.snapshot() as tx:
        files = {
            name: "".join([each async for each in FILES[name].write(tx, month_period(Mode.LIVE, MONTH))])
            for name in FILES
        }
    journal = list(csv.DictReader(io.StringIO(files["journal.csv"])))
    differences = [row for row in journal if row["account"] == To.CURRENCY_DIFFERENCES and row["kind"] == "revalued"]
    assert [(row["debit"], row["credit"], row["home_currency"]) for row in differences] == [("", "", "EUR")]
    assert sum(Decimal(row["home_amount"]) for row in journal) == 0
    rows = [line.split(";") for line in files["datev.csv"].splitlines()[2:]]
    assert {row[2] for row in rows} == {'"USD"', '"EUR"'}
    worth = {"S": Decimal(0), "H": Decimal(0)}
    for row in rows:
        worth[row[1].strip('"')] += Decimal((row[4] or row[0]).replace(",", "."))
    assert worth["S"] == worth["H"], "the transit account ends at zero in euros"

    # Closed again with another rate: another version, in the same month.
    await rate(debts, date(2026, 3, 31), "2")
    async with debts.database.transaction() as tx:
        await request_reopening(tx, Mode.LIVE, MONTH, "A wrong rate", by=TESTER.at(debts.clock()))
        second = await approver(debts.database, "second")
        assert await approve_reopening(tx, Mode.LIVE, MONTH, approver=second, now=debts.clock())
    await close(debts)
    assert (await euros(debts))[To.BANK] == round(total / Decimal(2))
    versions = await debts.fetch("SELECT version FROM ledger_entries WHERE kind = 'revalued' ORDER BY version")
    assert [row["version"] for row in versions] == [1, 2]
    async with debts.database.connection() as connection:
        assert len(await list_closed(connection, Mode.LIVE)) == 1
