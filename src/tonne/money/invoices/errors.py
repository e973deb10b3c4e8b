from tonne.platform.values.errors import Kind, TonneError


class InvoiceNotFound(TonneError, kind=Kind.NOT_FOUND, code="invoice_not_found"):
    """On the command line: there is no such invoice.

    See `tonne invoice list`.
    """

    message = "There is no such invoice. Run `tonne invoice list` to see all invoices."


class InvoiceNotAvailable(TonneError, kind=Kind.NOT_FOUND, code="invoice_not_available"):
    """The order is not paid, its total is zero, or its invoice is not issued yet; the message says if it waits for the
    seller or the buyer.

    Read it again in a moment.

    The order exists, but has no invoice, or none yet.
    """

    message = "This order has no invoice: it is not paid yet, its total is zero, or its invoice is not issued yet."


class InvoiceNotReplaced(TonneError, kind=Kind.CONFLICT, code="invoice_not_replaced"):
    """In the dashboard: an invoice is to be replaced that is cancelled or written off, or that states the same already.

    See its page.
    """

    message = "The invoice cannot be replaced."


class InvoiceNotOpen(TonneError, kind=Kind.CONFLICT, code="invoice_not_open"):
    """The invoice to settle is already paid or cancelled, or its order is not placed.

    Read the order again.
    """

    message = "The invoice is not open: it is already paid or cancelled."


class InvoiceWithoutRecipient(TonneError, kind=Kind.CONFLICT, code="invoice_without_recipient"):
    """On the command line: an invoice is resent, but the organisation has no admin.

    Add one with `tonne org add-admin`.
    """

    message = "The organisation has no admin. Add one with `tonne org add-admin`."


class OrderPaidByCard(TonneError, kind=Kind.CONFLICT, code="order_paid_by_card"):
    """The test helper for invoices is used for an order that a card pays alone.

    Use `pay`.
    """

    message = "This order is paid by card, not by invoice. Use the pay test helper."


class WriteOffInvalid(TonneError, kind=Kind.CONFLICT, code="write_off_invalid"):
    """On the command line: an invoice is written off whose orders were not fulfilled, of which nothing is left, or
    that is written off already; or one is approved or reinstated that is not written off.

    See `tonne invoice show`; cancel orders that were not fulfilled.
    """

    message = "The invoice cannot be written off."


class DifferenceInvalid(TonneError, kind=Kind.CONFLICT, code="difference_invalid"):
    """On the command line: a difference is booked although nothing is missing, or one that is too large.

    See `tonne invoice show`.
    """

    message = "This difference cannot be booked."


class CreditTooHigh(TonneError, kind=Kind.CONFLICT, code="credit_too_high"):
    """A credit note would take off more than is left of the order or of its invoice.

    Credit less.
    """

    message = "The credit is higher than what is left of the invoice."


class CreditNoteNotFound(TonneError, kind=Kind.NOT_FOUND, code="credit_note_not_found"):
    """There is no such credit note, or it credits no order of this account.

    List those of the order.
    """

    message = "There is no such credit note."


class AssignmentInvalid(TonneError, kind=Kind.CONFLICT, code="assignment_invalid"):
    """On the command line: a transfer is assigned to an invoice that needs no money, in another currency or mode, or
    more than is left.

    Run `tonne transfer show` and assign at most what is left.
    """

    message = "The transfer cannot be assigned to this invoice."


class DoubtfulLineNotFound(TonneError, kind=Kind.NOT_FOUND, code="doubtful_line_not_found"):
    """On the command line: a decision is made about a line that does not exist or was decided.

    Run `tonne transfer doubtful`.
    """

    message = "There is no doubtful line with this id that waits for a decision. Run `tonne transfer doubtful`."


class StatementUploadNotFound(TonneError, kind=Kind.NOT_FOUND, code="statement_upload_not_found"):
    """On the command line: an uploaded bank statement is opened that was imported or discarded, or expired.

    Upload it again.
    """

    message = "This statement was imported or discarded, or it expired. Upload it again."
