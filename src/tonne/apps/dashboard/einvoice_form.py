"""The part of a form about tax that says which electronic invoice an organisation wants, and where it goes."""

from typing import Any

from tonne.apps.dashboard.viewer import Form
from tonne.money.invoices.documents.einvoice_fields import missing_of_buyer
from tonne.money.invoices.documents.parties import buyer_of
from tonne.platform.values.context import replace
from tonne.platform.values.einvoice import EInvoiceFormat, parse_endpoint
from tonne.platform.values.language import DEFAULT_LANGUAGE
from tonne.selling.accounts.tax.tax_profile import TaxProfile

CHOICES = [
    ("", "None: the PDF contains one (Factur-X)"),
    (EInvoiceFormat.PEPPOL, "Peppol BIS Billing 3"),
    (EInvoiceFormat.XRECHNUNG, "XRechnung 3.0"),
]
# The inputs for what a format demands.
_INPUTS = {"reference": "buyer_reference", "electronic address": "endpoint"}


def read_einvoice(form: Form, profile: TaxProfile, changes: dict[str, Any]) -> None:
    """Check the format in `changes`, and that the changed profile has what it demands."""
    chosen = changes.get("einvoice")
    if chosen is None:
        return
    if chosen not in set(EInvoiceFormat):
        form.fail("einvoice", "Choose a format.")
        return
    wanted = changes["einvoice"] = EInvoiceFormat(chosen)
    changed = replace(profile, **changes)
    try:
        changed = replace(changed, endpoint=changed.endpoint and parse_endpoint(changed.endpoint))
    except ValueError as error:
        form.fail("endpoint", str(error))
        return
    # For Peppol the references of the orders do.
    reference = None if wanted is EInvoiceFormat.XRECHNUNG else "of the order"
    for part in missing_of_buyer(buyer_of("", "", changed, DEFAULT_LANGUAGE), wanted, reference):
        also = " Peppol takes no e-mail address." if part == "electronic address" and changed.endpoint else ""
        form.fail(_INPUTS.get(part, part), f"The electronic invoice needs the {part}.{also}")
