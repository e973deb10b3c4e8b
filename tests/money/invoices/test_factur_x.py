"""The electronic part of invoices, checked by the official schema and schematron rules."""

from decimal import Decimal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from tests.money.invoices.documents import BUYER, SELLER, consolidated, credit_note, document, line
from tests.money.invoices.factur_x_rules import broken_rules
from tests.support.rounds import ROUNDS
from tonne.money.invoices.documents.factur_x import factur_x_xml
from tonne.money.invoices.documents.positions import is_electronic
from tonne.money.invoices.documents.record import (
    InvoiceFee,
    InvoicePeriod,
    InvoiceRecord,
    PostalAddress,
    TaxRepresentative,
)
from tonne.money.invoices.documents.xml_elements import CII
from tonne.money.invoices.model import NO_BANK

ODD = 'Ümläut & "Söhne" <GmbH> \x00\x0b\ud800😀 株式会社 \u202eevil\ufffe'
SEVERAL = document(
    line("standard", "19", "100.05"),
    line("standard", "8.1", "33.33"),
    line("reverse_charge", None, "10.00"),
    line("none", None, "7.00"),
    line("exempt", None, "5.00"),
    fees=[InvoiceFee("Service fee", "10.01", "standard", "19"), InvoiceFee("Service fee", "0.33", "standard", "8.1")],
)
WITHOUT_IDS = msgspec.structs.replace(SELLER, tax_id=None, vat_id=None, registration=None, email=None)
REPRESENTATIVE = TaxRepresentative(
    "Steuer & Partner", ["Lange Reihe 7", "Hof 2", "20099 Hamburg", "Germany"], "DE136695976", "DE"
)
# Established in the US, without a number of its own.
REPRESENTED = msgspec.structs.replace(
    SELLER,
    tax_id=None,
    vat_id=None,
    postal=PostalAddress("US", "5th Avenue 1", "10001", "New York"),
    representative=REPRESENTATIVE,
)
RECORDS = {
    "standard": document(line("standard", "19")),
    "reverse charge": document(line("reverse_charge")),
    "exempt": document(line("exempt")),
    "outside scope": document(line("outside_scope")),
    "none": document(line()),
    "none without ids of the seller": document(line(), seller=WITHOUT_IDS),
    "several rates": SEVERAL,
    "consolidated": consolidated(2000),
    "credit note": credit_note(),
    "test mode": document(line("standard", "19"), mode="test", note="Test mode: nothing is owed."),
    "odd characters": document(
        line("standard", "19"),
        seller=msgspec.structs.replace(SELLER, name=ODD),
        buyer=msgspec.structs.replace(BUYER, name="\x01", reference=ODD),
        order_reference=ODD,
    ),
    "Leitweg-ID": document(
        line("standard", "19"), buyer=msgspec.structs.replace(BUYER, reference="04011000-1234512345-06")
    ),
    "tax representative": document(line("standard", "19"), seller=REPRESENTED),
    "credit note with a tax representative": credit_note(seller=REPRESENTED),
    "tax representative outside scope": document(line("outside_scope"), seller=REPRESENTED),
    "tax id without VAT": document(
        line("standard", "19"), seller=msgspec.structs.replace(SELLER, vat_id=None, tax_id="12/345/67890")
    ),
    "buyer outside the EU": document(
        line("reverse_charge"), buyer=msgspec.structs.replace(BUYER, tax_id="12-3456789", postal=PostalAddress("US"))
    ),
    "Greek buyer": document(
        line("reverse_charge"), buyer=msgspec.structs.replace(BUYER, tax_id="EL094014201", postal=PostalAddress("GR"))
    ),
    "supplied on retirement": document(line("standard", "19"), supplied_on=None),
    "supplied on several days": document(
        line("standard", "19"), supplied_on=None, supply=InvoicePeriod("2026-10-03", "2026-10-29")
    ),
    "no fee": document(line("standard", "19"), fees=[InvoiceFee("Service fee", "0.00", "standard", "19")]),
    "yen": document(line("standard", "10", "7176"), fees=[InvoiceFee("Fee", "801", "standard", "10")], currency="JPY"),
}


def read(xml: bytes, path: str) -> list[str]:
    found = etree.fromstring(xml).xpath(f"//{path}", namespaces=CII)
    assert isinstance(found, list)
    return [each.text or "" for each in found if isinstance(each, etree._Element)]


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
def test_the_xml_keeps_the_schema_and_all_rules(record: InvoiceRecord) -> None:
    assert is_electronic(record)
    assert broken_rules(factur_x_xml(record)) == []


def test_the_tax_representative_is_stated_unless_no_tax_is() -> None:
    party = "ram:SellerTaxRepresentativeTradeParty"
    xml = factur_x_xml(RECORDS["tax representative"])
    assert read(xml, f"{party}/ram:Name") == ["Steuer & Partner"]
    assert read(xml, f"{party}//ram:ID") == ["DE136695976"]
    assert read(xml, f"{party}//ram:LineThree") == ["20099 Hamburg, Germany"]
    assert read(factur_x_xml(RECORDS["tax representative outside scope"]), party) == []


def test_the_rules_find_a_wrong_amount() -> None:
    wrong = msgspec.structs.replace(RECORDS["standard"], total="9492.40")
    assert any("BR-CO-15" in rule for rule in broken_rules(factur_x_xml(wrong)))


def test_amounts_are_those_of_the_record() -> None:
    xml = factur_x_xml(SEVERAL)
    assert read(xml, "ram:CalculatedAmount") == ["20.91", "2.73", "0", "0"]
    assert read(xml, "ram:BasisAmount") == ["110.06", "33.66", "10.00", "12.00"]
    assert read(xml, "ram:GrandTotalAmount") == [SEVERAL.total]
    assert read(xml, "ram:DuePayableAmount") == [SEVERAL.total]


def test_the_date_of_supply_is_a_day_a_period_or_not_known() -> None:
    """Never that of the orders."""
    found = [
        read(factur_x_xml(RECORDS[name]), f"ram:{element}/udt:DateTimeString")
        for name in ("standard", "supplied on several days", "supplied on retirement", "consolidated")
        for element in ("OccurrenceDateTime", "StartDateTime", "EndDateTime")
    ]
    assert found == [["20261115"], [], [], [], ["20261003"], ["20261029"], *[[]] * 6]


def test_an_invoice_that_a_card_pays_names_the_card_and_no_bank_account() -> None:
    by_card = msgspec.structs.replace(consolidated(3), bank=NO_BANK, paid_by_card=True)
    xml = factur_x_xml(by_card)
    assert broken_rules(xml) == []
    assert read(xml, "//ram:SpecifiedTradeSettlementPaymentMeans/ram:TypeCode") == ["48"]
    assert read(xml, "//ram:IBANID") == []


def test_a_reverse_charge_names_both_vat_numbers_and_the_reason() -> None:
    xml = factur_x_xml(RECORDS["reverse charge"])
    assert read(xml, "ram:SpecifiedTaxRegistration/ram:ID") == ["DE136695976", "FR83404833048"]
    assert read(xml, "ram:ApplicableHeaderTradeSettlement/ram:ApplicableTradeTax/ram:CategoryCode") == ["AE"]
    assert read(xml, "ram:ExemptionReasonCode") == ["VATEX-EU-AE"]


def test_a_credit_note_names_its_invoice_and_asks_for_no_money() -> None:
    xml = factur_x_xml(credit_note())
    assert read(xml, "rsm:ExchangedDocument/ram:TypeCode") == ["381"]
    assert read(xml, "ram:InvoiceReferencedDocument/ram:IssuerAssignedID") == ["TN-LIVE-000042"]
    assert read(xml, "ram:IBANID") == []


def test_an_invoice_that_was_paid_before_its_issue_says_that_nothing_is_due() -> None:
    record = RECORDS["standard"]
    xml = factur_x_xml(msgspec.structs.replace(record, paid_on=record.issued_on))
    assert broken_rules(xml) == []
    assert (read(xml, "ram:DuePayableAmount"), read(xml, "ram:TotalPrepaidAmount")) == (["0.00"], ["9492.39"])


@pytest.mark.parametrize(
    "record",
    [
        document(line(), seller=msgspec.structs.replace(SELLER, postal=None)),
        document(line(), buyer=msgspec.structs.replace(BUYER, postal=None)),
        document(line(), currency="KWD"),
    ],
    ids=["seller", "buyer", "decimals"],
)
def test_without_countries_or_with_three_decimals_there_is_none(record: InvoiceRecord) -> None:
    assert not is_electronic(record)


# The official rules take a rate below 0.5 % for zero.
@settings(max_examples=10 * ROUNDS, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 10**8), st.sampled_from(["0.5", "2.1", "7", "8.1", "19", "25", "100"])),
        min_size=1,
        max_size=12,
    ),
    st.integers(0, 10**6),
)
def test_any_amounts_and_rates_keep_the_rules(entries: list[tuple[int, str]], fee: int) -> None:
    lines = [line("standard", rate, f"{Decimal(amount) / 100:.2f}") for amount, rate in entries]
    fees = [InvoiceFee("Service fee", f"{Decimal(fee) / 100:.2f}", "standard", entries[0][1])]
    assert broken_rules(factur_x_xml(document(*lines, fees=fees))) == []
