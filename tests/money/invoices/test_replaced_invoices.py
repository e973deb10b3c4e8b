"""An invoice with a wrong reference or address: a credit note cancels it, another one replaces it, the money stays."""

from datetime import date
from typing import Any

import msgspec
import pytest

from tests.money.invoices.bank import Line, camt_file
from tests.money.invoices.billing import ADA, Billing, pdf_text, text_of
from tests.money.invoices.test_transfers import import_file
from tests.money.invoices.ubl_rules import broken_ubl_rules
from tests.support.world import ADDRESS, SELLER, TESTER, World
from tonne.money.accounting.books.post_entries import PostEntries
from tonne.money.accounting.reports.sales_list import SalesText, read_sales_any_account
from tonne.money.invoices.credit_notes.cancel_invoice import correct_invoice
from tonne.money.invoices.credit_notes.replace_invoice import (
    MAX_REPLACEMENTS,
    read_replacement,
    replace_invoice,
)
from tonne.money.invoices.documents.record import InvoiceRecord
from tonne.money.invoices.errors import InvoiceNotReplaced
from tonne.money.invoices.find_invoice import find_by_number_any_account
from tonne.money.invoices.model import Invoice
from tonne.money.invoices.originals.document_file import FileFormat
from tonne.money.invoices.settle_invoice import write_off_invoice
from tonne.money.invoices.tax_documents import TaxDocument
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode
from tonne.platform.values.einvoice import EInvoiceFormat
from tonne.platform.values.errors import Invalid
from tonne.selling.accounts.model import Billing as BillingMode
from tonne.selling.accounts.tax.tax_profile import set_tax_profile
from tonne.selling.orders.model import Order

DOCUMENTS = "SELECT reference, total_minor, tax_minor FROM tax_documents ORDER BY substr(id, 5)"
BALANCES = """
SELECT posting.account::text AS account, sum(posting.amount_minor)::bigint AS minor
FROM ledger_postings posting GROUP BY posting.account HAVING sum(posting.amount_minor) <> 0 ORDER BY 1
"""
SELLER_WITH_TAX: dict[str, Any] = {
    **SELLER,
    "seller_tax_id": "DE136695976",
    "seller_vat_id": "DE136695976",
    "seller_country": "DE",
    "seller_city": "Hamburg",
    "seller_postcode": "20095",
    "seller_street": "Kai 1",
    "seller_endpoint": "9930:DE136695976",
    "seller_contact_name": "Ada Berg",
    "seller_phone": "+49 40 1",
    "seller_email": "billing@offsets.test",
    "tax_treatment": "standard",
    "tax_rate": "19",
}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, **SELLER_WITH_TAX)


@pytest.fixture
async def billing(billing: Billing, world: World) -> Billing:
    await set_profile(billing, world, **ADDRESS, buyer_reference="PO 1")
    return billing


async def set_profile(billing: Billing, world: World, **changes: Any) -> None:
    async with billing.database.transaction() as tx:
        await set_tax_profile(tx, world.ours_live.scope.organisation_id, changes, by=TESTER.at(billing.clock()))


async def change(billing: Billing, invoice: Invoice, **stated: str) -> TaxDocument:
    """Replace it by what the organisation is now, except for what is given."""
    async with billing.database.transaction() as tx:
        found = await read_replacement(tx, invoice, billing.settings)
        return await replace_invoice(
            tx,
            invoice,
            msgspec.structs.replace(found.stated, **stated),
            settings=billing.settings,
            by=TESTER.at(billing.clock()),
        )


async def books_of(billing: Billing) -> dict[str, int]:
    """What is booked, once everything is, and the doctor finds nothing."""
    await billing.run_jobs(PostEntries(billing.database, billing.clock, billing.settings))
    await billing.check_invariants()
    return {row["account"]: row["minor"] for row in await billing.fetch(BALANCES)}


async def documents(billing: Billing) -> list[tuple[str, int, int | None]]:
    return [(row["reference"], row["total_minor"], row["tax_minor"]) for row in await billing.fetch(DOCUMENTS)]


def content(document: TaxDocument) -> InvoiceRecord:
    found = document.read_content()
    assert isinstance(found, InvoiceRecord)
    return found


async def billed(billing: Billing, world: World) -> tuple[Order, Invoice]:
    order = await billing.place_order(world.ours_live.scope)
    await billing.work()
    return order, await billing.invoice(order)


async def test_another_invoice_replaces_it_and_nothing_is_owed_twice(billing: Billing, world: World) -> None:
    order, invoice = await billed(billing, world)
    before = await books_of(billing)
    billing.clock.turn_to(3, 3)
    document = await change(billing, invoice, reference="PO 4711", street="Kai 2")
    total = invoice.total_minor
    assert await documents(billing) == [
        ("TN-LIVE-000001", total, invoice.tax_minor),
        ("CN-LIVE-000001", total, invoice.tax_minor),
        ("TN-LIVE-000002", total, invoice.tax_minor),
    ]
    old, new = content(invoice), content(document)
    assert (new.buyer.reference, new.buyer.address_lines[0]) == ("PO 4711", "Kai 2")
    assert new.replaces is not None
    assert (new.replaces.number, new.lines, new.taxes, new.total) == (old.number, old.lines, old.taxes, old.total)
    assert (new.due_on, new.due, new.tax_point) == (old.due_on, old.total, old.tax_point)
    now = await billing.invoice(order)
    assert (now.id, now.status, now.credited_minor, now.due_minor) == (invoice.id, "open", 0, total)
    assert (now.in_force.reference, now.in_force.id) == (document.reference, document.id)
    assert await books_of(billing) == before, "the credit note and the other invoice cancel each other"


async def test_a_mail_has_both_documents_and_everything_names_the_new_number(billing: Billing, world: World) -> None:
    order, invoice = await billed(billing, world)
    await change(billing, invoice, reference="PO 4711")
    await billing.work()
    mail = (await billing.mails())[-1]
    assert mail["Subject"] == "Invoice TN-LIVE-000002 replaces TN-LIVE-000001"
    assert mail["To"] == ADA
    assert "use the reference TN-LIVE-000002" in " ".join(text_of(mail).split())
    first, second = (pdf_text(part.get_content()) for part in mail.iter_attachments())
    assert "PO 4711" in first
    assert "REPLACES INVOICE TN-LIVE-000001" in " ".join(first.split()).upper()
    assert "Invoice TN-LIVE-000001 is replaced by invoice TN-LIVE-000002" in " ".join(second.split())
    billing.clock.turn_to(4, 5)
    await billing.work()
    reminder = (await billing.mails())[-1]
    assert "Reminder: invoice TN-LIVE-000002" in reminder["Subject"]
    assert "PO 4711" in pdf_text(next(iter(reminder.iter_attachments())).get_content())
    original = await billing.services.originals.pdf(await billing.invoice(order))
    assert "TN-LIVE-000002" in pdf_text(original.read())


@pytest.mark.parametrize("text", ["TN-LIVE-000001", "tn live 000002", "TN-LIVE-000001 TN-LIVE-000002"])
async def test_a_transfer_with_either_number_pays_it(billing: Billing, world: World, text: str) -> None:
    order, invoice = await billed(billing, world)
    await change(billing, invoice, reference="PO 4711")
    await import_file(billing, camt_file([Line(date(2026, 3, 2), invoice.total_minor, text)]))
    assert (await billing.invoice(order)).status == "paid"
    assert "Assets:Receivables" not in await books_of(billing)


async def test_two_invoices_of_one_transfer_may_be_named_by_any_number(billing: Billing, world: World) -> None:
    (one, first), (two, second) = await billed(billing, world), await billed(billing, world)
    await change(billing, first, reference="PO 4711")
    line = Line(date(2026, 3, 2), 2 * first.total_minor, "TN-LIVE-000003 TN-LIVE-000002")
    await import_file(billing, camt_file([line]))
    assert [(await billing.invoice(each)).status for each in (one, two)] == ["paid", "paid"]
    assert second.reference == "TN-LIVE-000002"


async def test_what_was_paid_counts_for_the_new_invoice(billing: Billing, world: World) -> None:
    order, invoice = await billed(billing, world)
    await import_file(billing, camt_file([Line(date(2026, 3, 2), 600, "TN-LIVE-000001", reference="B1")]))
    part = content(await change(billing, invoice, reference="PO 2"))
    assert (part.received, part.due) == ("6.00", f"{(invoice.total_minor - 600) / 100:.2f}")
    rest = Line(date(2026, 3, 3), invoice.total_minor - 600, "TN-LIVE-000002", reference="B2")
    await import_file(billing, camt_file([rest]))
    paid = await billing.invoice(order)
    assert (paid.status, paid.settled_minor) == ("paid", invoice.total_minor)
    whole = content(await change(billing, paid, reference="PO 3"))
    assert (whole.paid_on, whole.received, whole.due) == ("2026-03-01", None, "0.00")
    await billing.work()
    mail = (await billing.mails())[-1]
    assert "Nothing is due." in text_of(mail)
    assert "Assets:Receivables" not in await books_of(billing)


@pytest.mark.parametrize("chosen", EInvoiceFormat)
async def test_electronic_invoices_keep_all_rules(billing: Billing, world: World, chosen: EInvoiceFormat) -> None:
    order, invoice = await billed(billing, world)
    await set_profile(billing, world, einvoice=chosen, endpoint="0088:7300010000001")
    await import_file(billing, camt_file([Line(date(2026, 3, 2), 600, "TN-LIVE-000001", reference="B1")]))
    if chosen is EInvoiceFormat.XRECHNUNG:
        with pytest.raises(Invalid, match="needs the reference"):
            await change(billing, invoice, reference="")
    await change(billing, invoice, reference="04011000-1234512345-06")
    files = billing.services.originals
    ubl = await files.file(await billing.invoice(order), FileFormat.UBL)
    assert ubl is not None
    assert broken_ubl_rules(ubl.read()) == []
    assert b"TN-LIVE-000001" in ubl.read(), "the preceding invoice"
    assert b">6.00</cbc:PrepaidAmount>" in ubl.read()
    await change(billing, invoice, reference="PO 5")
    await books_of(billing)


async def test_a_part_that_was_credited_before_stays_credited(billing: Billing, world: World) -> None:
    order, invoice = await billed(billing, world)
    async with billing.database.transaction() as tx:
        await correct_invoice(tx, invoice, None, 500, reason="Agreed", by=TESTER.at(billing.clock()))
    before = await books_of(billing)
    document = await change(billing, invoice, reference="PO 4711")
    left = invoice.total_minor - 500
    assert document.total_minor == left
    record = content(document)
    assert [each.label for each in record.allowances] == ["Credited earlier"]
    assert "Credited earlier" in pdf_text((await billing.services.originals.pdf(document)).read())
    now = await billing.invoice(order)
    assert (now.due_minor, now.credited_minor, now.credited_since) == (left, 500, 0)
    assert await books_of(billing) == before
    async with billing.database.transaction() as tx:
        note = await correct_invoice(tx, now, None, 100, reason="Agreed", by=TESTER.at(billing.clock()))
    assert note.read_record().invoice_number == document.reference
    await books_of(billing)


async def test_an_invoice_of_many_orders_keeps_its_annex(billing: Billing, world: World) -> None:
    scope = world.ours_live.scope
    await billing.set_billing(scope, billing=BillingMode.MONTHLY)
    orders = [await billing.place_order(scope) for _ in range(3)]
    await billing.work()
    billing.clock.turn_to(4, 1, 1)
    await billing.work()
    invoice = await billing.invoice(orders[0])
    document = await change(billing, invoice, reference="PO 4711")
    text = pdf_text((await billing.services.originals.pdf(document)).read())
    assert "PO 4711" in text
    assert all(order.id in text for order in orders)
    billing.clock.turn_to(4, 3)
    await billing.cancel(orders[2])
    await books_of(billing)


async def test_the_list_of_sales_has_all_three_and_their_tax_is_that_of_one(billing: Billing, world: World) -> None:
    order, invoice = await billed(billing, world)
    await billing.execute("UPDATE orders SET supplied_on = '2026-03-02' WHERE id = $1", order.id)
    await change(billing, invoice, reference="PO 4711")
    async with billing.database.transaction() as tx:
        days = date(2026, 3, 1), date(2026, 4, 1)
        found = [each async for batch in read_sales_any_account(tx, Mode.LIVE, *days, None) for each in batch]
    assert [(each.number, each.supplied_on) for each in found] == [
        ("TN-LIVE-000001", "2026-03-02"),
        ("TN-LIVE-000002", "2026-03-02"),
        ("CN-LIVE-000001", ""),
    ]
    rows = [SalesText().rows(each).split(",") for each in found]
    assert sum(float(row[-7]) for row in rows) == pytest.approx((invoice.tax_minor or 0) / 100)


async def test_what_cannot_be_replaced_says_why(billing: Billing, world: World) -> None:
    order, invoice = await billed(billing, world)
    with pytest.raises(InvoiceNotReplaced, match="states that already"):
        await change(billing, invoice)
    with pytest.raises(Invalid, match="Enter the city"):
        await change(billing, invoice, city="")
    for count in range(MAX_REPLACEMENTS):
        await change(billing, invoice, reference=f"PO {count + 2}")
    with pytest.raises(InvoiceNotReplaced, match="10 times"):
        await change(billing, invoice, reference="PO 99")
    other_order, other = await billed(billing, world)
    await billing.execute("UPDATE orders SET status = 'complete' WHERE id = $1", other_order.id)
    async with billing.database.transaction() as tx:
        by = TESTER.at(billing.clock())
        await write_off_invoice(tx, other, reason="Insolvent", releases_credit=False, settings=billing.settings, by=by)
    with pytest.raises(InvoiceNotReplaced, match="written off"):
        await change(billing, other, reference="PO 4711")
    await billing.cancel(order)
    with pytest.raises(InvoiceNotReplaced, match="Nothing is left"):
        await change(billing, invoice, reference="PO 4711")


async def test_each_number_finds_the_invoice_and_the_audit_log_names_no_address(billing: Billing, world: World) -> None:
    _, invoice = await billed(billing, world)
    await change(billing, invoice, reference="PO 2", street="Kai 2")
    await change(billing, invoice, reference="PO 3")
    async with billing.database.connection() as connection:
        for number in (1, 2, 3):
            found = await find_by_number_any_account(connection, f"TN-LIVE-00000{number}", None)
            assert (found.id, found.in_force.reference) == (invoice.id, "TN-LIVE-000003")
    [entry, _] = await billing.fetch(
        "SELECT details::text FROM audit_log WHERE action = 'invoice.replaced' ORDER BY id"
    )
    assert '"changed": ["address_lines", "reference"]' in entry["details"]
    assert "Kai" not in entry["details"]


async def test_only_the_operator_may_state_another_name(billing: Billing, world: World) -> None:
    _, invoice = await billed(billing, world)
    record = content(await change(billing, invoice, name="Ours SE"))
    assert (record.buyer.name, record.buyer.tax_id) == ("Ours SE", content(invoice).buyer.tax_id)
    with pytest.raises(Invalid, match="Enter the name"):
        await change(billing, invoice, name=" ")
