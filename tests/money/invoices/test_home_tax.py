"""Tax of documents in a foreign currency, stated in the national one."""

import io
import zipfile
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from tests.money.invoices.billing import Billing, pdf_text
from tests.money.invoices.documents import document, line
from tests.money.invoices.factur_x_rules import broken_rules
from tests.money.invoices.test_taxed_invoices import GERMAN_SELLER, give_profile, with_settings
from tests.support.command import Operator
from tests.support.world import ADDRESS, TESTER, World, add_account
from tonne.money.invoices.credit_notes.credit_note import CreditCause, CreditNote
from tonne.money.invoices.credit_notes.issue_credit_note import credit_order
from tonne.money.invoices.documents.electronic_credit_note import electronic_credit_note
from tonne.money.invoices.documents.factur_x import factur_x_xml
from tonne.money.invoices.documents.home_tax import with_home_tax
from tonne.money.invoices.documents.pdf import credit_note_pdf, invoice_pdf
from tonne.money.invoices.issuing.issue_invoices import HELD_BACK_RETRY
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import TaxTreatment
from tonne.platform.values.context import Mode, replace
from tonne.selling.catalogue.imports.ecb_rates import EcbFileInvalid, read_ecb_rates
from tonne.selling.catalogue.prices.reference_rates import HomeRate, home_currency_of
from tonne.selling.orders.model import HoldReason, Order
from tonne.selling.orders.queue import lock_orders

DAY = date(2026, 2, 27)
DAILY = b"Date, USD, JPY, BGN, CZK, HUF, \n27 February 2026, 1.0548, 162.46, 1.9558, 25.3, 397.15, \n"
HISTORY = (
    b"Date,USD,JPY,CYP,CZK,HUF,\n2026-02-27,1.0548,162.46,N/A,25.3,397.15,\n2026-02-26,1.05,162,N/A,25.2,397,\n"
    b"1999-01-04,1.1789,133.73,0.58231,35.107,251.48,\n"
)


def packed(content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("eurofxref.csv", content)
    return file.getvalue()


def test_the_files_of_the_bank_are_read_as_they_are() -> None:
    daily = {each.currency: each for each in read_ecb_rates(packed(DAILY))}
    assert daily["USD"].rate == Decimal("1.0548")
    assert (daily["USD"].day, daily["USD"].source) == (DAY, "ECB")
    found = read_ecb_rates(HISTORY, since=date(2026, 1, 1))
    assert [each.currency for each in found if each.day == DAY] == ["USD", "JPY", "CZK", "HUF"]
    assert len(found) == 8
    assert any(each.currency == "USD" and each.day.year == 1999 for each in read_ecb_rates(HISTORY))
    for wrong in (
        b"",
        b"a,b\n1,2\n",
        b"Date,USD\n",
        b"Date,USD\nyesterday,1\n",
        b"Date,USD\n2026-02-27,-1\n",
        b"PK\3\4",
    ):
        with pytest.raises(EcbFileInvalid):
            read_ecb_rates(wrong)


def test_amounts_are_converted_exactly_and_rounded_once() -> None:
    def rate(base: str, quote: str, number: str) -> HomeRate:
        return HomeRate(base, quote, Decimal(number), "ECB", DAY)

    assert rate("EUR", "USD", "1.0548").convert(10548, "USD") == 10000
    assert rate("EUR", "USD", "1.0548").convert(-10548, "USD") == -10000
    assert rate("EUR", "JPY", "160").convert(16, "JPY") == 10
    assert rate("EUR", "HUF", "400").convert(150, "EUR") == 60000, "from the euro to the forint"
    assert rate("USD", "CZK", "24").convert(1, "USD") == 24
    assert rate("EUR", "USD", "2").convert(1, "USD") == 1, "half up"


def test_the_national_currency_follows_the_country(settings: Settings) -> None:
    found = {
        country: home_currency_of(replace(settings, seller_country=country)) for country in ("DE", "SE", "BG", "US", "")
    }
    assert found == {"DE": "EUR", "SE": "SEK", "BG": "EUR", "US": None, "": None}
    assert home_currency_of(replace(settings, seller_country="US", home_currency="USD")) == "USD"


@pytest.mark.parametrize("treatment", ["standard", "reverse_charge"])
def test_the_xml_has_the_tax_in_the_national_currency(treatment: str) -> None:
    rate = "19" if treatment == "standard" else None
    record = document(line(treatment, rate), currency="USD")  # type: ignore[arg-type]
    stated = with_home_tax(record, HomeRate("EUR", "USD", Decimal("1.0548"), "ECB", DAY))
    xml = factur_x_xml(stated)
    assert broken_rules(xml) == []
    assert b"<ram:TaxCurrencyCode>EUR</ram:TaxCurrencyCode>" in xml
    total = "1436.85" if rate else "0.00"
    assert f'<ram:TaxTotalAmount currencyID="EUR">{total}</ram:TaxTotalAmount>'.encode() in xml


async def buy_in_dollars(billing: Billing, world: World) -> Order:
    await give_profile(billing, world, treatment=TaxTreatment.STANDARD, rate=Decimal("0.19"), **ADDRESS)
    with_settings(billing, **GERMAN_SELLER)
    await billing.renew_rates()
    async with billing.database.transaction() as tx:
        scope = await add_account(tx, world.ours_live.scope.organisation_id, Mode.LIVE, currency="USD")
    order = await billing.place_order(scope)
    await billing.work()
    return order


async def credit(billing: Billing, order: Order, amount_minor: int) -> CreditNote:
    async with billing.database.transaction() as tx:
        [locked] = (await lock_orders(tx, [order.key])).values()
        by = TESTER.at(billing.clock.now)
        note = await credit_order(tx, locked, amount_minor, cause=CreditCause.CORRECTION, reason="Agreed", by=by)
    assert note is not None
    return note


async def test_an_invoice_in_dollars_waits_for_the_rate_and_its_credit_note_uses_it(
    billing: Billing, world: World, operator: Operator, tmp_path: Path
) -> None:
    order = await buy_in_dollars(billing, world)
    reason = "SELECT hold_reason FROM orders WHERE id = $1"
    assert await billing.fetchval(reason, order.id) == HoldReason.EXCHANGE_RATE_MISSING
    file = tmp_path / "eurofxref.zip"
    # On 1 March, a Sunday, the rate of Friday applies; one of nine days before does not.
    file.write_bytes(packed(DAILY.replace(b"27 February", b"20 February")))
    operator.does("rates", "import-ecb", str(file))
    billing.clock.now += HELD_BACK_RETRY
    await billing.work()
    assert await billing.fetchval(reason, order.id) == HoldReason.EXCHANGE_RATE_MISSING
    file.write_bytes(packed(DAILY))
    assert "4 new rates" in operator.does("rates", "import-ecb", str(file))
    assert "0 new rates" in operator.does("rates", "import-ecb", str(file))
    billing.clock.now += HELD_BACK_RETRY
    await billing.work()

    record = (await billing.invoice(order)).read_record()
    [tax], home = record.taxes, record.home
    assert home is not None
    assert (home.currency, home.rate, home.source, home.on) == ("EUR", "1.0548", "ECB", "2026-02-27")
    exact = Decimal(tax.tax) / Decimal("1.0548")
    assert abs(Decimal(home.tax) - exact) <= Decimal("0.005")
    assert home.tax == tax.home_tax
    assert "Tax in EUR, at 1 EUR = 1.0548 USD (ECB, 27 February 2026)" in " ".join(
        pdf_text(invoice_pdf(record)).split()
    )

    # Later rates change nothing.
    operator.does("rates", "set", "USD", "2", "--day", "2026-02-27", "--source", "Ministry")
    note = (await credit(billing, order, 1000)).read_record()
    assert note.home is not None
    [tax] = note.taxes
    assert (note.home.rate, note.home.on) == ("1.0548", "2026-02-27")
    assert abs(Decimal(note.home.tax) - Decimal(tax.tax) / Decimal("1.0548")) <= Decimal("0.005")
    assert "1 EUR = 1.0548 USD" in " ".join(pdf_text(credit_note_pdf(note)).split())
    assert broken_rules(factur_x_xml(electronic_credit_note(note))) == []
    await billing.check_invariants()


async def test_documents_in_the_national_currency_ask_for_no_rate(billing: Billing, world: World) -> None:
    await give_profile(billing, world, treatment=TaxTreatment.STANDARD, rate=Decimal("0.19"), **ADDRESS)
    with_settings(billing, **GERMAN_SELLER)
    order = await billing.place_order(world.ours_live.scope)
    await billing.work()
    record = (await billing.invoice(order)).read_record()
    assert record.home is None
    assert record.taxes[0].home_tax is None
