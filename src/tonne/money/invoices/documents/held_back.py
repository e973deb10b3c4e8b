"""Why a live document is not issued yet: what it must state about the seller, the buyer and the tax is not known."""

from msgspec import Struct

from tonne.money.invoices.documents.seller_details import missing_settings
from tonne.money.invoices.documents.tax_notes import missing_note
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import TaxTreatment
from tonne.platform.values.countries import WITHOUT_POSTCODES
from tonne.selling.accounts.tax.tax_profile import TaxProfile


class HeldBack(Struct, frozen=True):
    """`settings` are variables that the operator sets, `details` are parts of the buyer's address."""

    settings: tuple[str, ...] = ()
    details: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.settings or self.details)

    @property
    def reason(self) -> str:
        """For the operator: what is missing, and who adds it."""
        if self.settings:
            return f"{', '.join(self.settings)} are not set. Set them and restart Tonne."
        return (
            f"the buyer's {', '.join(self.details)} are missing. The buyer enters them on the page Invoice address, or "
            "set them with `tonne org tax`."
        )


def held_back_by(
    treatment: TaxTreatment, profile: TaxProfile, settings: Settings, language: str, *, needs_bank: bool = True
) -> HeldBack:
    """What a live document with this treatment lacks. It is false if nothing is missing."""
    note = missing_note(treatment, profile, settings, language)
    names = missing_settings(settings, treatment, needs_bank=needs_bank)
    return HeldBack((*names, *([note] if note else [])), missing_details(treatment, profile))


def missing_details(treatment: TaxTreatment, profile: TaxProfile) -> tuple[str, ...]:
    """The parts of the buyer's address that a document with this treatment must state, and that are not known."""
    if treatment is TaxTreatment.NONE:
        return ()
    has_postcodes = profile.country not in WITHOUT_POSTCODES
    parts = ("street", *(["postcode"] if has_postcodes else []), "city", "country")
    return tuple(part for part in parts if not getattr(profile, part))
