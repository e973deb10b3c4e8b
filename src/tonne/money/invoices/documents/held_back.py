"""Why a live document is not issued yet: what it must state about the seller, the buyer and the tax is not known."""

from datetime import datetime

from msgspec import Struct

from tonne.money.invoices.documents.einvoice_fields import missing_of_buyer, missing_of_seller
from tonne.money.invoices.documents.parties import buyer_of, seller_of
from tonne.money.invoices.documents.seller_details import missing_settings
from tonne.money.invoices.documents.tax_notes import missing_note
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import TaxTreatment
from tonne.platform.values.context import replace
from tonne.platform.values.countries import WITHOUT_POSTCODES
from tonne.selling.accounts.tax.tax_profile import TaxProfile
from tonne.selling.accounts.tax.vat_checks import VatCheck, VatOutcome, is_checked
from tonne.selling.orders.buyer import BuyerDetails
from tonne.selling.orders.model import HoldReason


class HeldBack(Struct, frozen=True):
    """`settings` are variables that the operator sets, `details` are parts of the buyer's tax profile.

    `vat_id` is not proven to be valid, and empty if it is not known; `is_invalid` if the register says that it is not.
    `currency` has no rate.
    """

    settings: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    vat_id: str | None = None
    is_invalid: bool = False
    currency: str | None = None

    def __bool__(self) -> bool:
        return bool(self.settings or self.details or self.vat_id is not None or self.currency)

    @property
    def missing(self) -> list[str]:
        """For the log."""
        vat_id = [] if self.vat_id is None else [self.vat_id or "VAT id"]
        return [*self.settings, *self.details, *vat_id, *([self.currency] if self.currency else [])]

    @property
    def hold_reason(self) -> HoldReason | None:
        """None if settings are missing: that is no concern of the buyer."""
        if self.settings:
            return None
        if self.details:
            return HoldReason.BUYER_DETAILS_MISSING
        if self.vat_id is not None:
            return HoldReason.VAT_CHECK_MISSING
        return HoldReason.EXCHANGE_RATE_MISSING if self.currency else None

    @property
    def reason(self) -> str:
        """For the operator: what is missing, and who adds it."""
        if self.settings:
            return f"{', '.join(self.settings)} are not set. Set them and restart Tonne."
        if self.details:
            return (
                f"the buyer's {', '.join(self.details)} are missing. The buyer enters them on the page "
                "Tax, or set them with `tonne org tax`."
            )
        if self.is_invalid:
            return (
                f"the register says that the VAT id {self.vat_id} is not valid. Ask the customer; then correct it or "
                "the treatment with `tonne org tax`, or record another check with `tonne tax vat-check record`."
            )
        if self.vat_id == "":
            return (
                "reverse charge needs the VAT id of the buyer, which is not known. Set it, or another treatment, with "
                "`tonne org tax`."
            )
        if self.vat_id:
            return (
                f"the VAT id {self.vat_id} is not proven to be valid. The worker asks the register; or look there "
                "yourself, and record the result with `tonne tax vat-check record`."
            )
        return (
            f"there is no exchange rate of the last days for {self.currency}. Import one with `tonne rates import-ecb` "
            "or `tonne rates set`."
        )


class KnownFacts(Struct, frozen=True):
    """What is known beside profile and settings. `currency` is that of the document if it has no rate.

    `order_reference` is the client's own reference of the only order.
    """

    now: datetime
    vat_check: VatCheck | None = None
    currency: str | None = None
    order_reference: str | None = None


def held_back_by(
    treatment: TaxTreatment,
    profile: TaxProfile,
    settings: Settings,
    language: str,
    *,
    needs_bank: bool = True,
    facts: KnownFacts | None = None,
) -> HeldBack:
    """What a live document with this treatment lacks. It is false if nothing is missing."""
    note = missing_note(treatment, profile, settings, language)
    names = missing_settings(settings, treatment, needs_bank=needs_bank)
    details = missing_details(treatment, profile)
    if profile.einvoice is not None:
        buyer = buyer_of("", "", profile, language)
        reference = None if facts is None else facts.order_reference
        wanted = missing_of_buyer(buyer, profile.einvoice, reference)
        details = (*details, *(each for each in wanted if each not in details))
        of_seller = missing_of_seller(seller_of(settings, language), profile.einvoice)
        names += [each for each in of_seller if each not in names]
    lacks = HeldBack((*names, *([note] if note else [])), details)
    if facts is None or treatment is TaxTreatment.NONE:
        return lacks
    lacks = replace(lacks, currency=facts.currency)
    check = facts.vat_check
    needs_proof = treatment is TaxTreatment.REVERSE_CHARGE and (not profile.tax_id or is_checked(profile.tax_id))
    if not needs_proof or (check is not None and check.proves(facts.now, settings.vat_check_max_age_days)):
        return lacks
    is_invalid = check is not None and check.outcome is VatOutcome.INVALID
    return replace(lacks, vat_id=profile.tax_id or "", is_invalid=is_invalid)


def missing_details(treatment: TaxTreatment, profile: TaxProfile | BuyerDetails) -> tuple[str, ...]:
    """The parts of the buyer's address that a document with this treatment must state, and that are not known."""
    if treatment is TaxTreatment.NONE:
        return ()
    has_postcodes = profile.country not in WITHOUT_POSTCODES
    parts = ("street", *(["postcode"] if has_postcodes else []), "city", "country")
    return tuple(part for part in parts if not getattr(profile, part))
