"""The notes of each tax treatment, in the language of the document and in that of the seller."""

from typing import Any

import msgspec

from tests.support.world import ADDRESS
from tonne.money.invoices.documents.held_back import held_back_by
from tonne.money.invoices.documents.tax_notes import tax_note
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import TaxTreatment
from tonne.platform.values.language import LANGUAGES
from tonne.selling.accounts.tax.tax_profile import TaxProfile

REVERSE, EXEMPT, STANDARD = TaxTreatment.REVERSE_CHARGE, TaxTreatment.EXEMPT, TaxTreatment.STANDARD
PLAIN = TaxProfile()


def given(**changes: object) -> Settings:
    return msgspec.structs.replace(Settings(), **changes)


def test_the_notes_of_a_treatment() -> None:
    both = given(seller_language="de", tax_note_exempt_en="Exempt, Art. 135", tax_note_exempt_fr="Exonéré, art. 261")
    cases = [
        (REVERSE, PLAIN, given(), "fr", "Autoliquidation / Reverse charge"),
        (REVERSE, PLAIN, given(), "en", "Reverse charge"),
        (REVERSE, PLAIN, given(seller_language="nl"), "nl", "Btw verlegd"),
        (REVERSE, TaxProfile(legal_note="Own"), given(), "fr", "Own"),
        (
            REVERSE,
            TaxProfile(legal_note="Own", treatment=EXEMPT),
            given(),
            "it",
            "Inversione contabile / Reverse charge",
        ),
        # German has none of its own: English is used.
        (EXEMPT, PLAIN, both, "fr", "Exonéré, art. 261 / Exempt, Art. 135"),
        (EXEMPT, PLAIN, both, "es", "Exempt, Art. 135"),
        (EXEMPT, PLAIN, given(), "de", None),
        (STANDARD, PLAIN, given(), "de", None),
        (STANDARD, PLAIN, given(cash_accounting=True), "es", "Criterio de caja / Cash accounting"),
        (TaxTreatment.NONE, TaxProfile(legal_note="Own"), given(cash_accounting=True), "en", None),
    ]
    wrong = [
        (treatment, language, found, wanted)
        for treatment, profile, settings, language, wanted in cases
        if (found := tax_note(treatment, profile, settings, language)) != wanted
    ]
    assert wrong == []


def test_every_language_has_the_prescribed_terms() -> None:
    settings = given(cash_accounting=True)
    found = {tax_note(each, PLAIN, settings, code) for each in (REVERSE, STANDARD) for code in LANGUAGES}
    assert len(found) == 2 * len(LANGUAGES)


def test_an_exemption_without_its_provision_is_held_back(settings: Settings) -> None:
    settings = msgspec.structs.replace(settings, seller_country="DE", seller_vat_id="DE136695976")
    buyer = TaxProfile(**ADDRESS)
    assert held_back_by(EXEMPT, buyer, settings, "de").settings == ("TONNE_TAX_NOTE_EXEMPT_DE",)
    for name in ("tax_note_exempt_de", "tax_note_exempt_en"):
        assert not held_back_by(EXEMPT, buyer, msgspec.structs.replace(settings, **{name: "§ 4 UStG"}), "de")
    assert not held_back_by(EXEMPT, TaxProfile(**ADDRESS, legal_note="Own"), settings, "de")


def test_the_address_of_the_buyer_is_needed_unless_tax_is_not_mentioned(settings: Settings) -> None:
    settings = msgspec.structs.replace(settings, seller_country="DE", seller_vat_id="DE136695976")
    cases: list[tuple[TaxTreatment, dict[str, Any], tuple[str, ...]]] = [
        (STANDARD, {}, ("street", "postcode", "city", "country")),
        (STANDARD, ADDRESS, ()),
        (STANDARD, {**ADDRESS, "postcode": None}, ("postcode",)),
        # Nobody in Hong Kong has a postcode.
        (STANDARD, {**ADDRESS, "postcode": None, "country": "HK"}, ()),
        (TaxTreatment.NONE, {}, ()),
    ]
    assert [held_back_by(each, TaxProfile(**parts), settings, "en").details for each, parts, _ in cases] == [
        wanted for _, _, wanted in cases
    ]
