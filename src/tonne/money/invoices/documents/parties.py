"""What an invoice states about the seller, the buyer and the tax, as it is when the invoice is issued."""

from collections.abc import Iterable

from tonne.money.invoices.documents.record import InvoiceBuyer, InvoiceSeller, InvoiceTax, PostalAddress
from tonne.money.invoices.documents.seller_details import printed_tax_id, vat_id_of
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import TaxTerms, TaxTreatment, format_money, format_rate
from tonne.selling.accounts.tax.tax_profile import TaxProfile


def seller_of(settings: Settings) -> InvoiceSeller:
    postal = None
    if settings.seller_country:
        postal = PostalAddress(
            settings.seller_country,
            settings.seller_street or None,
            settings.seller_postcode or None,
            settings.seller_city or None,
        )
    lines = address_lines(settings.seller_address.replace(";", "\n"))
    return InvoiceSeller(
        name=settings.seller_name,
        address_lines=lines or _postal_lines(postal),
        tax_id=printed_tax_id(settings),
        email=settings.seller_email or None,
        vat_id=vat_id_of(settings),
        registration=settings.seller_registration or None,
        postal=postal,
    )


def buyer_of(name: str, address: str, profile: TaxProfile) -> InvoiceBuyer:
    postal = None
    if profile.country is not None:
        postal = PostalAddress(profile.country, profile.street, profile.postcode, profile.city)
    return InvoiceBuyer(
        name,
        address_lines(address) or _postal_lines(postal),
        tax_id=profile.tax_id,
        reference=profile.buyer_reference,
        postal=postal,
    )


def rate_text(tax: TaxTerms) -> str | None:
    """In per cent; None unless tax is charged."""
    return format_rate(tax.rate) if tax.treatment is TaxTreatment.STANDARD else None


def taxes_of(
    groups: Iterable[tuple[TaxTerms, int, int]], currency: str, profile: TaxProfile, settings: Settings
) -> list[InvoiceTax]:
    """One line per treatment and rate, from its net amount and its tax. None at all if no treatment mentions tax."""
    found = list(groups)
    if all(tax.treatment is TaxTreatment.NONE for tax, _, _ in found):
        return []
    return [
        InvoiceTax(
            treatment=tax.treatment.value,
            rate=rate_text(tax),
            net=format_money(net_minor, currency),
            tax=format_money(tax_minor, currency),
            note=_note(tax.treatment, profile, settings),
        )
        for tax, net_minor, tax_minor in found
    ]


def _note(treatment: TaxTreatment, profile: TaxProfile, settings: Settings) -> str | None:
    """An organisation's own note belongs to its own treatment."""
    if treatment is TaxTreatment.NONE:
        return None
    if profile.legal_note is not None and profile.treatment in {treatment, None}:
        return profile.legal_note
    notes = {
        TaxTreatment.REVERSE_CHARGE: settings.tax_note_reverse_charge,
        TaxTreatment.EXEMPT: settings.tax_note_exempt,
        TaxTreatment.OUTSIDE_SCOPE: settings.tax_note_outside_scope,
    }
    return notes.get(treatment) or None


def address_lines(address: str) -> list[str]:
    return [line.strip() for line in address.splitlines() if line.strip()]


def _postal_lines(postal: PostalAddress | None) -> list[str]:
    if postal is None:
        return []
    town = " ".join(part for part in (postal.postcode, postal.city) if part)
    lines = [line for line in (postal.street, town) if line]
    return [*lines, postal.country] if lines else []
