"""The form that replaces an invoice with a wrong reference or address, for organisations and for the operator."""

from typing import Any

from tonne.apps.dashboard.viewer import Form
from tonne.money.invoices.credit_notes.replace_invoice import InvoiceReplacement, StatedBuyer
from tonne.platform.web.visitor import DEFAULT

_LONGEST = 200
FIELDS = ("name", "street", "postcode", "city", "reference")


def proposed(found: InvoiceReplacement) -> Form:
    """The form as it is shown first."""
    return Form({name: [getattr(found.stated, name)] for name in FIELDS})


def read_stated(form: Form, found: InvoiceReplacement, *, with_name: bool) -> StatedBuyer:
    """Only an operator states another name: that is another buyer."""
    texts = {name: form.value(name)[:_LONGEST] for name in FIELDS}
    return StatedBuyer(**(texts if with_name else texts | {"name": found.stated.name}))


def facts_of(found: InvoiceReplacement) -> dict[str, Any]:
    """What the page shows beside the form."""
    return {
        "record": found.record,
        "country": DEFAULT.territories.get(found.country or "", found.country),
        "stated_name": found.stated.name,
    }
