"""The tax documents of an order for the person who paid: those of a card payment for this order alone."""

from collections.abc import Sequence

from msgspec import Struct

from tonne.money.invoices.credit_notes.credit_note import CreditCause
from tonne.money.invoices.tax_documents import DocumentKind
from tonne.platform.db.database import Connection, value_of
from tonne.platform.web.wording import LocalWording
from tonne.selling.orders.model import Order


class OrderDocument(Struct, frozen=True):
    id: str
    kind: DocumentKind
    reference: str
    # Of the order: the invoice that counts, and not one that it replaced.
    is_in_force: bool
    # By everybody who has the link to the order.
    is_readable: bool
    # Of a credit note: what it is for.
    cause: CreditCause | None = None
    refund_id: str | None = None

    def name(self, wording: LocalWording) -> str:
        _ = wording.translate
        names = {
            DocumentKind.INVOICE: _("Invoice"),
            DocumentKind.SIMPLIFIED_INVOICE: _("Receipt (simplified invoice)"),
            DocumentKind.CREDIT_NOTE: _("Credit note"),
        }
        return names[self.kind]


# An invoice of several orders, or of the organisation that pays by transfer, is not for everybody who has the link: its
# number is shown.
LIST_DOCUMENTS = """
SELECT document.id, document.kind, document.reference, note.cause, note.refund_id, billed.is_readable,
       document.id = billed.in_force AS is_in_force
FROM (SELECT invoices.id, coalesce(invoices.replaced_by, invoices.id) AS in_force,
             invoices.order_count = 1 AND invoices.payment_method = 'card' AS is_readable
      FROM invoice_orders JOIN invoices ON invoices.id = invoice_orders.invoice_id
      WHERE invoice_orders.account_id = $1 AND invoice_orders.order_id = $2) AS billed
CROSS JOIN LATERAL (
    VALUES (billed.in_force), (CASE WHEN billed.is_readable THEN billed.id END)
    UNION
    SELECT issued.id FROM credit_notes CROSS JOIN LATERAL (VALUES (credit_notes.id), (taken_back_by)) AS issued (id)
    WHERE credit_notes.invoice_id = billed.id AND billed.is_readable
) AS part (id)
JOIN tax_documents document ON document.id = part.id
LEFT JOIN credit_notes note ON note.id = document.id
ORDER BY document.created_at, document.corrects IS NOT NULL, document.id
"""


async def list_order_documents(connection: Connection, order: Order) -> list[OrderDocument]:
    """Oldest first. Empty until the invoice is issued."""
    rows = await connection.fetch(LIST_DOCUMENTS, order.scope.account_id, order.id)
    return [value_of(OrderDocument, row) for row in rows]


def invoice_of(documents: Sequence[OrderDocument]) -> OrderDocument | None:
    """The invoice of the order: the newest one, if an earlier one was cancelled."""
    return next((each for each in reversed(documents) if each.is_in_force and each.is_readable), None)
