"""What a live invoice must state about the seller. Until it is set, live orders wait for their invoices."""

from tonne.platform.settings.settings import DEFAULT_SELLER_NAME, Settings
from tonne.platform.values.amounts import TaxTreatment
from tonne.platform.values.tax_ids import is_eu_vat, parse_tax_id

# The value of `seller_tax_id` for a seller that has none.
NO_TAX_ID = "none"


def missing_settings(
    settings: Settings, treatment: TaxTreatment = TaxTreatment.NONE, *, needs_bank: bool = True
) -> list[str]:
    """The variables to set before live invoices with this tax treatment are issued.

    Without them a customer cannot pay or book an invoice. One that a card pays needs no bank account.
    """
    is_taxed = treatment is not TaxTreatment.NONE
    has_address = bool(settings.seller_address.strip(" ;\n")) or bool(settings.seller_street and settings.seller_city)
    own_ids = printed_tax_id(settings), vat_id_of(settings)
    has_tax_id = any(own_ids) or bool(settings.tax_representative_vat_id)
    if treatment is TaxTreatment.REVERSE_CHARGE:
        has_tax_id = vat_id_of(settings) is not None
    given = {
        "TONNE_SELLER_NAME": settings.seller_name != DEFAULT_SELLER_NAME,
        "TONNE_SELLER_ADDRESS": has_address,
        "TONNE_SELLER_TAX_ID": bool(settings.seller_tax_id.strip()) or vat_id_of(settings) is not None,
        "TONNE_BANK_IBAN": bool(settings.bank_iban) or not needs_bank,
        "TONNE_SELLER_COUNTRY": not is_taxed or bool(settings.seller_country),
        "TONNE_SELLER_VAT_ID": not is_taxed or treatment is TaxTreatment.OUTSIDE_SCOPE or has_tax_id,
    }
    return [name for name, is_given in given.items() if not is_given]


def printed_tax_id(settings: Settings) -> str | None:
    text = settings.seller_tax_id.strip()
    return None if not text or text.lower() == NO_TAX_ID else text


def vat_id_of(settings: Settings) -> str | None:
    """The VAT number of the seller: its own setting, else the tax id if it is one."""
    if settings.seller_vat_id:
        return parse_tax_id(settings.seller_vat_id, settings.seller_country or None)
    tax_id = printed_tax_id(settings)
    return "".join(tax_id.split()).upper() if tax_id is not None and is_eu_vat(tax_id) else None
