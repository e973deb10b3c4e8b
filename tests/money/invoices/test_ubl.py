"""UBL for Peppol and XRechnung by schema, EN 16931, the rules of Peppol, and our table of those of XRechnung."""

from decimal import Decimal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from tests.money.invoices.documents import BUYER, SELLER, credit_note, document, line
from tests.money.invoices.factur_x_rules import broken_rules
from tests.money.invoices.test_consolidated_xml import documents_of
from tests.money.invoices.test_factur_x import RECORDS
from tests.money.invoices.ubl_rules import BR_DE, NAMESPACES, broken_ubl_rules
from tests.support.rounds import ROUNDS
from tonne.money.invoices.documents.einvoice_fields import RecordRefused, check_record, ubl_format
from tonne.money.invoices.documents.factur_x import factur_x_xml
from tonne.money.invoices.documents.record import (
    HomeTax,
    InvoiceAllowance,
    InvoiceFee,
    InvoiceLine,
    InvoiceRecord,
    InvoiceTax,
    PostalAddress,
)
from tonne.money.invoices.documents.ubl import ubl_xml
from tonne.money.invoices.documents.xml_elements import CII
from tonne.money.invoices.model import NO_BANK
from tonne.platform.values.einvoice import EInvoiceFormat

PEPPOL, XRECHNUNG = EInvoiceFormat
UBL_SELLER = msgspec.structs.replace(
    SELLER, endpoint="9930:DE136695976", contact_name="Ada Lovelace", phone="+49 40 123456"
)
UBL_BUYER = msgspec.structs.replace(BUYER, endpoint="0088:7300010000001")


def wanted(record: InvoiceRecord, chosen: EInvoiceFormat) -> InvoiceRecord:
    """The record with what the formats need."""
    return msgspec.structs.replace(
        record,
        seller=msgspec.structs.replace(
            record.seller,
            endpoint=UBL_SELLER.endpoint,
            contact_name=UBL_SELLER.contact_name,
            phone=UBL_SELLER.phone,
            email=SELLER.email,
        ),
        buyer=msgspec.structs.replace(
            record.buyer,
            endpoint=UBL_BUYER.endpoint,
            postal=PostalAddress(record.buyer.postal.country if record.buyer.postal else "FR", "Rue", "75002", "Paris"),
        ),
        einvoice=chosen,
    )


TREATMENTS = [("standard", "19"), ("reverse_charge", None), ("exempt", None), ("outside_scope", None), ("none", None)]
PAYMENTS = {
    "transfer": {},
    "stored card": {"bank": NO_BANK, "paid_by_card": True},
    "paid by card": {"bank": NO_BANK, "paid_by_card": True, "paid_on": "2026-11-16"},
}
HOME = HomeTax("EUR", "1401.05", "1.08", "EUR", "USD", "ECB", "2026-11-15")
SPECIAL = {
    "foreign currency": document(line("standard", "19"), currency="USD", home=HOME),
    "allowance": document(
        InvoiceLine("Wind", "1", "100.02", "100.02", treatment="standard", rate="19"),
        fees=[InvoiceFee("Service fee", "10.00", "standard", "19")],
        allowances=[InvoiceAllowance("Rounding in your favour", "0.02", "standard", "19")],
        taxes=[InvoiceTax("DE-S-19", "standard", "19", "110.00", "20.90")],
        total="130.90",
    ),
    "one gram": document(InvoiceLine("Wind", "0.000001", "6.90", "0.00", treatment="standard", rate="19")),
}


@pytest.mark.parametrize("chosen", EInvoiceFormat)
def test_every_kind_of_document_keeps_the_rules(chosen: EInvoiceFormat) -> None:
    """Every treatment, way of payment and kind, and what is special."""
    found = {}
    records = dict(RECORDS | SPECIAL)
    del records["consolidated"]
    for treatment, rate in TREATMENTS:
        for way, facts in PAYMENTS.items():
            for kind in ("invoice", "simplified_invoice"):
                records[f"{kind} {treatment} {way}"] = document(line(treatment, rate), document=kind, **facts)  # type: ignore[arg-type]
        records[f"credit note {treatment}"] = msgspec.structs.replace(
            document(line(treatment, rate)),  # type: ignore[arg-type]
            document="credit_note",
            corrects=credit_note().corrects,
        )
    for name, record in records.items():
        made = wanted(record, chosen)
        assert ubl_format(made) is chosen, name
        if broken := broken_ubl_rules(ubl_xml(made, chosen)):
            found[name] = broken
    assert found == {}


STANDARD = document(line("standard", "19"))
WRONG_PEPPOL = {
    "CL008": {"buyer": msgspec.structs.replace(UBL_BUYER, endpoint="EM:ap@marlowe.example")},
    "R040": {"buyer": msgspec.structs.replace(UBL_BUYER, endpoint="0088:7300010000002")},
    "R003": {
        "buyer": msgspec.structs.replace(UBL_BUYER, reference=None),
        "order_reference": None,
        "order_id": "",
    },
    "BR-CO-15": {"total": "9492.40"},
    "R120": {"lines": [line("standard", "19", "7176.03")]},
}


@pytest.mark.parametrize(("rule", "changes"), WRONG_PEPPOL.items(), ids=WRONG_PEPPOL)
def test_the_rules_find_what_is_wrong(rule: str, changes: dict[str, object]) -> None:
    record = msgspec.structs.replace(wanted(STANDARD, PEPPOL), **changes)
    xml = ubl_xml(record, PEPPOL)
    if rule == "R120":
        xml = xml.replace(b'<cbc:PriceAmount currencyID="EUR">7176.03<', b'<cbc:PriceAmount currencyID="EUR">7176.00<')
    assert any(rule in broken for broken in broken_ubl_rules(xml))


@pytest.mark.parametrize("rule", [each for each in BR_DE if each not in {"BR-DE-16", "BR-DE-18"}])
def test_the_table_of_xrechnung_finds_what_is_missing(rule: str) -> None:
    """Without the element that each rule names."""
    path = {
        "BR-DE-1": "cac:PaymentMeans",
        "BR-DE-2": "cac:AccountingSupplierParty//cac:Contact",
        "BR-DE-3": "cac:AccountingSupplierParty//cbc:CityName",
        "BR-DE-4": "cac:AccountingSupplierParty//cbc:PostalZone",
        "BR-DE-5": "cac:AccountingSupplierParty//cac:Contact/cbc:Name",
        "BR-DE-6": "cac:AccountingSupplierParty//cbc:Telephone",
        "BR-DE-7": "cac:AccountingSupplierParty//cbc:ElectronicMail",
        "BR-DE-8": "cac:AccountingCustomerParty//cbc:CityName",
        "BR-DE-9": "cac:AccountingCustomerParty//cbc:PostalZone",
        "BR-DE-14": "cac:TaxTotal/cac:TaxSubtotal/cac:TaxCategory/cbc:Percent",
        "BR-DE-15": "cbc:BuyerReference",
        "BR-DE-23-a": "cac:PaymentMeans/cac:PayeeFinancialAccount",
        "BR-DE-24-a": "",
        "R010": "cac:AccountingCustomerParty//cbc:EndpointID",
        "R020": "cac:AccountingSupplierParty//cbc:EndpointID",
    }[rule]
    root = etree.fromstring(ubl_xml(wanted(STANDARD, XRECHNUNG), XRECHNUNG))
    assert root.xpath(BR_DE[rule], namespaces=NAMESPACES) is True
    if not path:
        [code] = root.iterfind(".//cbc:PaymentMeansCode", NAMESPACES)
        code.text = "48"
    for element in root.xpath(path or "none", namespaces=NAMESPACES):  # type: ignore[union-attr]
        element.getparent().remove(element)  # type: ignore[union-attr, arg-type]
    assert root.xpath(BR_DE[rule], namespaces=NAMESPACES) is False


def read(xml: bytes, *paths: str) -> list[Decimal]:
    root, spaces = etree.fromstring(xml), CII | NAMESPACES
    found = [each for path in paths for each in root.xpath(f"//{path}", namespaces=spaces)]  # type: ignore[union-attr]
    return [Decimal(each.text) for each in found]  # type: ignore[union-attr, arg-type]


def assert_equal_amounts(record: InvoiceRecord) -> None:
    cii, ubl = factur_x_xml(record), ubl_xml(wanted(record, PEPPOL), PEPPOL)
    for in_cii, in_ubl in (
        (
            "ram:SpecifiedTradeSettlementLineMonetarySummation/ram:LineTotalAmount",
            "cac:Item/../cbc:LineExtensionAmount",
        ),
        ("ram:ChargeAmount", "cbc:PriceAmount"),
        ("ram:BasisAmount", "cbc:TaxableAmount"),
        ("ram:CalculatedAmount", "cac:TaxSubtotal/cbc:TaxAmount"),
        ("ram:TaxBasisTotalAmount", "cbc:TaxExclusiveAmount"),
        ("ram:TaxTotalAmount", "cac:TaxTotal/cbc:TaxAmount"),
        ("ram:GrandTotalAmount", "cbc:TaxInclusiveAmount"),
        ("ram:TotalPrepaidAmount", "cbc:PrepaidAmount"),
        ("ram:DuePayableAmount", "cbc:PayableAmount"),
    ):
        assert read(cii, in_cii) == read(ubl, in_ubl), in_cii


def test_both_formats_state_equal_amounts() -> None:
    for record in (RECORDS | SPECIAL).values():
        assert_equal_amounts(record)
        check_record(record)


# `make test-random` takes more than 200 documents through all rules.
@settings(max_examples=3 + 10 * (ROUNDS - 1), deadline=None)
@given(st.integers(0, 2**64))
def test_random_documents_keep_all_rules(seed: int) -> None:
    for record in documents_of(seed):
        check_record(record)
        assert_equal_amounts(record)
        for chosen in EInvoiceFormat:
            xml = ubl_xml(wanted(record, chosen), chosen)
            assert broken_ubl_rules(xml) == [], seed
        assert broken_rules(factur_x_xml(record)) == [], seed


def test_amounts_that_are_not_quantity_times_price_have_a_base_quantity() -> None:
    """Yen have no decimals: 1.105697 t at 1,380 JPY are 1,526 JPY."""
    each = InvoiceLine("Wind", "1.105697", "1380", "1526", treatment="standard", rate="10")
    record = document(each, fees=[InvoiceFee("Fee", "80", "standard", "10")], currency="JPY")
    record = msgspec.structs.replace(
        record, total="1767", taxes=[InvoiceTax("JP-S-10", "standard", "10", "1606", "161")]
    )
    xml = ubl_xml(wanted(record, PEPPOL), PEPPOL)
    assert read(xml, "cbc:PriceAmount", "cbc:BaseQuantity")[::2] == [Decimal(1526), Decimal("1.105697")]
    assert broken_ubl_rules(xml) == []


REFUSED = {
    "are not the total": {"total": "9492.40"},
    "lines of tax are not": {"lines": [line("standard", "19", "7176.05")], "total": "9492.44"},
    "electronic address is missing": {"einvoice": PEPPOL},
    "TONNE_SELLER_PHONE is missing": {"einvoice": XRECHNUNG},
}


@pytest.mark.parametrize(("why", "changes"), REFUSED.items(), ids=REFUSED)
def test_a_record_that_contradicts_itself_is_refused(why: str, changes: dict[str, object]) -> None:
    with pytest.raises(RecordRefused, match=why):
        check_record(msgspec.structs.replace(STANDARD, **changes))
