"""What the pages after a payment show of an order, both the checkout's and the one that mails link to."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from tonne.channels.public_pages.model import project_path
from tonne.money.invoices.documents.parties import seller_of
from tonne.money.receipts.compose import tax_name
from tonne.money.receipts.expected_completion import Expectation, expected_completion
from tonne.money.receipts.order_documents import OrderDocument, list_order_documents
from tonne.platform.db.database import Connection
from tonne.platform.settings.settings import Settings
from tonne.platform.web.wording import LocalWording
from tonne.selling.accounts.logos.merchant import Merchant, find_merchant
from tonne.selling.orders.mails.order_links import find_order_url
from tonne.selling.orders.model import Order, PaymentState
from tonne.supply.certificates.record import CertificateRecord
from tonne.supply.certificates.store import find_certificate, find_withdrawal


class OrderSummary(msgspec.Struct, frozen=True):
    order: Order
    merchant: Merchant
    expectation: Expectation
    # The address of the order's page; None if no mail has it.
    url: str | None
    certificate: CertificateRecord | None
    # Why that certificate was withdrawn, if it was.
    withdrawn_reason: str | None
    # The public page of the certificate; None if it has none.
    share_url: str | None
    # Its tax documents, for the payer; empty until the first is issued.
    documents: Sequence[OrderDocument] = ()
    # Names and addresses of pages.
    projects: Sequence[tuple[str, str]] = ()


# The account publishes its certificates, and this one is not in the name of a person who did not agree to that.
IS_SHOWN = """
SELECT EXISTS (
    SELECT FROM certificates
    JOIN sustainability_pages page ON page.organisation_id = certificates.organisation_id
                                  AND page.mode = certificates.mode AND page.account_id = certificates.account_id
    JOIN accounts ON accounts.id = page.account_id AND accounts.external_pages_visibility <> 'private'
    WHERE certificates.account_id = $1 AND certificates.order_id = $2 AND certificates.state = 'valid'
      AND certificates.is_public AND page.enabled AND 'certificates' = ANY (page.sections))
"""


LIST_PROJECTS = """
SELECT DISTINCT projects.name, projects.slug FROM order_projects sold
JOIN projects ON projects.mode = $3 AND projects.id = sold.project_id
WHERE sold.account_id = $1 AND sold.order_id = $2 ORDER BY projects.name LIMIT 20
"""


async def list_project_paths(connection: Connection, order: Order) -> list[tuple[str, str]]:
    """The names of the projects of the order, and the addresses of their pages."""
    rows = await connection.fetch(LIST_PROJECTS, order.scope.account_id, order.id, order.scope.mode)
    return [(row["name"], project_path(order.scope.mode, row["slug"])) for row in rows]


async def read_order_summary(
    connection: Connection, order: Order, *, settings: Settings, now: datetime
) -> OrderSummary:
    record = await find_certificate(connection, order.scope, order.id)
    is_shown = record is not None and await connection.fetchval(IS_SHOWN, order.scope.account_id, order.id)
    return OrderSummary(
        order,
        await find_merchant(connection, order.scope, order.offset_link_id),
        await expected_completion(connection, order, settings=settings, now=now),
        await find_order_url(connection, order, settings=settings),
        record,
        await find_withdrawal(connection, order.scope, order.id),
        order.public_certificate_url if is_shown else None,
        await list_order_documents(connection, order),
        await list_project_paths(connection, order),
    )


def summary_values(summary: OrderSummary, wording: LocalWording, settings: Settings) -> dict[str, Any]:
    """The values of `_order_summary.html`, `_steps.html` and `_certificate.html`."""
    _, order, expectation = wording.translate, summary.order, summary.expectation
    seller = seller_of(settings)
    has_receipt = order.payment_state is not PaymentState.UNPAID and order.priced is not None
    return {
        "order": order,
        "priced": order.priced,
        "tax_name": tax_name(order, wording),
        "projects": summary.projects,
        "merchant": summary.merchant,
        "expectation": expectation.describe(wording),
        "expected_by": None if expectation.is_late else expectation.by,
        "certificate": summary.certificate,
        "withdrawn_reason": summary.withdrawn_reason,
        "share_url": summary.share_url,
        "receipt_url": f"{summary.url}/receipt" if summary.url and has_receipt else None,
        "documents": [
            (each.name(wording), each.reference, f"{summary.url}/documents/{each.reference}" if is_linked else None)
            for each in summary.documents
            for is_linked in [summary.url is not None and each.is_readable]
        ],
        "seller_lines": seller.address_lines,
        "seller_email": seller.email,
        "payment_text": {
            PaymentState.UNPAID: _("Not paid yet"),
            PaymentState.PAID: _("Paid"),
            PaymentState.REFUNDED: _("Refunded"),
            PaymentState.DISPUTED: _("Disputed with the bank"),
        },
    }
