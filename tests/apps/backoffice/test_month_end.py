"""Month end: what is open, the totals of the journal, and the files for the books."""

import csv
import io
import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal

import msgspec
import pytest
from beancount import loader

from tests.apps.backoffice.test_money import confirm, last_action
from tests.money.invoices.billing import ADA, Billing
from tests.support.clock import ManualClock
from tests.support.people import Person, operator
from tests.support.world import ADDRESS, SELLER, TESTER, World
from tonne.apps.wiring.app import Services
from tonne.money.accounting.matching.import_statement import import_statement
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import TaxTreatment
from tonne.platform.values.context import Mode
from tonne.selling.accounts.tax.tax_profile import set_tax_profile

PAGE = "/operator/live/month-end/2026-11"
STATEMENT = """booked_on,amount,currency,payer,reference
2026-11-03,16.60,EUR,Ours,TN-LIVE-000001
2026-11-04,5.00,EUR,Somebody,Thank you
"""


@pytest.fixture
def settings(settings: Settings) -> Settings:
    tax = {"seller_country": "DE", "seller_vat_id": "DE136695976"}
    return msgspec.structs.replace(settings, **SELLER, **tax)


@pytest.fixture
async def books(services: Services, world: World, clock: ManualClock) -> Billing:
    """In November one invoice is paid, one is cancelled, one is open, and an unknown transfer arrives."""
    books, ours = Billing(services, clock), world.ours_live.scope
    await books.renew_rates()
    await books.add_admins(ours.organisation_id, ADA)
    async with books.database.transaction() as tx:
        profile = {"treatment": TaxTreatment.STANDARD, "rate": Decimal("0.19"), **ADDRESS}
        await set_tax_profile(tx, ours.organisation_id, profile, by=TESTER.at(clock()))
    orders = [await books.place_order(ours) for _ in range(3)]
    await books.work()
    async with books.database.transaction() as tx:
        file = SheetFile("november.csv", STATEMENT.encode())
        await import_statement(tx, Mode.LIVE, file, settings=books.settings, by=TESTER.at(clock()))
    await books.cancel(orders[1], "Ordered twice")
    await books.set_billing(ours, billing="monthly")
    await books.place_order(ours)
    await books.work()
    await books.post_entries()
    return books


@pytest.fixture
async def olga(books: Billing, person: Callable[[], Person]) -> Person:
    olga = person()
    await operator(books.services, olga)
    return olga


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


async def test_what_is_open_is_said_in_words(olga: Person, books: Billing) -> None:
    assert (await olga.get("/operator/live/month-end")).headers["location"] == "/operator/live/month-end/2026-10"
    page = (await olga.get(PAGE)).text
    for part in (
        "The month ends on November 30, 2026.",
        "Bank statements are imported up to November 4, 2026, not to the end of the month.",
        "1 transfer unmatched or overpaid",
        "€5.00",
        "1 order not yet on a consolidated invoice",
        "has not run yet",
    ):
        assert part in page, part
    assert "unmatched" not in (await olga.get(PAGE.replace("live", "test"))).text
    assert "unmatched" not in (await olga.get(PAGE.replace("11", "10"))).text
    # The selector shows the month of the title, also before the first booking.
    for month in ("2026-11", "2026-10"):
        shown = (await olga.get(f"/operator/live/month-end/{month}")).text
        [title] = re.findall("<h1>Month end: ([^<]+)</h1>", shown)
        assert f'<option value="{month}" selected>{title}</option>' in shown
    for month in ("2026-12", "2026-13", "soon"):
        assert (await olga.get(f"/operator/live/month-end/{month}")).status_code == 404, month
    await books.check_invariants()


async def test_the_totals_of_a_month_balance(olga: Person, books: Billing) -> None:
    page = (await olga.get(PAGE)).text
    for part in ("Assets:Bank", "€21.60", "Liabilities:Tax", "Balanced", "All changes are booked."):
        assert part in page, part
    await books.execute("UPDATE bank_transfers SET payer = 'Ours Ltd'")
    assert "2 changes wait to be booked" in (await olga.get(PAGE)).text


async def test_the_files_have_the_whole_month(olga: Person) -> None:
    journal = rows((await olga.get(f"{PAGE}/files/journal.csv")).text)
    debits, credits_ = (sum(float(row[side] or 0) for row in journal) for side in ("debit", "credit"))
    assert round(debits, 2) == round(credits_, 2) > 0
    text = (await olga.get(f"{PAGE}/files/journal.beancount")).text
    _, errors, _ = loader.load_string(text)
    assert errors == []
    balances = {row["account"]: row for row in rows((await olga.get(f"{PAGE}/files/balances.csv")).text)}
    assert balances["Assets:Bank"]["change"] == balances["Assets:Bank"]["balance"] == "21.60"
    *sales, total = rows((await olga.get(f"{PAGE}/files/sales.csv")).text)
    assert [(row["number"], row["net"], row["tax"], row["total"], row["rate_percent"]) for row in sales] == [
        ("TN-LIVE-000001", "13.95", "2.65", "16.60", "19"),
        ("TN-LIVE-000002", "13.95", "2.65", "16.60", "19"),
        ("TN-LIVE-000003", "13.95", "2.65", "16.60", "19"),
        ("CN-LIVE-000001", "-13.95", "-2.65", "-16.60", "19"),
    ]
    assert [row["corrects"] for row in sales] == ["", "", "", "TN-LIVE-000002"]
    sums = [total[name] for name in ("document", "tax_code", "currency", "net", "tax", "total", "booked_tax")]
    assert sums == ["total", "DE-S-19", "EUR", "27.90", "5.30", "33.20", "5.30"]
    assert {row["supplied_on"] for row in sales} == {""}, "nothing is retired yet"
    download = await olga.get(f"{PAGE}/files/sales.csv")
    assert download.headers["content-disposition"] == 'attachment; filename="live-2026-11-sales.csv"'
    assert rows((await olga.get(f"{PAGE.replace('live', 'test')}/files/sales.csv")).text) == []
    assert (await olga.get(f"{PAGE}/files/secrets.csv")).status_code == 404


async def test_a_payout_of_the_gateway_is_matched_with_its_transfer(olga: Person, books: Billing) -> None:
    await books.execute(
        "INSERT INTO gateway_payouts (id, mode, gateway, payout_id, paid_on, currency, amount_minor, fee_minor, "
        "imported_at, imported_by) VALUES ('gpo_1', 'live', 'stripe', 'po_1', $1, 'EUR', 500, 15, now(), 'operator')",
        date(2026, 11, 3),
    )
    transfer = await books.fetchval("SELECT id FROM bank_transfers WHERE amount_minor = 500")
    path = f"/operator/live/money/transfers/{transfer}"
    assert "po_1" in (await olga.get(path)).text
    assert (await olga.submit(f"{path}/payout", payout_id="gpo_2")).status_code == 422
    said = await confirm(olga, f"{path}/payout", payout_id="gpo_1")
    assert "The transfer is payout po_1 of the card gateway. It pays no invoice." in said
    assert await last_action(books) == ("payout.matched", "user:usr")
    await confirm(olga, f"{path}/reopen", reopen_note="Another payout")
    assert await last_action(books) == ("transfer.reopened", "user:usr")
    assert await books.fetchval("SELECT transfer_id FROM gateway_payouts") is None
