"""The invoice as a PDF."""

import re
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from tests.support.pdf_pages import fonts, lacks_signs, outside, page_texts, squeezed
from tonne.money.invoices.documents.pdf import invoice_pdf
from tonne.money.invoices.documents.record import (
    BankAccount,
    InvoiceBuyer,
    InvoiceFee,
    InvoiceLine,
    InvoiceRecord,
    InvoiceSeller,
)

MARGIN_MM = 10
RECORD = InvoiceRecord(
    number="INV-000042",
    mode="live",
    issued_on="2026-11-15",
    due_on="2026-12-15",
    order_id="ord_01JCQ4W9T6X2M8",
    seller=InvoiceSeller(
        "Example Offsets Ltd", ["12 Harbour Street", "Bristol BS1 4RN"], "GB 123 4567 89", "pay@example.org"
    ),
    buyer=InvoiceBuyer("Marlowe & Finch Shipping Ltd", ["Quay Services", "Rotterdam 3011 AB"]),
    currency="EUR",
    lines=[
        InvoiceLine("Balanced portfolio", "988", "6.90", "6817.20"),
        InvoiceLine("Durable removal", "52.000001", "250.00", "13000.00"),
    ],
    fee=InvoiceFee("Service fee", "2202.80"),
    total="22020.00",
    bank=BankAccount("Example Offsets Ltd", "GB33BUKB20201555555555", "BUKBGB22", "Example Bank"),
    reference="INV-000042-K7",
    note="Reverse charge applies.",
)


def changed(**changes: Any) -> InvoiceRecord:
    return msgspec.structs.replace(RECORD, **changes)


def sixty(mode: str) -> InvoiceRecord:
    lines = [InvoiceLine(f"Bundle number {number}.", "1", "10.00", "10.00") for number in range(60)]
    return changed(mode=mode, lines=lines, fee=InvoiceFee("Service fee", "60.00"), total="660.00")


def test_the_pdf_states_amount_parties_and_bank_account() -> None:
    pages = page_texts(invoice_pdf(RECORD))
    assert len(pages) == 1
    text = " ".join(pages[0].split())
    for said in (
        *("INV-000042", "15 November 2026", "15 December 2026", "ord_01JCQ4W9T6X2M8"),
        *("Example Offsets Ltd", "12 Harbour Street", "Bristol BS1 4RN", "Tax ID GB 123 4567 89", "pay@example.org"),
        *("Marlowe & Finch Shipping Ltd", "Quay Services", "Rotterdam 3011 AB"),
        *("Balanced portfolio 988 6.90 6817.20", "Durable removal 52.000001 250.00 13000.00"),
        *("Service fee 2202.80", "Total EUR 22020.00", "Please pay EUR 22020.00 by 15 December 2026"),
        *("GB33 BUKB 2020 1555 5555 55", "BUKBGB22", "Example Bank", "INV-000042-K7"),
        "Reverse charge applies.",
    ):
        assert said in text


def test_the_amounts_on_the_page_sum_to_the_total_on_the_page() -> None:
    text = page_texts(invoice_pdf(sixty("live")))
    amounts = re.findall(r"^(?:Bundle number \d+\. 1 10\.00|Service fee) ([\d.]+)\r?$", "".join(text), re.MULTILINE)
    total = re.search(r"Total EUR ([\d.]+)", "".join(text))
    assert total
    assert len(amounts) == 61
    assert sum(map(Decimal, amounts)) == Decimal(total[1])


def test_missing_values_are_left_out() -> None:
    seller = InvoiceSeller("Example Offsets Ltd", [], None, None)
    bank = BankAccount("Example Offsets Ltd", None, None, None)
    text = page_texts(invoice_pdf(changed(seller=seller, bank=bank, note=None)))[0]
    assert not re.search(r"none|null|IBAN|BIC|BANK\b|Tax ID|Reverse", text)
    assert "INV-000042-K7" in text


def test_the_same_record_gives_the_same_bytes() -> None:
    assert invoice_pdf(RECORD) == invoice_pdf(changed())
    assert invoice_pdf(RECORD) != invoice_pdf(changed(issued_on="2026-11-14"))


def test_fonts_are_embedded() -> None:
    carried = fonts(invoice_pdf(RECORD))
    assert carried
    assert all(carried.values())


def test_an_amount_without_decimals_has_none() -> None:
    record = changed(currency="JPY", total="123456789", fee=InvoiceFee("手数料", "0"), lines=[])
    assert "Total JPY 123456789" in " ".join(page_texts(invoice_pdf(record))[0].split())


@pytest.mark.parametrize(
    "text",
    [
        '#panic() *b* $x$ \\ <l> @r // "q" /* [c]',
        "株式会社グリーンかぜ発電",
        "上海远景能源科技有限公司",
        "한국환경산업기술원",
        "Ελληνική Ναυτιλιακή",
        "Общество «Северный лес»",
        "شركة الطاقة النظيفة",
        "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft" * 3,
    ],
)
def test_any_text_is_shown_as_it_is(text: str) -> None:
    pdf = invoice_pdf(
        changed(
            seller=InvoiceSeller(text, [text], text, text),
            buyer=InvoiceBuyer(text, [text]),
            lines=[InvoiceLine(text, "1", "1.00", "1.00")],
            fee=InvoiceFee(text, "0.10"),
            bank=BankAccount(text, None, text, text),
            reference=text,
            note=text,
        )
    )
    assert not lacks_signs(pdf)
    assert list(outside(pdf, MARGIN_MM)) == []
    assert squeezed("".join(page_texts(pdf))).count(squeezed(text)) >= 10


@pytest.mark.parametrize("count", [24, 25, 26, 58, 59, 60])
def test_the_total_is_never_on_a_page_without_a_line(count: int) -> None:
    record = sixty("live")
    *_, last = page_texts(invoice_pdf(msgspec.structs.replace(record, lines=record.lines[:count])))
    assert f"Bundle number {count - 1}." in last
    assert "EUR 660.00" in last


def test_sixty_lines_span_pages_with_a_repeated_header() -> None:
    pdf = invoice_pdf(sixty("live"))
    pages = page_texts(pdf)
    assert len(pages) > 1
    assert re.findall(r"Bundle number \d+\.", "".join(pages)) == [f"Bundle number {number}." for number in range(60)]
    for number, page in enumerate(pages, start=1):
        assert f"Invoice INV-000042 · Page {number} of {len(pages)}" in " ".join(page.split())
        if "Bundle number" in page:
            assert "PRICE PER TONNE" in page
    assert list(outside(pdf, MARGIN_MM)) == []


@pytest.mark.parametrize("record", [changed(mode="test"), sixty("test")], ids=["one", "sixty"])
def test_test_mode_is_marked_on_every_page_behind_the_text(record: InvoiceRecord) -> None:
    pages = page_texts(invoice_pdf(record))
    # What comes first in the file is painted first.
    assert all(page.startswith("TEST") for page in pages)
    assert "Issued in test mode: nothing is owed." in pages[0]
    live = page_texts(invoice_pdf(msgspec.structs.replace(record, mode="live")))
    assert not re.search("test", "".join(live), re.IGNORECASE)
