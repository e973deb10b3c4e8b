"""Request and response bodies of refunds."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tonne.money.cards.gateways.card import DisputeState
from tonne.money.refunds.model import MAX_REASON, Refund, RefundMethod, RefundState
from tonne.platform.http.client_fields import IdempotencyKey
from tonne.platform.http.json_body import JsonNumber
from tonne.platform.values.amounts import DECIMAL_PATTERN, format_money, parse_decimal
from tonne.platform.values.context import Timestamp, same_named, to_wire
from tonne.selling.catalogue.schemas import CurrencyCode, Money
from tonne.selling.orders.schemas import OrderId


def _read_amount(value: Any) -> str:
    """Only a string: JSON libraries may round a number."""
    if not isinstance(value, str) or isinstance(value, JsonNumber) or parse_decimal(value) is None:
        raise ValueError('expected a decimal string such as "5.00"')
    return value


_Reason = Annotated[str, Meta(max_length=MAX_REASON)]


class CancelIn(msgspec.Struct, forbid_unknown_fields=True):
    reason: Annotated[
        _Reason | None,
        Meta(
            description="Why the order is cancelled. Stored, and sent to those who were mailed its invoice.",
            examples=["Ordered twice"],
        ),
    ] = None
    refund: Annotated[
        bool,
        Meta(
            description="Also cancel an order that is paid, and refund the payment. Only before its `fulfil_after`, or "
            "if the account may refund by API.",
            examples=[False],
        ),
    ] = False


class ReduceIn(msgspec.Struct, forbid_unknown_fields=True):
    quantity: Annotated[
        Annotated[str, _read_amount, Meta(pattern=DECIMAL_PATTERN)],
        Meta(description="The new quantity of the order in tonnes, less than it has.", examples=["800"]),
    ]
    reason: Annotated[_Reason | None, Meta(description="Why. On the credit note.", examples=["Ordered too much"])] = (
        None
    )


class HelperCancelIn(CancelIn, forbid_unknown_fields=True):
    """Without a client account, which the same request outside of the test helpers takes."""


class RefundIn(msgspec.Struct, forbid_unknown_fields=True):
    amount: Annotated[
        Annotated[str, _read_amount, Meta(pattern=DECIMAL_PATTERN)] | None,
        Meta(
            description="How much to refund, in the order's currency. Leave it out to refund all that is left.",
            examples=["5.00"],
        ),
    ] = None
    reason: Annotated[_Reason | None, Meta(description="Why. Stored with the refund.", examples=["Delivered late"])] = (
        None
    )
    idempotency_key: IdempotencyKey | None = None


class RefundOut(msgspec.Struct):
    """Money that goes back to the payer."""

    id: Annotated[str, Meta(description="Id of the refund.", examples=["rfd_06gtv1alff3htg9thvlvj59t20"])]
    order_id: OrderId
    amount: Annotated[Money, Meta(description="How much goes back.", examples=["5.00"])]
    currency: CurrencyCode
    state: Annotated[
        RefundState,
        Meta(
            description="`approval`: a second person must approve it. `due`: about to be sent. `pending`: accepted by "
            "the card gateway. `succeeded`: sent. `failed`: not sent; another refund repeats it. `cancelled`: not "
            "made, because the money went back another way or the seller declined it.",
            examples=["due"],
        ),
    ]
    method: Annotated[
        RefundMethod, Meta(description="`card`: to the card that paid. `bank`: by bank transfer.", examples=["card"])
    ]
    reason: Annotated[str, Meta(description="Why.", examples=["Delivered late"])]
    attempt: Annotated[int, Meta(description="1, and 1 more for each repetition after a failure.", examples=[1])]
    created_at: Annotated[Timestamp, Meta(description="When it was requested.")]
    settled_at: Annotated[Timestamp | None, Meta(description="When it succeeded, failed or was cancelled, or null.")]


def refund_out(refund: Refund) -> RefundOut:
    return same_named(
        RefundOut,
        refund,
        amount=format_money(refund.amount_minor, refund.currency),
        created_at=to_wire(refund.created_at),
        settled_at=None if refund.settled_at is None else to_wire(refund.settled_at),
    )


class DisputeIn(msgspec.Struct, forbid_unknown_fields=True):
    outcome: Annotated[
        DisputeState,
        Meta(
            description="`opened`: the payer disputes the payment. `won`: the bank decides for you. `lost`: the payer "
            "keeps the money.",
            examples=["opened"],
        ),
    ] = DisputeState.OPENED
