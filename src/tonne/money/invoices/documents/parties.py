"""What an invoice states about the seller, the buyer and the tax, as it is when the invoice is issued."""

from collections.abc import Iterable
from datetime import UTC

from babel import Locale

from tonne.money.invoices.documents.record import (
    InvoiceBuyer,
    InvoiceSeller,
    InvoiceTax,
    PostalAddress,
    TaxRepresentative,
    VatProof,
)
from tonne.money.invoices.documents.seller_details import printed_tax_id, vat_id_of
from tonne.money.invoices.documents.tax_notes import tax_note
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import TaxTerms, TaxTreatment, format_money, format_rate
from tonne.platform.values.language import DEFAULT_LANGUAGE
from tonne.platform.values.tax_codes import code_of
from tonne.platform.values.tax_ids import country_of_vat
from tonne.selling.accounts.tax.tax_profile import TaxProfile
from tonne.selling.accounts.tax.vat_checks import VatCheck


def seller_of(settings: Settings, language: str = DEFAULT_LANGUAGE) -> InvoiceSeller:
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
        address_lines=_postal_lines(postal, language) or lines,
        tax_id=printed_tax_id(settings),
        email=settings.seller_email or None,
        vat_id=vat_id_of(settings),
        registration=settings.seller_registration or None,
        postal=postal,
        endpoint=settings.seller_endpoint or None,
        contact_name=settings.seller_contact_name or None,
        phone=settings.seller_phone or None,
        representative=_representative_of(settings),
    )


def _representative_of(settings: Settings) -> TaxRepresentative | None:
    if not settings.tax_representative_vat_id:
        return None
    vat_id = "".join(settings.tax_representative_vat_id.split()).upper()
    lines = address_lines(settings.tax_representative_address.replace(";", "\n"))
    return TaxRepresentative(settings.tax_representative_name, lines, vat_id, country_of_vat(vat_id))


def buyer_of(
    name: str, address: str, profile: TaxProfile, language: str, vat_check: VatCheck | None = None
) -> InvoiceBuyer:
    """`vat_check` is what is known of the VAT id, if the document is based on it."""
    postal = None
    if profile.country is not None:
        postal = PostalAddress(profile.country, profile.street, profile.postcode, profile.city)
    return InvoiceBuyer(
        name,
        _postal_lines(postal, language) or address_lines(address),
        tax_id=profile.tax_id,
        reference=profile.buyer_reference,
        postal=postal,
        vat_check=None if vat_check is None else _proof_of(vat_check),
        endpoint=profile.endpoint,
    )


def _proof_of(check: VatCheck) -> VatProof:
    day = check.checked_at.astimezone(UTC).date()
    return VatProof(day.isoformat(), check.source, check.consultation_number)


def rate_text(tax: TaxTerms) -> str | None:
    """In per cent; None unless tax is charged."""
    return format_rate(tax.rate) if tax.treatment is TaxTreatment.STANDARD else None


def taxes_of(
    groups: Iterable[tuple[TaxTerms, int, int]],
    currency: str,
    profile: TaxProfile,
    settings: Settings,
    *,
    language: str,
    oss_country: str | None = None,
) -> list[InvoiceTax]:
    """One line per treatment and rate, from its net amount and its tax. None at all if no treatment mentions tax.

    `oss_country` is the one whose tax it is, if it is not that of the seller.
    """
    found = list(groups)
    if all(tax.treatment is TaxTreatment.NONE for tax, _, _ in found):
        return []
    return [
        InvoiceTax(
            code=code_of(
                oss_country or settings.seller_country or None,
                tax.treatment,
                tax.rate,
                oss=oss_country is not None,
            ),
            treatment=tax.treatment.value,
            rate=rate_text(tax),
            net=format_money(net_minor, currency),
            tax=format_money(tax_minor, currency),
            note=tax_note(tax.treatment, profile, settings, language),
        )
        for tax, net_minor, tax_minor in found
    ]


def address_lines(address: str) -> list[str]:
    return [line.strip() for line in address.splitlines() if line.strip()]


def _postal_lines(postal: PostalAddress | None, language: str) -> list[str]:
    """None without street and city: the address as free text may have more."""
    if postal is None or not postal.street or not postal.city:
        return []
    town = " ".join(part for part in (postal.postcode, postal.city) if part)
    return [postal.street, town, str(Locale(language).territories.get(postal.country, postal.country))]
