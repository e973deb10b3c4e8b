"""How the next invoice of an organisation would look: an example that has no number and is not stored."""

from datetime import date

from tonne.money.invoices.documents.parties import rate_text, seller_of, taxes_of
from tonne.money.invoices.documents.record import InvoiceFee, InvoiceLine, InvoiceRecord, Treatment
from tonne.money.invoices.model import FEE_LABEL, BilledOrganisation, bank_of, nature_of
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import format_money, tax_on
from tonne.selling.catalogue.prices.reference_rates import home_currency_of

_PRICE_MINOR, _FEE_MINOR = 1250, 150
_NUMBER = "PREVIEW"


def preview_record(
    organisation: BilledOrganisation, settings: Settings, today: date, *, language: str
) -> InvoiceRecord:
    """One tonne at an example price, taxed and addressed as an invoice that is issued now."""
    terms, currency = organisation.tax.terms(settings.seller_tax), home_currency_of(settings) or "EUR"
    net_minor = _PRICE_MINOR + _FEE_MINOR
    tax_minor = tax_on(net_minor, terms.treatment, terms.rate)
    price, fee = format_money(_PRICE_MINOR, currency), format_money(_FEE_MINOR, currency)
    treatment: Treatment = terms.treatment.value
    rate = rate_text(terms)
    line = InvoiceLine(nature_of("Example", language), "1", price, price, treatment=treatment, rate=rate)
    return InvoiceRecord(
        number=_NUMBER,
        mode="test",
        issued_on=today.isoformat(),
        due_on=today.isoformat(),
        order_id="",
        seller=seller_of(settings, language),
        buyer=organisation.buyer([terms.treatment], language),
        currency=currency,
        lines=[line],
        fee=InvoiceFee(FEE_LABEL, fee, treatment, rate),
        total=format_money(net_minor + tax_minor, currency),
        bank=bank_of(settings, currency),
        reference=_NUMBER,
        note="Preview: this is not an invoice.",
        taxes=taxes_of([(terms, net_minor, tax_minor)], currency, organisation.tax, settings, language=language),
        language=language,
        einvoice=organisation.tax.einvoice,
    )
