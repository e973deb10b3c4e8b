"""The notes that a tax treatment needs, in the language of the document and in that of the seller."""

from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import TaxTreatment
from tonne.platform.values.language import DEFAULT_LANGUAGE
from tonne.selling.accounts.tax.tax_profile import TaxProfile

# The terms of Article 226 (7a) and (11a) of Directive 2006/112/EC, which are prescribed in each language.
REVERSE_CHARGE = {
    "en": "Reverse charge",
    "de": "Steuerschuldnerschaft des Leistungsempfängers",
    "fr": "Autoliquidation",
    "es": "Inversión del sujeto pasivo",
    "it": "Inversione contabile",
    "nl": "Btw verlegd",
}
CASH_ACCOUNTING = {
    "en": "Cash accounting",
    "de": "Versteuerung nach vereinnahmten Entgelten",
    "fr": "Comptabilité de caisse",
    "es": "Criterio de caja",
    "it": "Contabilità di cassa",
    "nl": "Kasstelsel",
}
# The seller names the provision by which no tax is due.
_NEEDS_PROVISION = (TaxTreatment.EXEMPT, TaxTreatment.OUTSIDE_SCOPE)


def tax_note(treatment: TaxTreatment, profile: TaxProfile, settings: Settings, language: str) -> str | None:
    """The organisation's own note, which belongs to its own treatment; else those of the treatment."""
    if own := _own_note(treatment, profile):
        return own
    notes = [_note_in(treatment, settings, each) for each in (language, settings.seller_language)]
    return " / ".join(dict.fromkeys(note for note in notes if note)) or None


def missing_note(treatment: TaxTreatment, profile: TaxProfile, settings: Settings, language: str) -> str | None:
    """The variable without which a live document in this language is not issued. None if nothing is missing."""
    if treatment not in _NEEDS_PROVISION or _own_note(treatment, profile) or _note_in(treatment, settings, language):
        return None
    return f"TONNE_TAX_NOTE_{treatment.upper()}_{language.upper()}"


def _own_note(treatment: TaxTreatment, profile: TaxProfile) -> str | None:
    is_own = treatment is not TaxTreatment.NONE and profile.treatment in {treatment, None}
    return profile.legal_note if is_own else None


def _note_in(treatment: TaxTreatment, settings: Settings, language: str) -> str | None:
    """In English if there is none in the language."""
    match treatment:
        case TaxTreatment.NONE:
            return None
        case TaxTreatment.STANDARD:
            return CASH_ACCOUNTING[language] if settings.cash_accounting else None
        case TaxTreatment.REVERSE_CHARGE:
            return REVERSE_CHARGE[language]
        case TaxTreatment.EXEMPT | TaxTreatment.OUTSIDE_SCOPE:
            given = (getattr(settings, f"tax_note_{treatment}_{each}") for each in (language, DEFAULT_LANGUAGE))
            return next((str(note) for note in given if note), None)
