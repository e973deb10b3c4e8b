"""Request and response bodies of orders."""

from datetime import date, datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tonne.platform.values.amounts import format_money, format_tonnes
from tonne.platform.values.context import Timestamp, to_wire
from tonne.platform.values.erased import ERASED
from tonne.platform.values.paging import Position
from tonne.selling.accounts.model import MANUAL, PaymentMethod
from tonne.selling.catalogue.prices.price import OrderType, PaymentPlan
from tonne.selling.catalogue.schemas import (
    PLAN,
    BundleItemOut,
    CurrencyCode,
    EstimateId,
    Money,
    ProjectId,
    ProjectName,
    ProjectSlug,
    ProjectType,
    Tonnes,
    bundle_item_out,
)
from tonne.selling.estimates.schemas import MetadataOut
from tonne.selling.orders import model

OrderId = Annotated[str, Meta(description="Id of the order.", examples=["ord_06gtv1alff3htg9thvlvj59t20"])]


# Zero or negative.
Adjustment = Annotated[str, Meta(pattern=r"^-?[0-9]+(\.[0-9]+)?$")]


class ProjectItemOut(msgspec.Struct):
    """A project that supply was allocated from. Prices are per tonne."""

    project_id: ProjectId
    project_name: ProjectName
    project_type: ProjectType
    project_slug: ProjectSlug
    quantity: Annotated[Tonnes, Meta(description="Tonnes of this project.", examples=["1040"])]
    unit_price: Annotated[Money, Meta(description="Price of the bundle without the fee.", examples=["6.90"])]
    offset_cost: Annotated[Money, Meta(description="Cost of this project without the fee.", examples=["7176.00"])]
    status: Annotated[
        model.ProjectStatus,
        Meta(
            description="`allocated`: reserved for the order. `retired`: all these tonnes are retired at the registry.",
            examples=["retired"],
        ),
    ]
    project_logo: Annotated[
        str | msgspec.UnsetType,
        Meta(
            description="URL of the project's logo when supply was allocated. Omitted if it has none.",
            extra_json_schema={"format": "uri"},
            examples=["https://offsets.example.com/logo/sierra-wind-farm.png"],
        ),
    ] = msgspec.UNSET


class BeneficiaryOut(msgspec.Struct):
    name: Annotated[str, Meta(description="Name on the certificate.", examples=["Fjord Bakery AS"])]


class OrderOut(msgspec.Struct):
    """Every field is always present, but for the last nine.

    What is not known yet is null or an empty list.
    """

    id: OrderId
    idempotency_key: Annotated[
        str, Meta(description="The key it was placed with, or a generated one.", examples=["flight-2026-11-15-0042"])
    ]
    type: Annotated[OrderType, Meta(description="Whether a quantity or a value was ordered.", examples=["quantity"])]
    status: Annotated[
        model.OrderStatus,
        Meta(
            description="`received`: has no price yet. `placed`: waits for payment. `paid`: waits for supply. "
            "`retiring`: credits are allocated and being retired. `complete`: certificate available. `cancelled` and "
            "`failed` are final.",
            examples=["placed"],
        ),
    ]
    currency: CurrencyCode
    offset_cost: Annotated[Money | None, Meta(description="Cost without the fee. Null until placed.")]
    total_cost: Annotated[
        Money | None,
        Meta(description="`offset_cost` + `commission`, without tax. Null until placed.", examples=["7976.80"]),
    ]
    commission: Annotated[Money | None, Meta(description="The fee. Null until placed.", examples=["800.80"])]
    quantity: Annotated[Tonnes | None, Meta(description="Tonnes to retire. Null until placed.", examples=["1040"])]
    payment_method: Annotated[PaymentMethod, Meta(description="How it is paid.", examples=["invoice"])]
    created_at: Annotated[Timestamp, Meta(description="When the order was received.")]
    bundles: Annotated[list[BundleItemOut], Meta(description="The bundles and their prices. Empty until placed.")]
    projects: Annotated[
        list[ProjectItemOut], Meta(description="The allocated projects. Empty until retiring.", examples=[[]])
    ]
    certificate: Annotated[
        str | None,
        Meta(
            description="Address of the certificate, for your API key. Null until complete.",
            extra_json_schema={"format": "uri"},
            examples=[None, "https://offsets.example.com/v1/orders/ord_06gtv1alff3htg9thvlvj59t20/certificate"],
        ),
    ]
    public_certificate_url: Annotated[
        str | None,
        Meta(
            description="Public page of the certificate. Null until complete, and for a private name.",
            extra_json_schema={"format": "uri"},
            examples=[None, "https://offsets.example.com/certificates/7XKD-M2QH-9RTV-4WNC"],
        ),
    ]
    metadata: MetadataOut
    offset_link_id: Annotated[
        str | None,
        Meta(
            description="The offset link it was paid through, or null.",
            examples=[None, "lnk_06gtv1alff3htg9thvlvj59t20"],
        ),
    ]
    email: Annotated[
        str | None,
        Meta(
            description="Address of the person who paid at checkout, or null. `erased` once the person was erased.",
            examples=[None, "ada@example.com", ERASED],
        ),
    ]
    estimate_id: Annotated[
        EstimateId | None,
        Meta(description="The estimate that it offsets, or null.", examples=[None, "est_06gtv168mimt7f59c5an0fgcj0"]),
    ]
    requested_value: Annotated[
        Money | None, Meta(description="The value that was ordered. Null for a quantity.", examples=[None, "250.00"])
    ]
    requested_quantity: Annotated[
        Tonnes | None, Meta(description="The tonnes that were ordered. Null for a value.", examples=["1040"])
    ]
    payment_plan: Annotated[PaymentPlan, PLAN]
    payment_state: Annotated[
        model.PaymentState,
        Meta(
            description="Where the money is. Status `paid` says that the order is cleared for fulfilment: its money "
            "may arrive later. `refunded`: in full. `disputed`: the payer has disputed the card payment.",
            examples=["unpaid"],
        ),
    ]
    tax: Annotated[
        Money | None,
        Meta(description="Tax on what is billed. Null until placed, or until billed together.", examples=["0.00"]),
    ]
    billing_adjustment: Annotated[
        Adjustment | None,
        Meta(
            description="What billing it with other orders takes off `total_cost`, because only their sum is rounded. "
            "Zero or negative; zero if it has a document of its own. Null as long as `tax`.",
            examples=["0.00"],
        ),
    ]
    amount_due: Annotated[
        Money | None,
        Meta(description="What the payer pays: `total_cost` + `billing_adjustment` + `tax`.", examples=["7976.80"]),
    ]
    refunded_amount: Annotated[Money, Meta(description="What has been paid back so far.", examples=["0.00"])]
    failure_reason: Annotated[
        model.FailureReason | None, Meta(description="Why the order failed, or null.", examples=[None, "card_declined"])
    ]
    cancellation_reason: Annotated[
        model.CancellationReason | None,
        Meta(description="Why the order was cancelled, or null.", examples=[None, "requested_by_client"]),
    ]
    beneficiary: Annotated[BeneficiaryOut, Meta(description="In whose name the certificate is issued.")]
    hold_reason: Annotated[
        model.HoldReason | msgspec.UnsetType,
        Meta(
            description="Present only while a `placed` order is on hold. `credit_limit_reached`: with it, unpaid "
            "orders would exceed the credit of its account. Fulfilled once it or others are paid, or the limit is "
            "raised. `collection_pending`: a small order by card, fulfilled once earlier ones are charged. Its invoice "
            "lacks: `buyer_details_missing`: the address of your organisation, or what its electronic invoice needs "
            "(enter it in the dashboard); `vat_check_missing`: a check of its VAT id; "
            "`exchange_rate_missing`: the rate for the tax. "
            "The seller sees to the last two.",
        ),
    ] = msgspec.UNSET
    quote_id: Annotated[
        str | msgspec.UnsetType,
        Meta(
            description="The locked quote that fixed its price. Present only if it was placed with one.",
            examples=["quo_06gtv1alff3htg9thvlvj59t20"],
        ),
    ] = msgspec.UNSET
    external_id: Annotated[
        str | msgspec.UnsetType,
        Meta(description="What your records call the sale. Present only if there is one.", examples=["A-4711"]),
    ] = msgspec.UNSET
    external_id_verified: Annotated[
        bool | msgspec.UnsetType,
        Meta(
            description="Present with `external_id`. True if it came with an API key or in a signed link; false if a "
            "visitor of an offset link may have typed it.",
            examples=[True],
        ),
    ] = msgspec.UNSET
    reference: Annotated[
        str | msgspec.UnsetType,
        Meta(description="Printed on invoices. Present only if there is one.", examples=["PO 20817"]),
    ] = msgspec.UNSET
    certificate_state: Annotated[
        model.OrderCertificateState | msgspec.UnsetType,
        Meta(
            description="Present only while the certificate of a complete order is withdrawn and a new one follows: "
            "credits became invalid, and others are being retired instead.",
        ),
    ] = msgspec.UNSET
    certificate_expected_on: Annotated[
        date | msgspec.UnsetType,
        Meta(
            description="Present with `certificate_state`: when the new certificate is expected.",
            examples=["2026-12-01"],
        ),
    ] = msgspec.UNSET
    supplied_on: Annotated[
        str | msgspec.UnsetType,
        Meta(
            description="The date of supply: the day when the last of its credits were retired, or were assigned to it "
            "if they had been retired in advance. Present only once complete. Another certificate does not change it.",
            extra_json_schema={"format": "date"},
            examples=["2026-11-15"],
        ),
    ] = msgspec.UNSET
    fulfil_after: Annotated[
        str | msgspec.UnsetType,
        Meta(
            description="No credits are allocated before: until then a paid order can be cancelled, reduced and "
            "released. A time, or `manual`: until it is released. Present only if it waits, or has waited.",
            examples=["2026-11-16T10:00:00.000Z"],
        ),
    ] = msgspec.UNSET


_PROJECT_EXAMPLE = {
    "project_id": "prj_06gtv168k1mt6nqbnbhk0fqhp4",
    "project_name": "Sierra Wind Farm",
    "project_type": "Wind",
    "project_slug": "sierra-wind-farm",
    "quantity": "1040",
    "unit_price": "6.90",
    "offset_cost": "7176.00",
    "status": model.ProjectStatus.ALLOCATED,
}
# Changes to the example of OrderOut, which is a placed order.
UNPRICED_EXAMPLE: dict[str, Any] = {
    **dict.fromkeys(("offset_cost", "total_cost", "commission", "quantity", "tax", "billing_adjustment", "amount_due")),
    "bundles": [],
}
RETIRING_EXAMPLE: dict[str, Any] = {"status": model.OrderStatus.RETIRING, "projects": [_PROJECT_EXAMPLE]}
COMPLETE_EXAMPLE: dict[str, Any] = {
    "status": model.OrderStatus.COMPLETE,
    "projects": [{**_PROJECT_EXAMPLE, "status": model.ProjectStatus.RETIRED}],
    "certificate": "https://offsets.example.com/v1/orders/ord_06gtv1alff3htg9thvlvj59t20/certificate",
    "public_certificate_url": "https://offsets.example.com/certificates/7XKD-M2QH-9RTV-4WNC",
}

PERSON_ERASED_EXAMPLE: dict[str, Any] = {
    **COMPLETE_EXAMPLE,
    "public_certificate_url": None,
    "email": ERASED,
    "beneficiary": {"name": ERASED},
}


class _Listed(msgspec.Struct):
    id: str
    created_at: datetime


def position_of(document: bytes | memoryview) -> Position:
    """The position of an order in a list, from its JSON."""
    listed = msgspec.json.decode(document, type=_Listed)
    return Position(listed.created_at, listed.id)


def order_document(order: model.Order) -> bytes:
    """The JSON of an order. Responses and events copy these bytes."""
    return msgspec.json.encode(_order_out(order))


def placing_documents(order: model.Order) -> tuple[bytes, bytes]:
    """The JSON of a priced order as it was received, without a price, and as it is placed.

    Formatting the amounts is most of the work, so it is done once.
    """
    out = _order_out(order)
    placed = msgspec.json.encode(out)
    out.status = model.OrderStatus.RECEIVED
    out.offset_cost = out.total_cost = out.commission = out.quantity = None
    out.tax = out.billing_adjustment = out.amount_due = None
    out.bundles = []
    return msgspec.json.encode(out), placed


def _project_item_out(project: model.OrderProject, currency: str) -> ProjectItemOut:
    return ProjectItemOut(
        project_id=project.project_id,
        project_name=project.project_name,
        project_type=project.project_type,
        project_slug=project.project_slug,
        quantity=format_tonnes(project.quantity_grams),
        unit_price=format_money(project.unit_price_minor, currency),
        offset_cost=format_money(project.offset_cost_minor, currency),
        status=project.status,
        project_logo=msgspec.UNSET if project.project_logo is None else project.project_logo,
    )


def _order_out(order: model.Order) -> OrderOut:
    priced, currency = order.priced, order.currency
    grams, value_minor = order.requested_quantity_grams, order.requested_value_minor
    replaced_on = order.certificate_due_on
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
        requested_value=_money(value_minor, currency),
        requested_quantity=None if grams is None else format_tonnes(grams),
        payment_plan=order.payment_plan,
        payment_state=order.payment_state,
        tax=_money(order.tax.tax_minor, currency),
        billing_adjustment=_money(None if order.tax.tax_minor is None else order.billing_adjustment_minor, currency),
        amount_due=_money(order.amount_due_minor, currency),
        refunded_amount=format_money(order.refunded_minor, currency),
        failure_reason=order.failure_reason,
        cancellation_reason=order.cancellation_reason,
        beneficiary=BeneficiaryOut(order.beneficiary),
        hold_reason=_hold_reason(order),
        quote_id=msgspec.UNSET if order.quote_id is None else order.quote_id,
        external_id=msgspec.UNSET if order.external_id is None else order.external_id,
        external_id_verified=msgspec.UNSET if order.external_id is None else order.external_id_verified,
        reference=msgspec.UNSET if order.reference is None else order.reference,
        certificate_state=msgspec.UNSET if replaced_on is None else model.OrderCertificateState.BEING_REPLACED,
        certificate_expected_on=msgspec.UNSET if replaced_on is None else replaced_on,
        supplied_on=msgspec.UNSET if order.supplied_on is None else order.supplied_on.isoformat(),
        fulfil_after=_fulfil_after(order),
    )


def _fulfil_after(order: model.Order) -> str | msgspec.UnsetType:
    if order.fulfil_manually:
        return MANUAL
    return msgspec.UNSET if order.fulfil_after is None else to_wire(order.fulfil_after)


def _hold_reason(order: model.Order) -> model.HoldReason | msgspec.UnsetType:
    return order.hold_reason if order.hold_reason and order.status is model.OrderStatus.PLACED else msgspec.UNSET


def _money(amount_minor: int | None, currency: str) -> str | None:
    return None if amount_minor is None else format_money(amount_minor, currency)
