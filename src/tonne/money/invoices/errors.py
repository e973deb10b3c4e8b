from tonne.platform.values.errors import Kind, TonneError


class InvoiceNotFound(TonneError, kind=Kind.NOT_FOUND, code="invoice_not_found"):
    message = "There is no such invoice. Run `tonne invoice list` to see all invoices."


class InvoiceNotAvailable(TonneError, kind=Kind.NOT_FOUND, code="invoice_not_available"):
    """The order exists, but has no invoice, or none yet."""

    message = "This order has no invoice: it is paid by card, its total is zero, or its invoice is not issued yet."


class InvoiceNotOpen(TonneError, kind=Kind.CONFLICT, code="invoice_not_open"):
    message = "The invoice is not open: it is already paid or cancelled."


class InvoiceWithoutRecipient(TonneError, kind=Kind.CONFLICT, code="invoice_without_recipient"):
    message = "The organisation has no admin. Add one with `tonne org add-admin`."


class OrderPaidByCard(TonneError, kind=Kind.CONFLICT, code="order_paid_by_card"):
    message = "This order is paid by card, not by invoice. Use the pay test helper."


class WriteOffInvalid(TonneError, kind=Kind.CONFLICT, code="write_off_invalid"):
    message = "The invoice cannot be written off."


class CreditTooHigh(TonneError, kind=Kind.CONFLICT, code="credit_too_high"):
    message = "The credit is higher than what is left of the invoice."


class CreditNoteNotFound(TonneError, kind=Kind.NOT_FOUND, code="credit_note_not_found"):
    message = "There is no such credit note."


class AssignmentInvalid(TonneError, kind=Kind.CONFLICT, code="assignment_invalid"):
    message = "The transfer cannot be assigned to this invoice."


class DoubtfulLineNotFound(TonneError, kind=Kind.NOT_FOUND, code="doubtful_line_not_found"):
    message = "There is no doubtful line with this id that waits for a decision. Run `tonne transfer doubtful`."


class StatementUploadNotFound(TonneError, kind=Kind.NOT_FOUND, code="statement_upload_not_found"):
    message = "This statement was imported or discarded, or it expired. Upload it again."
