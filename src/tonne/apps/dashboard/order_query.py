"""The filters of a list of orders, as they are in the address of the page."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypeVar
from urllib.parse import urlencode

from msgspec import Struct

from tonne.apps.dashboard.viewer import Form
from tonne.platform.http.route import Request
from tonne.platform.values.context import Mode, is_id, replace
from tonne.platform.values.paging import Position, make_cursor, parse_cursor
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.orders.model import OrderStatus, PaymentState
from tonne.selling.orders.order_filter import OrderFilter

E = TypeVar("E", bound=StrEnum)
MAX_TERM = 255
NAMES = ("q", "status", "payment", "method", "account", "organisation", "since", "until", "stuck")


class OrderQuery(Struct, frozen=True):
    """`shown` are the filters as typed, without empty ones. `form` has the faults."""

    term: str
    filter: OrderFilter
    start: Position
    shown: Mapping[str, str]
    form: Form

    @property
    def list_name(self) -> str:
        """Binds cursors to the list: that of other filters begins elsewhere."""
        return f"orders {self.filter.mode} {self.filter.organisation_id} {self.query_string}"

    @property
    def with_metadata(self) -> OrderFilter:
        """For a term that names no order: it may be in the metadata, where clients keep their own references."""
        return replace(self.filter, metadata_part=self.term or None)

    @property
    def query_string(self) -> str:
        return urlencode(self.shown)

    def next_page(self, position: Position | None) -> str | None:
        """The query string of the next page."""
        if position is None:
            return None
        return urlencode({**self.shown, "after": make_cursor(position, self.list_name)})


def read_query(request: Request, mode: Mode, organisation_id: str | None, now: datetime) -> OrderQuery:
    """Raises CursorInvalid. Members pass their organisation; the operator may choose one."""
    given = zip(NAMES, request.query(*NAMES), strict=True)
    shown = {name: text.strip()[:MAX_TERM] for name, text in given if text is not None and text.strip()}
    if organisation_id is not None:
        shown.pop("organisation", None)
        shown.pop("stuck", None)
    form = Form({name: [text] for name, text in shown.items()})
    until = form.day("until")
    chosen = form.value("organisation")
    if chosen and not is_id("org", chosen):
        form.fail("organisation", "Enter the id of an organisation, such as org_06gtv1alff3htg9thvlvj59t20.")
    requested = OrderFilter(
        mode=mode,
        organisation_id=organisation_id or chosen or None,
        account_id=form.value("account") or None,
        status=_choice(OrderStatus, form.value("status")),
        payment_state=_choice(PaymentState, form.value("payment")),
        payment_method=_choice(PaymentMethod, form.value("method")),
        created_after=form.day("since"),
        created_before=None if until is None else until + timedelta(days=1),
        stuck_at=now if form.value("stuck") else None,
    )
    query = OrderQuery(form.value("q"), requested, Position(now, ""), shown, form)
    (after,) = request.query("after")
    return replace(query, start=parse_cursor(after, query.list_name))


def _choice(kind: type[E], text: str) -> E | None:
    """None also for a value that is not on offer: only a hand-written address has one."""
    return kind(text) if text in set(kind) else None
