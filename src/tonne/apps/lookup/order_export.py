"""A list of orders as CSV: exact values, one row per order."""

from collections.abc import AsyncGenerator, Awaitable, Callable

from tonne.apps.lookup.find_orders import FoundOrder, ListedOrders
from tonne.platform.documents.sheets.csv_text import csv_text
from tonne.platform.http.route import Response
from tonne.platform.values.amounts import format_money, format_tonnes
from tonne.platform.values.context import to_wire
from tonne.platform.values.paging import START, Position
from tonne.selling.accounts.directory import Names
from tonne_verify.formulas import escape_formula

CSV = b"text/csv; charset=utf-8"
# Rows per query. Between two of them no connection is held: slow readers block nobody.
PAGE = 300
HEAD = (
    *("order_id", "created_at", "status", "payment_state", "payment_method", "account_id", "account_name"),
    *("quantity_tonnes", "currency", "total_cost", "amount_due", "refunded_amount", "beneficiary", "email"),
    *("idempotency_key", "offset_link_id", "external_id", "reference", "metadata"),
)
ORGANISATION_HEAD = ("organisation_id", "organisation_name")
ReadPage = Callable[[Position, int], Awaitable[tuple[ListedOrders, Names]]]


def csv_response(read_page: ReadPage, file_name: str, *, with_organisation: bool = False) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{file_name}"', "Cache-Control": "no-store"}
    return Response(b"", 200, CSV, headers, _rows(read_page, with_organisation=with_organisation))


async def _rows(read_page: ReadPage, *, with_organisation: bool) -> AsyncGenerator[bytes]:
    yield csv_text([(*HEAD, *(ORGANISATION_HEAD if with_organisation else ()))]).encode()
    start: Position | None = START
    while start is not None:
        page, names = await read_page(start, PAGE)
        rows = (_row(order, names, with_organisation=with_organisation) for order in page.orders)
        if page.orders:
            yield csv_text(rows).encode()
        start = page.next


def _row(order: FoundOrder, names: Names, *, with_organisation: bool) -> tuple[str, ...]:
    """Text of others is escaped: a spreadsheet would run `=…` as a formula."""
    own = (order.id, to_wire(order.created_at), order.status, order.payment_state, order.payment_method)
    amounts = (order.total_cost_minor, order.amount_due_minor, order.refunded_minor)
    own_names = (order.external_id, order.reference)
    texts = (order.beneficiary, order.email, order.idempotency_key, order.offset_link_id, *own_names, order.metadata)
    organisation = (order.organisation_id, escape_formula(names.of(order.organisation_id)))
    return (
        *(*own, order.account_id, escape_formula(names.of(order.account_id))),
        "" if order.quantity_grams is None else format_tonnes(order.quantity_grams),
        order.currency,
        *("" if amount is None else format_money(amount, order.currency) for amount in amounts),
        *(escape_formula(text or "") for text in texts),
        *(organisation if with_organisation else ()),
    )
