from tonne.base.errors import Kind, TonneError


class InvoiceNotFound(TonneError):
    kind = Kind.NOT_FOUND
    code = "invoice_not_found"
    message = "There is no such invoice: `tonne invoice list` shows them all."


class InvoiceNotAvailable(TonneError):
    """The order is there, its invoice is not, or not yet."""

    kind = Kind.NOT_FOUND
    code = "invoice_not_available"
    message = "This order has no invoice: it is paid by card, has nothing to pay, or its invoice is not issued yet."


class InvoiceNotOpen(TonneError):
    kind = Kind.CONFLICT
    code = "invoice_not_open"
    message = "The invoice is not open: it is paid or cancelled already."


class OrderPaidByCard(TonneError):
    kind = Kind.CONFLICT
    code = "order_paid_by_card"
    message = "This order is paid by card, not by invoice: use pay of the test helpers."
