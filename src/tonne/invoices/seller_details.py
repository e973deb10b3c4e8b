"""What a live invoice must state about the seller. Until it is set, live orders wait for their invoices."""

from tonne.base.settings import DEFAULT_SELLER_NAME, Settings

# The value of `seller_tax_id` for a seller that has none.
NO_TAX_ID = "none"


def missing_settings(settings: Settings) -> list[str]:
    """The variables to set before live invoices are issued. Without them a customer cannot pay or book an invoice."""
    given = {
        "TONNE_SELLER_NAME": settings.seller_name != DEFAULT_SELLER_NAME,
        "TONNE_SELLER_ADDRESS": bool(settings.seller_address.strip(" ;\n")),
        "TONNE_SELLER_TAX_ID": bool(settings.seller_tax_id.strip()),
        "TONNE_BANK_IBAN": bool(settings.bank_iban),
    }
    return [name for name, is_given in given.items() if not is_given]


def printed_tax_id(settings: Settings) -> str | None:
    text = settings.seller_tax_id.strip()
    return None if not text or text.lower() == NO_TAX_ID else text
