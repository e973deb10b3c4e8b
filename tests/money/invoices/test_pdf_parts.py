"""What the PDF of an invoice contains besides its text: the electronic invoice and the code for banking apps."""

import io
from decimal import Decimal

import msgspec
import pypdf
import pytest

from tests.money.invoices.documents import BANK, BUYER, consolidated, credit_note, document, line
from tests.money.invoices.test_factur_x import SEVERAL
from tests.money.invoices.test_pdf import MARGIN_MM, RECORD
from tests.support.pdf_pages import outside, page_texts
from tests.support.world import SELLER as SETTINGS_OF_SELLER
from tonne.money.invoices.documents.epc_qr import epc_qr_svg
from tonne.money.invoices.documents.factur_x import factur_x_xml
from tonne.money.invoices.documents.parties import seller_of
from tonne.money.invoices.documents.pdf import invoice_pdf
from tonne.money.invoices.documents.record import InvoicePeriod, InvoiceRecord
from tonne.platform.settings.settings import Settings

STANDARD = document(line("standard", "19"))
REVERSE = document(line("reverse_charge"))


def embedded(pdf: bytes) -> dict[str, bytes]:
    return {name: files[0] for name, files in pypdf.PdfReader(io.BytesIO(pdf)).attachments.items()}


def metadata(pdf: bytes) -> str:
    found = pypdf.PdfReader(io.BytesIO(pdf)).xmp_metadata
    assert found is not None
    return found.stream.get_data().decode()


def text_of(record: InvoiceRecord) -> str:
    return " ".join("".join(page_texts(invoice_pdf(record))).split())


@pytest.mark.parametrize("made", [document(line("standard", "19")), credit_note()], ids=["invoice", "credit note"])
def test_a_tax_representative_is_printed_below_the_seller(made: InvoiceRecord) -> None:
    settings = msgspec.structs.replace(
        Settings(),
        **SETTINGS_OF_SELLER,
        tax_representative_name="Steuer & Partner",
        tax_representative_address="Lange Reihe 7; 20099 Hamburg",
        tax_representative_vat_id="DE 136695976",
    )
    printed = text_of(msgspec.structs.replace(made, seller=seller_of(settings)))
    assert "TAX REPRESENTATIVE Steuer & Partner Lange Reihe 7 20099 Hamburg VAT ID DE136695976" in printed
    assert "TAX REPRESENTATIVE" not in text_of(msgspec.structs.replace(made, seller=seller_of(Settings())))


@pytest.mark.parametrize("record", [STANDARD, REVERSE, credit_note()], ids=["standard", "reverse", "credit"])
def test_the_file_says_that_it_is_pdf_a3_with_factur_x(record: InvoiceRecord) -> None:
    pdf = invoice_pdf(record)
    assert embedded(pdf) == {"factur-x.xml": factur_x_xml(record)}
    described = metadata(pdf)
    for said in (
        *("<pdfaid:part>3</pdfaid:part>", "<pdfaid:conformance>B</pdfaid:conformance>"),
        *("<fx:DocumentType>INVOICE</fx:DocumentType>", "<fx:ConformanceLevel>EN 16931</fx:ConformanceLevel>"),
        "<fx:DocumentFileName>factur-x.xml</fx:DocumentFileName>",
        "urn:factur-x:pdfa:CrossIndustryDocument:invoice:1p0#",
    ):
        assert said in described
    root = pypdf.PdfReader(io.BytesIO(pdf)).trailer["/Root"]
    [relation] = root["/AF"]  # type: ignore[index]
    assert relation.get_object()["/AFRelationship"] == "/Alternative"
    assert root["/Metadata"]["/Subtype"] == "/XML"  # type: ignore[index]
    assert pdf == invoice_pdf(record), "the same record gives the same bytes"


def test_a_record_without_countries_has_no_xml() -> None:
    assert embedded(invoice_pdf(RECORD)) == {}


def test_characters_that_no_font_has_do_not_stop_an_invoice() -> None:
    record = document(line("standard", "19"), buyer=msgspec.structs.replace(BUYER, name="Smile 😀 Ltd"))
    assert "😀".encode() in embedded(invoice_pdf(record))["factur-x.xml"]


def test_taxes_are_listed_by_rate() -> None:
    text = text_of(SEVERAL)
    for said in (
        *("Total without tax 165.72", "Tax 19 %, on 110.06 20.91", "Tax 8.1 %, on 33.66 2.73"),
        *("Reverse charge, on 10.00 0.00", f"Total including tax EUR {SEVERAL.total}"),
        *("liable for the tax.", "Exempt under section 19 UStG."),
    ):
        assert said in text
    assert sum(Decimal(tax.net) + Decimal(tax.tax) for tax in SEVERAL.taxes) == Decimal(SEVERAL.total)


def test_references_ids_and_dates_are_printed() -> None:
    text = text_of(REVERSE)
    for said in (
        *("VAT ID DE136695976", "Registered HRB 12345", "VAT ID FR83404833048", "PO 4711", "flight-2026-11-15-0042"),
        *("Paris office", "SUPPLIED ON 15 November 2026", "ord_06gtv1alff3htg9thvlvj59t20"),
    ):
        assert said in text


def test_the_date_of_supply_is_printed_or_where_it_will_be() -> None:
    later = "Supply: on retirement. Its date is on the certificate."
    month = document(line("standard", "19"), supplied_on=None, supply=InvoicePeriod("2026-10-03", "2026-10-29"))
    said = "SUPPLIED FROM 3 October 2026 SUPPLIED TO 29 October 2026"
    assert [(said in text_of(each), later in text_of(each)) for each in (REVERSE, month, consolidated(2))] == [
        (False, False),
        (True, False),
        (False, True),
    ]


def test_a_consolidated_invoice_itemises_orders_and_clients() -> None:
    pdf = invoice_pdf(consolidated(300))
    text = " ".join("".join(page_texts(pdf)).split())
    assert "booking-299" in text
    assert "ORDERS FROM 1 October 2026 ORDERS TO 31 October 2026" in text
    assert list(outside(pdf, MARGIN_MM)) == []


def test_a_credit_note_asks_for_no_money() -> None:
    text = text_of(credit_note())
    assert "Credit note TN-LIVE-C-000007" in text
    assert "FOR INVOICE TN-LIVE-000042" in text
    assert "Please pay" not in text


def test_the_code_has_the_facts_of_the_transfer() -> None:
    svg = epc_qr_svg(STANDARD)
    assert svg is not None
    assert svg.startswith("<svg")
    assert "Scan with your banking app" in text_of(STANDARD)


def test_codes_differ_with_what_they_encode() -> None:
    structured = document(line(), reference="RF18 5390 0754 7034")
    codes = {epc_qr_svg(record) for record in (STANDARD, REVERSE, structured)}
    assert len(codes) == 3


@pytest.mark.parametrize(
    "record",
    [
        document(line(), mode="test"),
        document(line(), currency="USD"),
        document(line(), bank=msgspec.structs.replace(BANK, iban=None)),
        document(line(), total="0.00"),
        document(line(), total="1000000000.00"),
        credit_note(),
    ],
    ids=["test mode", "currency", "no account", "nothing to pay", "too much", "credit note"],
)
def test_there_is_no_code_where_nobody_should_or_can_pay_by_it(record: InvoiceRecord) -> None:
    assert epc_qr_svg(record) is None


def test_the_document_is_in_the_language_of_the_record() -> None:
    record = msgspec.structs.replace(STANDARD, language="de")
    text = text_of(record)
    assert "EUR 9492,39" in text
    assert "16. Dezember 2026" in text
    assert STANDARD.total == "9492.39"
    assert b"<ram:GrandTotalAmount>9492.39</ram:GrandTotalAmount>" in embedded(invoice_pdf(record))["factur-x.xml"]
    own = msgspec.structs.replace(record, fee=msgspec.structs.replace(record.fee, label="100 % Own label {net}"))
    assert "100 % Own label {net}" in text_of(own), "texts of the record are not formatted"


def test_ids_are_not_broken_and_many_rates_fit_on_one_page() -> None:
    for record in (STANDARD, SEVERAL):
        [page] = page_texts(invoice_pdf(record))
        assert record.order_id in page
        assert record.reference in page
