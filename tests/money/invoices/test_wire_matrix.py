"""Every treatment, kind of account, document and language keeps the rules of all formats.

`make test-random` goes through all combinations; otherwise each language meets each treatment and kind of account.
"""

import itertools
from typing import Any

import msgspec
import pytest

from tests.money.invoices.documents import BUYER, credit_note, document, line
from tests.money.invoices.factur_x_rules import broken_rules
from tests.money.invoices.test_ubl import TREATMENTS, wanted
from tests.money.invoices.ubl_rules import broken_ubl_rules
from tests.support.rounds import IS_LONG
from tonne.money.invoices.documents.einvoice_fields import check_record, ubl_format
from tonne.money.invoices.documents.factur_x import factur_x_xml
from tonne.money.invoices.documents.record import InvoicePeriod, InvoiceRecord, PostalAddress
from tonne.money.invoices.documents.tax_notes import tax_note
from tonne.money.invoices.documents.ubl import ubl_xml
from tonne.money.invoices.model import NO_BANK, nature_of
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import TaxTreatment
from tonne.platform.values.einvoice import EInvoiceFormat
from tonne.platform.values.language import LANGUAGES
from tonne.selling.accounts.tax.tax_profile import TaxProfile

OCTOBER = InvoicePeriod("2026-10-01", "2026-10-31")
BY_CARD: dict[str, Any] = {"bank": NO_BANK, "paid_by_card": True}
PAID = BY_CARD | {"paid_on": "2026-11-16"}
TOGETHER: dict[str, Any] = {"order_count": 2, "order_id": "", "period": OCTOBER, "account": None}
PERSON = msgspec.structs.replace(BUYER, name="Ada Byron", tax_id=None, reference=None, postal=PostalAddress("FR"))
# Organisations may want UBL; customers at checkout get the PDF with CII in it.
ACCOUNTS: dict[str, dict[str, Any]] = {
    "by invoice": {},
    "by invoice, monthly": TOGETHER,
    "by card": PAID,
    "by card, monthly or collected": BY_CARD | TOGETHER,
    "person at checkout": PAID | {"buyer": PERSON, "account": None},
    "business at checkout": PAID | {"account": None},
}
DOCUMENTS = ("invoice", "simplified_invoice", "credit_note")
SELLER_SETTINGS = Settings(
    seller_language="de",
    cash_accounting=True,
    tax_note_exempt_en="Exempt, Art. 135",
    tax_note_exempt_fr="Exonéré, art. 261",
    tax_note_outside_scope_en="Outside the scope of VAT, Art. 59",
)


def made(treatment: str, rate: str | None, kind: str, account: str, language: str) -> InvoiceRecord:
    facts = ACCOUNTS[account] | ({"corrects": credit_note().corrects} if kind == "credit_note" else {})
    entry = line(treatment, rate)  # type: ignore[arg-type]
    entry = msgspec.structs.replace(entry, description=nature_of(entry.description, language))
    record = document(entry, document=kind, language=language, **facts)
    note = tax_note(TaxTreatment(treatment), TaxProfile(), SELLER_SETTINGS, language)
    return msgspec.structs.replace(record, taxes=[msgspec.structs.replace(each, note=note) for each in record.taxes])


def combinations(account: str) -> list[InvoiceRecord]:
    codes = sorted(LANGUAGES)
    found = []
    # A private person has no VAT id, so there is no reverse charge.
    treatments = [each for each in TREATMENTS if each[0] != "reverse_charge" or account != "person at checkout"]
    for turn, ((treatment, rate), kind) in enumerate(itertools.product(treatments, DOCUMENTS)):
        offset = [*ACCOUNTS].index(account)
        languages = codes if IS_LONG else [codes[(turn + offset) % len(codes)]]
        found += [made(treatment, rate, kind, account, language) for language in languages]
    return found


@pytest.mark.parametrize("account", ACCOUNTS)
def test_every_combination_keeps_all_rules(account: str) -> None:
    found: dict[tuple[str, ...], list[str]] = {}
    records = combinations(account)
    assert {record.language for record in records} == set(LANGUAGES)
    for record in records:
        check_record(record)
        name = (record.document, record.lines[0].treatment, record.language)
        found[*name, "cii"] = broken_rules(factur_x_xml(record))
        if "checkout" in account:
            continue
        for chosen in EInvoiceFormat:
            asked = wanted(record, chosen)
            assert ubl_format(asked) is chosen, name
            found[*name, chosen] = broken_ubl_rules(ubl_xml(asked, chosen))
    assert {name: broken for name, broken in found.items() if broken} == {}
