"""The electronic part of credit notes."""

import io

import msgspec
import pypdf
import pytest

from tests.money.invoices.documents import BUYER, SELLER, document, line
from tests.money.invoices.factur_x_rules import broken_rules
from tests.money.invoices.test_factur_x import REPRESENTED, SEVERAL
from tests.support.pdf_pages import page_texts
from tonne.money.invoices.credit_notes.credit_note import CreditedOrder, TermsOfOrders, credited_taxes
from tonne.money.invoices.documents.pdf import credit_note_pdf
from tonne.money.invoices.documents.record import CreditNoteLine, CreditNoteRecord, InvoiceRecord

STANDARD = document(line("standard", "19"))


def credit(issued: InvoiceRecord, total_minor: int, tax_minor: int) -> CreditNoteRecord:
    return credit_orders(issued, [credited(total_minor, tax_minor)])


def credited(total_minor: int, tax_minor: int, id_: str = "ord_1") -> CreditedOrder:
    return CreditedOrder("acc_1", id_, "booking 77", total_minor - tax_minor, 0, tax_minor, total_minor)


def credit_orders(
    issued: InvoiceRecord, orders: list[CreditedOrder], terms: TermsOfOrders | None = None
) -> CreditNoteRecord:
    total_minor, tax_minor = sum(each.total_minor for each in orders), sum(each.tax_minor or 0 for each in orders)
    return CreditNoteRecord(
        number="CN-LIVE-000007",
        mode="live",
        issued_on="2026-11-20",
        invoice_number=issued.number,
        invoice_issued_on=issued.issued_on,
        cancels_invoice=False,
        seller=issued.seller,
        buyer=issued.buyer,
        currency="EUR",
        lines=[CreditNoteLine(issued.order_id, "booking 77", money(total_minor), money(total_minor - tax_minor))],
        order_count=1,
        tax=f"{tax_minor / 100:.2f}",
        total=f"{total_minor / 100:.2f}",
        reason="Ordered twice",
        note=None,
        taxes=credited_taxes(issued, orders, terms),
    )


def money(amount_minor: int) -> str:
    return f"{amount_minor / 100:.2f}"


def embedded(pdf: bytes) -> list[bytes]:
    return pypdf.PdfReader(io.BytesIO(pdf)).attachments.get("factur-x.xml", [])


@pytest.mark.parametrize(
    ("issued", "total_minor", "tax_minor"),
    [
        (STANDARD, 949_239, 151_559),
        (STANDARD, 119, 19),
        (STANDARD, 1, 0),
        (document(line("reverse_charge")), 797_680, 0),
        (document(line("exempt")), 797_680, 0),
        (document(line("outside_scope")), 797_680, 0),
        (document(line()), 797_680, 0),
    ],
)
def test_a_credit_note_keeps_the_rules(issued: InvoiceRecord, total_minor: int, tax_minor: int) -> None:
    record = credit(issued, total_minor, tax_minor)
    [xml] = embedded(credit_note_pdf(record))
    assert broken_rules(xml) == []
    assert b"<ram:TypeCode>381</ram:TypeCode>" in xml
    assert b"<ram:IssuerAssignedID>TN-LIVE-000042</ram:IssuerAssignedID>" in xml
    assert f"<ram:GrandTotalAmount>{record.total}<".encode() in xml


def printed(record: CreditNoteRecord) -> str:
    return " ".join("".join(page_texts(credit_note_pdf(record))).split())


def test_the_page_names_rate_and_tax_ids() -> None:
    represented = msgspec.structs.replace(STANDARD, seller=REPRESENTED)
    assert "TAX REPRESENTATIVE Steuer & Partner Lange Reihe 7" in printed(credit(represented, 119, 19))
    text = printed(credit(STANDARD, 119, 19))
    assert "TAX REPRESENTATIVE" not in text
    for said in ("Tax included: 19 % on 1.00 EUR 0.19", "VAT ID DE136695976", "VAT ID FR83404833048"):
        assert said in text


def test_a_credit_note_of_several_rates_has_a_line_for_each() -> None:
    orders = [credited(119, 19, "ord_1"), credited(214, 14, "ord_2")]
    first, second = [(each.treatment, each.rate) for each in SEVERAL.taxes][:2]
    record = credit_orders(SEVERAL, orders, {"ord_1": first, "ord_2": second})
    assert [(each.net, each.tax) for each in record.taxes] == [("1.00", "0.19"), ("2.00", "0.14")]


@pytest.mark.parametrize(
    "issued",
    [
        document(line(), seller=msgspec.structs.replace(SELLER, postal=None)),
        document(line(), buyer=msgspec.structs.replace(BUYER, postal=None)),
    ],
    ids=["seller", "buyer"],
)
def test_without_what_the_xml_needs_there_is_none(issued: InvoiceRecord) -> None:
    assert embedded(credit_note_pdf(credit(issued, 100, 0))) == []
