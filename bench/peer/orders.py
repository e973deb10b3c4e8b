"""SQL of the peer: place an order with its outbox events, read one, list them."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

import orjson
from sqlalchemy import CTE, BindParameter, Integer, Select, Text, bindparam, exists, func, select, true, tuple_
from sqlalchemy.dialects.postgresql import ARRAY, aggregate_order_by, insert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from bench.peer.catalogue import Account
from bench.peer.pricing import Bundle, Priced, PricedLine, price
from bench.peer.tables import Base, EstimateRow, OrderLineRow, OrderRow, OutboxRow
from tonne.platform.values.context import new_id


class OrderFields(NamedTuple):
    """The columns of an order that its document shows."""

    id: str
    idempotency_key: str
    type: str
    status: str
    currency: str
    payment_method: str
    payment_state: str
    requested_quantity_grams: int | None
    requested_value_minor: int | None
    quantity_grams: int
    offset_cost_minor: int
    total_cost_minor: int
    commission_minor: int
    tax_minor: int
    refunded_minor: int
    estimate_id: str | None
    offset_link_id: str | None
    email: str | None
    beneficiary: str
    failure_reason: str | None
    cancellation_reason: str | None
    order_metadata: str
    created_at: datetime


_LINES = (
    select(
        func.json_agg(
            aggregate_order_by(
                func.json_build_array(*[getattr(OrderLineRow, name) for name in PricedLine._fields]),
                OrderLineRow.position,
            )
        )
    )
    .where(OrderLineRow.account_id == OrderRow.account_id, OrderLineRow.order_id == OrderRow.id)
    .correlate(OrderRow)
    .scalar_subquery()
)
# One statement: the lines come with their order as one value.
_SELECT = select(*[getattr(OrderRow, name) for name in OrderFields._fields], _LINES.label("lines"))


_FIND_MASS = select(EstimateRow.mass_grams).where(
    EstimateRow.account_id == bindparam("account_id"), EstimateRow.id == bindparam("estimate_id")
)
_BY_KEY = _SELECT.where(
    OrderRow.account_id == bindparam("account_id"), OrderRow.idempotency_key == bindparam("idempotency_key")
)
_ORIGINAL = _BY_KEY.add_columns(OrderRow.request_digest)
_PAGE = (
    _SELECT.where(
        OrderRow.account_id == bindparam("account_id"),
        tuple_(OrderRow.created_at, OrderRow.id) < tuple_(bindparam("created_at"), bindparam("id")),
    )
    .order_by(OrderRow.created_at.desc(), OrderRow.id.desc())
    .limit(bindparam("limit", type_=Integer))
)
# Newer than every order: the first page has the query and the plan of the others.
_START = (datetime(9999, 12, 31, tzinfo=UTC), "~")


def _array(table: type[Base], column: str) -> BindParameter[Any]:
    return bindparam(f"{table.__tablename__}_{column}", type_=ARRAY(table.__table__.c[column].type))


def _insert_rows(table: type[Base], columns: Sequence[str], new: CTE, own: dict[str, Any], *, numbered: bool) -> CTE:
    """Insert rows for a new order, one for each element of the arrays."""
    arrays = func.unnest(*[_array(table, column) for column in columns])
    rows = arrays.table_valued(
        *columns, with_ordinality="position", name=f"{table.__tablename__}_rows"
    ).render_derived()
    chosen = [*own.values(), *[rows.c[column] for column in columns], *([rows.c.position] if numbered else [])]
    names = [*own, *columns, *(["position"] if numbered else [])]
    query = select(*chosen).select_from(new).join(rows, true())
    return insert(table).from_select(names, query).cte(f"new_{table.__tablename__}")


def _place_statement() -> Select[Any]:
    """One statement, and so one round trip and one commit: nothing is inserted if the idempotency key is taken."""
    values = {column.name: bindparam(column.name, type_=column.type) for column in OrderRow.__table__.columns}
    created = insert(OrderRow).values(values)
    created = created.on_conflict_do_nothing(index_elements=["account_id", "idempotency_key"])
    new = created.returning(OrderRow.account_id, OrderRow.id, OrderRow.created_at).cte("new")
    of_line = {"account_id": new.c.account_id, "order_id": new.c.id}
    lines = _insert_rows(OrderLineRow, PricedLine._fields, new, of_line, numbered=True)
    organisation_id = bindparam("organisation_id", type_=Text)
    of_event = {"organisation_id": organisation_id, "account_id": new.c.account_id, "created_at": new.c.created_at}
    events = _insert_rows(OutboxRow, EVENT_FIELDS, new, of_event, numbered=False)
    return select(exists(select(new.c.id))).add_cte(lines, events)


EVENT_FIELDS = ("id", "event_type", "payload")
_PLACE = _place_statement()
_LINE_PARAMETERS = [f"{OrderLineRow.__tablename__}_{name}" for name in PricedLine._fields]
_EVENT_PARAMETERS = [f"{OutboxRow.__tablename__}_{name}" for name in EVENT_FIELDS]


class NewOrder(NamedTuple):
    """A validated request."""

    estimate_id: str
    idempotency_key: str | None
    digest: bytes
    selection: Sequence[tuple[str, int]] | None
    metadata: str


class EstimateUnknown(Exception):
    def __str__(self) -> str:
        return "There is no such estimate."


class BundleUnknown(Exception):
    def __str__(self) -> str:
        return "There is no such bundle on sale."


class Placed(NamedTuple):
    """`original_digest` is that of the first request if the key was used before."""

    document: bytes
    original_digest: bytes | None


async def place_order(engine: AsyncEngine, account: Account, new: NewOrder, bundles: dict[str, Bundle]) -> Placed:
    async with engine.connect() as connection:
        estimate = {"account_id": account.id, "estimate_id": new.estimate_id}
        mass_grams = await connection.scalar(_FIND_MASS, estimate)
        if mass_grams is None:
            raise EstimateUnknown
        selection = new.selection or account.default_selection
        if any(bundle_id not in bundles for bundle_id, _ in selection):
            raise BundleUnknown
        priced = price(mass_grams, selection, bundles, account.fee_rate, account.tax_rate)
        order = _compose(account, new, priced)
        document = order_document(order, priced.lines)
        placed = orjson.dumps(document)
        values = order._asdict()
        values |= {"account_id": account.id, "organisation_id": account.organisation_id, "request_digest": new.digest}
        for column, of_lines in zip(_LINE_PARAMETERS, zip(*priced.lines, strict=True), strict=True):
            values[column] = of_lines
        for column, of_events in zip(
            _EVENT_PARAMETERS, zip(*events_of(account, document, placed), strict=True), strict=True
        ):
            values[column] = of_events
        if await connection.scalar(_PLACE, values):
            return Placed(placed, None)
        return await _read_original(connection, account, order.idempotency_key)


def _compose(account: Account, new: NewOrder, priced: Priced) -> OrderFields:
    now = datetime.now(UTC)
    return OrderFields(
        id=new_id("ord"),
        idempotency_key=new.idempotency_key or new_id("auto"),
        type="quantity",
        status="placed",
        currency=account.currency,
        payment_method=account.payment_method,
        payment_state="unpaid",
        requested_quantity_grams=priced.quantity_grams,
        requested_value_minor=None,
        quantity_grams=priced.quantity_grams,
        offset_cost_minor=priced.offset_cost_minor,
        total_cost_minor=priced.total_cost_minor,
        commission_minor=priced.commission_minor,
        tax_minor=priced.tax_minor,
        refunded_minor=0,
        estimate_id=new.estimate_id,
        offset_link_id=None,
        email=None,
        beneficiary=account.beneficiary,
        failure_reason=None,
        cancellation_reason=None,
        order_metadata=new.metadata,
        created_at=now.replace(microsecond=now.microsecond // 1000 * 1000),
    )


_UNPRICED: dict[str, Any] = {
    "status": "received",
    **dict.fromkeys(("offset_cost", "total_cost", "commission", "quantity", "tax", "billing_adjustment", "amount_due")),
    "bundles": [],
}


def events_of(account: Account, document: dict[str, Any], placed: bytes) -> list[tuple[str, str, str]]:
    """The two events of a placed order, each with the values of EVENT_FIELDS."""
    return [
        _event(account, document, "order.received", document | _UNPRICED),
        _event(account, document, "order.placed", orjson.Fragment(placed)),
    ]


def _event(account: Account, document: dict[str, Any], event_type: str, shown: object) -> tuple[str, str, str]:
    event_id = new_id("evt")
    payload = {
        "api_version": "v1",
        "event_id": event_id,
        "account_id": account.id,
        "event_type": event_type,
        "sequence": document["created_at"],
        "data": {"order": shown},
    }
    return event_id, event_type, orjson.dumps(payload).decode()


async def _read_original(connection: AsyncConnection, account: Account, key: str) -> Placed:
    values = {"account_id": account.id, "idempotency_key": key}
    *row, digest = (await connection.execute(_ORIGINAL, values)).one()
    return Placed(orjson.dumps(_document_of(row)), digest)


async def read_by_key(engine: AsyncEngine, account: Account, key: str) -> dict[str, Any] | None:
    async with engine.connect() as connection:
        found = await connection.execute(_BY_KEY, {"account_id": account.id, "idempotency_key": key})
    row = found.one_or_none()
    return None if row is None else _document_of(row)


async def list_orders(
    engine: AsyncEngine, account: Account, limit: int, after: tuple[datetime, str] | None
) -> tuple[list[dict[str, Any]], tuple[datetime, str] | None]:
    """A page, newest first, and the position of its last order if another page follows."""
    created_at, order_id = after or _START
    values = {"account_id": account.id, "created_at": created_at, "id": order_id, "limit": limit + 1}
    async with engine.connect() as connection:
        found = await connection.execute(_PAGE, values)
    rows = found.all()
    page = rows[:limit]
    return [_document_of(row) for row in page], (page[-1].created_at, page[-1].id) if len(rows) > limit else None


def _document_of(row: Sequence[Any]) -> dict[str, Any]:
    *order, lines = row
    return order_document(order, lines)


def order_document(order: Sequence[Any], lines: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Built from the values of OrderFields and those of PricedLine."""
    (
        id_,
        idempotency_key,
        type_,
        status,
        currency,
        payment_method,
        payment_state,
        requested_quantity_grams,
        requested_value_minor,
        quantity_grams,
        offset_cost_minor,
        total_cost_minor,
        commission_minor,
        tax_minor,
        refunded_minor,
        estimate_id,
        offset_link_id,
        email,
        beneficiary,
        failure_reason,
        cancellation_reason,
        metadata,
        created_at,
    ) = order
    return {
        "id": id_,
        "idempotency_key": idempotency_key,
        "type": type_,
        "status": status,
        "currency": currency,
        "offset_cost": _money(offset_cost_minor),
        "total_cost": _money(total_cost_minor),
        "commission": _money(commission_minor),
        "quantity": _tonnes(quantity_grams),
        "payment_method": payment_method,
        "created_at": _wire_time(created_at),
        "bundles": [_bundle(line) for line in lines],
        "projects": [],
        "certificate": None,
        "public_certificate_url": None,
        "metadata": orjson.Fragment(metadata),
        "offset_link_id": offset_link_id,
        "email": email,
        "estimate_id": estimate_id,
        "requested_value": None if requested_value_minor is None else _money(requested_value_minor),
        "requested_quantity": None if requested_quantity_grams is None else _tonnes(requested_quantity_grams),
        # No order of the benchmark is too small to be charged alone.
        "payment_plan": "now",
        "payment_state": payment_state,
        "tax": _money(tax_minor),
        # No order of the benchmark is billed together with others.
        "billing_adjustment": _money(0),
        "amount_due": _money(total_cost_minor + tax_minor),
        "refunded_amount": _money(refunded_minor),
        "failure_reason": failure_reason,
        "cancellation_reason": cancellation_reason,
        "beneficiary": {"name": beneficiary},
    }


def _bundle(line: Any) -> dict[str, Any]:
    bundle_id, name, image, grams, net, gross, cost, is_short = line
    return {
        "bundle_id": bundle_id,
        "bundle_name": name,
        "primary_image": image,
        "quantity": _tonnes(grams),
        "unit_price": _money(net),
        "gross_unit_price": _money(gross),
        "offset_cost": _money(cost),
        "insufficient_available_quantity": is_short,
    }


# Prices and amounts repeat.
@lru_cache(maxsize=10_000)
def _money(minor: int) -> str:
    # All currencies of the benchmark have two decimals.
    return f"{minor // 100}.{minor % 100:02d}"


@lru_cache(maxsize=10_000)
def _tonnes(grams: int) -> str:
    return f"{grams // 1_000_000}.{grams % 1_000_000:06d}".rstrip("0").rstrip(".")


def _wire_time(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
