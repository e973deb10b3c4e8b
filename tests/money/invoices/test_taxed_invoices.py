"""Invoices of taxed orders: amounts, notes, and what they wait for."""

from datetime import date
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from tests.money.invoices.billing import Billing, pdf_of
from tests.support.world import ADDRESS, TESTER, World
from tonne.apps.cli.operations.doctor import find_waiting
from tonne.money.invoices.documents.record import InvoicePeriod
from tonne.money.invoices.documents.seller_details import missing_settings
from tonne.money.invoices.issuing.issue_invoices import HELD_BACK_RETRY, IssueInvoices
from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import TaxTreatment
from tonne.selling.accounts.model import Billing as BillingMode
from tonne.selling.accounts.tax.tax_profile import set_tax_profile
from tonne.selling.accounts.tax.vat_checks import VatAnswer, VatOutcome, record_vat_check

CHECK = "live invoices are not held back by missing settings"
FRENCH_ID = "FR83404833048"
FRENCH = ADDRESS | {"treatment": TaxTreatment.REVERSE_CHARGE, "country": "FR", "tax_id": FRENCH_ID}
GERMAN_SELLER = {"seller_country": "DE", "seller_vat_id": "DE136695976"}


async def give_profile(billing: Billing, world: World, **changes: Any) -> None:
    async with billing.database.transaction() as tx:
        organisation_id = world.ours_live.scope.organisation_id
        await set_tax_profile(tx, organisation_id, changes, by=TESTER.at(billing.clock.now))


async def prove(billing: Billing, vat_id: str) -> None:
    """The register says that it is valid."""
    async with billing.database.transaction() as tx:
        await record_vat_check(tx, vat_id, None, VatAnswer(VatOutcome.VALID), by=TESTER.at(billing.clock.now))


def with_settings(billing: Billing, **changes: object) -> None:
    """As after a restart with other settings."""
    billing.settings = msgspec.structs.replace(billing.settings, **changes)
    billing.issue = IssueInvoices(billing.database, billing.clock, billing.settings)


async def test_an_invoice_asks_for_the_amount_due_and_shows_the_tax(billing: Billing, world: World) -> None:
    await give_profile(billing, world, treatment=TaxTreatment.STANDARD, rate=Decimal("0.19"), **ADDRESS)
    with_settings(billing, **GERMAN_SELLER)
    order = await billing.place_order(world.ours_live.scope)
    assert order.priced is not None
    await billing.work()
    invoice = await billing.invoice(order)
    record = invoice.read_record()
    assert invoice.total_minor == order.amount_due_minor
    assert invoice.total_minor == order.priced.total_cost_minor + (invoice.tax_minor or 0)
    [tax] = record.taxes
    assert (tax.code, tax.treatment, tax.rate, tax.note) == ("DE-S-19", "standard", "19", None)
    assert Decimal(tax.net) + Decimal(tax.tax) == Decimal(record.total)
    net = sum(Decimal(line.amount) for line in record.lines) + Decimal(record.fee.amount)
    assert net == Decimal(tax.net)
    assert {line.rate for line in record.lines} == {record.fee.rate} == {"19"}
    await billing.settle(order)
    await billing.check_invariants()


async def test_later_changes_do_not_affect_a_priced_order(billing: Billing, world: World) -> None:
    await give_profile(billing, world, treatment=TaxTreatment.STANDARD, rate=Decimal("0.19"), **ADDRESS)
    with_settings(billing, **GERMAN_SELLER)
    order = await billing.place_order(world.ours_live.scope)
    await give_profile(billing, world, treatment=TaxTreatment.STANDARD, rate=Decimal("0.25"))
    await billing.work()
    [tax] = (await billing.invoice(order)).read_record().taxes
    assert tax.rate == "19"
    await billing.check_invariants()


async def test_a_note_is_the_organisations_own_or_the_sellers(billing: Billing, world: World) -> None:
    with_settings(billing, **GERMAN_SELLER, seller_language="de")
    await give_profile(billing, world, **FRENCH)
    await prove(billing, FRENCH_ID)
    notes = []
    for note in (None, "Autoliquidation"):
        await give_profile(billing, world, legal_note=note)
        order = await billing.place_order(world.ours_live.scope)
        await billing.work()
        notes.append((await billing.invoice(order)).read_record().taxes[0].note)
    assert notes == ["Reverse charge / Steuerschuldnerschaft des Leistungsempfängers", "Autoliquidation"]
    assert "Autoliquidation" in pdf_of((await billing.mails())[-1])


async def test_without_tax_the_record_mentions_none(billing: Billing, world: World) -> None:
    order = await billing.place_order(world.ours_live.scope)
    await billing.work()
    record = (await billing.invoice(order)).read_record()
    assert record.taxes == []
    assert record.order_reference is None, "the key is Tonne's own"


async def test_a_taxed_live_invoice_waits_for_country_and_vat_number(
    billing: Billing, world: World, populated_db: Database
) -> None:
    untaxed = await billing.place_order(world.ours_live.scope)
    await give_profile(billing, world, **FRENCH)
    await prove(billing, FRENCH_ID)
    taxed = await billing.place_order(world.ours_live.scope)
    await billing.work()
    await billing.invoice(untaxed)
    assert await billing.fetchval("SELECT count(*) FROM invoices") == 1
    async with populated_db.connection() as connection:
        waiting = await find_waiting(connection, billing.settings, billing.clock.now)
    [place] = waiting[CHECK]
    assert taxed.id in place
    assert "TONNE_SELLER_COUNTRY, TONNE_SELLER_VAT_ID not set" in place
    with_settings(billing, **GERMAN_SELLER)
    billing.clock.now += HELD_BACK_RETRY
    await billing.work()
    assert (await billing.invoice(taxed)).read_record().seller.vat_id == "DE136695976"


@pytest.mark.parametrize(
    ("treatment", "changes", "missing"),
    [
        ("none", {}, []),
        ("standard", {}, ["TONNE_SELLER_COUNTRY", "TONNE_SELLER_VAT_ID"]),
        ("standard", {"seller_country": "DE", "seller_tax_id": "12/345/67890"}, []),
        ("reverse_charge", {"seller_country": "DE", "seller_tax_id": "12/345/67890"}, ["TONNE_SELLER_VAT_ID"]),
        ("reverse_charge", {"seller_country": "DE", "seller_tax_id": "DE 136 695 976"}, []),
        ("exempt", {"seller_country": "DE"}, ["TONNE_SELLER_VAT_ID"]),
        ("outside_scope", {"seller_country": "DE"}, []),
        ("none", {"seller_address": "", "seller_street": "Hafenstraße 12", "seller_city": "Hamburg"}, []),
    ],
)
def test_what_each_treatment_needs(
    settings: Settings, treatment: str, changes: dict[str, str], missing: list[str]
) -> None:
    assert missing_settings(msgspec.structs.replace(settings, **changes), TaxTreatment(treatment)) == missing


async def test_an_unpaid_invoice_states_no_day_of_supply(billing: Billing, world: World) -> None:
    await give_profile(billing, world, treatment=TaxTreatment.STANDARD, rate=Decimal("0.19"), **ADDRESS)
    with_settings(billing, **GERMAN_SELLER)
    order = await billing.place_order(world.ours_live.scope)
    await billing.work()
    record = (await billing.invoice(order)).read_record()
    assert (record.supplied_on, record.supply, record.paid_on) == (None, None, None)
    [mail] = await billing.mails()
    assert "Supply: on retirement. Its date is on the certificate." in " ".join(pdf_of(mail).split())


SUPPLIED = "UPDATE orders SET supplied_on = $2 WHERE id = $1"


@pytest.mark.parametrize(
    ("days", "stated"),
    [
        ((date(2026, 3, 9), date(2026, 3, 9)), ("2026-03-09", None)),
        ((date(2026, 3, 9), date(2026, 3, 28)), (None, InvoicePeriod("2026-03-09", "2026-03-28"))),
        ((date(2026, 3, 9), None), (None, None)),
    ],
)
async def test_a_monthly_invoice_states_the_days_on_which_its_orders_were_supplied(
    billing: Billing, world: World, days: tuple[date | None, ...], stated: tuple[str | None, InvoicePeriod | None]
) -> None:
    ours = world.ours_live.scope
    await billing.set_billing(ours, billing=BillingMode.MONTHLY)
    orders = [await billing.place_order(ours) for _ in days]
    await billing.issue.run_once()
    for order, day in zip(orders, days, strict=True):
        await billing.execute(SUPPLIED, order.id, day)
    billing.clock.turn_to(4, 1, 1)
    await billing.work()
    record = (await billing.invoice(orders[0])).read_record()
    assert (record.supplied_on, record.supply) == stated
