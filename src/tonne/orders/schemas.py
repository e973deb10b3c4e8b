"""Orders on the wire."""

from datetime import datetime
from typing import Annotated, Any

import msgspec

from tonne.base.clock import to_wire
from tonne.base.decimals import PATTERN, parse_decimal
from tonne.base.mass import format_tonnes
from tonne.base.money import format_money
from tonne.base.paging import Position
from tonne.catalog.schemas import BundleItemOut, Money, Timestamp, Tonnes, bundle_item_out
from tonne.catalog.selection import BundleChoiceIn
from tonne.estimates.schemas import MassIn
from tonne.http.client_fields import IdempotencyKey, Metadata
from tonne.http.json_body import JsonNumber
from tonne.orders.model import Order, OrderProject


def _read_value(value: Any) -> str:
    """A string, so that no client's JSON library can round it on the way."""
    if not isinstance(value, str) or isinstance(value, JsonNumber) or parse_decimal(value) is None:
        raise ValueError('expected a decimal string such as "250.00", at most 15 digits before the point and 12 after')
    return value


_Selection = Annotated[
    list[BundleChoiceIn],
    msgspec.Meta(
        description="Which bundles, in which proportion. Left out: the account's default selection. Without "
        "percentages: split equally.",
        min_length=1,
    ),
]


class OrderByEstimateIn(msgspec.Struct, forbid_unknown_fields=True):
    estimate_id: Annotated[str, msgspec.Meta(max_length=100)]
    idempotency_key: IdempotencyKey | None = None
    bundle_selection: _Selection | None = None
    metadata: Metadata | None = None


class OrderByMassIn(msgspec.Struct, forbid_unknown_fields=True):
    mass: MassIn
    idempotency_key: IdempotencyKey | None = None
    bundle_selection: _Selection | None = None
    metadata: Metadata | None = None


class OrderByValueIn(msgspec.Struct, forbid_unknown_fields=True):
    value: Annotated[
        str,
        _read_value,
        msgspec.Meta(
            description="The most that may be spent, fee included, in the account's currency.",
            pattern=PATTERN,
            examples=["250.00"],
        ),
    ]
    idempotency_key: IdempotencyKey | None = None
    bundle_selection: _Selection | None = None
    metadata: Metadata | None = None


OrderIn = OrderByEstimateIn | OrderByMassIn | OrderByValueIn


class ProjectItemOut(msgspec.Struct):
    """One project of an order, once supply is guaranteed."""

    project_id: str
    project_name: str
    project_type: str
    project_slug: str
    quantity: Tonnes
    unit_price: Money
    offset_cost: Money


class OrderOut(msgspec.Struct):
    """Every field is always present; what is not set yet is null, or an empty list."""

    id: str
    idempotency_key: str
    type: Annotated[str, msgspec.Meta(extra_json_schema={"enum": ["quantity", "value"]})]
    status: Annotated[
        str,
        msgspec.Meta(
            extra_json_schema={"enum": ["received", "placed", "paid", "retiring", "cancelled", "complete", "failed"]}
        ),
    ]
    currency: str
    offset_cost: Money | None
    total_cost: Money | None
    commission: Money | None
    quantity: Tonnes | None
    payment_method: Annotated[str, msgspec.Meta(extra_json_schema={"enum": ["invoice", "card"]})]
    created_at: Timestamp
    bundles: list[BundleItemOut]
    projects: list[ProjectItemOut]
    certificate: str | None
    public_certificate_url: str | None
    metadata: Annotated[msgspec.Raw, msgspec.Meta(extra_json_schema={"type": "object"})]
    offset_link_id: str | None
    email: str | None
    estimate_id: str | None
    requested_value: Money | None
    requested_quantity: Tonnes | None


class _Listed(msgspec.Struct):
    id: str
    created_at: datetime


def place_of(document: bytes) -> Position:
    """Where an order stands in a list, read from what the list shows."""
    place = msgspec.json.decode(document, type=_Listed)
    return Position(place.created_at, place.id)


def order_document(order: Order) -> bytes:
    """The order as the interface shows it. The one place where that form is made: answers and events copy it."""
    return msgspec.json.encode(_order_out(order))


def _project_item_out(project: OrderProject, currency: str) -> ProjectItemOut:
    return ProjectItemOut(
        project_id=project.project_id,
        project_name=project.project_name,
        project_type=project.project_type,
        project_slug=project.project_slug,
        quantity=format_tonnes(project.quantity_grams),
        unit_price=format_money(project.unit_price_minor, currency),
        offset_cost=format_money(project.offset_cost_minor, currency),
    )


def _order_out(order: Order) -> OrderOut:
    priced, currency = order.priced, order.currency
    grams, value_minor = order.requested_quantity_grams, order.requested_value_minor
    return OrderOut(
        id=order.id,
        idempotency_key=order.idempotency_key,
        type=order.type,
        status=order.status,
        currency=currency,
        offset_cost=None if priced is None else format_money(priced.offset_cost_minor, currency),
        total_cost=None if priced is None else format_money(priced.total_cost_minor, currency),
        commission=None if priced is None else format_money(priced.commission_minor, currency),
        quantity=None if priced is None else format_tonnes(priced.quantity_grams),
        payment_method=order.payment_method,
        created_at=to_wire(order.created_at),
        bundles=[] if priced is None else [bundle_item_out(line, currency) for line in priced.lines],
        projects=[_project_item_out(project, currency) for project in order.projects],
        certificate=order.certificate_url,
        public_certificate_url=order.public_certificate_url,
        metadata=msgspec.Raw(order.metadata.encode()),
        offset_link_id=order.offset_link_id,
        email=order.email,
        estimate_id=order.estimate_id,
        requested_value=None if value_minor is None else format_money(value_minor, currency),
        requested_quantity=None if grams is None else format_tonnes(grams),
    )
