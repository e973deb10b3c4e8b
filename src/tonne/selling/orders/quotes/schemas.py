"""Request and response bodies of locked quotes."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tonne.platform.http.client_fields import IdempotencyKey
from tonne.platform.http.json_body import Document, read
from tonne.platform.values.context import Timestamp, to_wire
from tonne.platform.values.errors import Fault, Invalid
from tonne.selling.catalogue.prices.quantity_unit import QuantityUnit
from tonne.selling.catalogue.schemas import EstimateId, QuoteOut
from tonne.selling.catalogue.selection import FIELD, MASSES_FIELD
from tonne.selling.estimates.schemas import MassIn
from tonne.selling.orders.placing.bodies import ESTIMATE, MASS, TRUNC, Masses, Selection, Value
from tonne.selling.orders.quotes.store import StoredQuote
from tonne.selling.orders.schemas import OrderId

_HELD, _NOT_HELD = b'"supply_held":true', b'"supply_held":false'
_AMOUNTS = ("estimate_id", "mass", MASSES_FIELD, "value")


class LockedQuoteIn(msgspec.Struct, forbid_unknown_fields=True):
    """Send exactly one of `estimate_id`, `mass`, `bundle_masses` and `value`."""

    estimate_id: Annotated[EstimateId, ESTIMATE] | None = None
    mass: Annotated[MassIn | None, MASS] = None
    bundle_masses: Masses | None = None
    value: Value | None = None
    bundle_selection: Selection | None = None
    quantity_trunc: Annotated[QuantityUnit | None, TRUNC] = None
    hold_supply: Annotated[
        bool | None,
        Meta(
            description="Whether to hold the supply until the quote expires, within the quota that the operator has "
            "granted. True: refuse the quote if that is not possible. False: hold nothing. Omitted: hold it if "
            "possible.",
            examples=[False],
        ),
    ] = None
    idempotency_key: IdempotencyKey | None = None


class QuoteStatus(StrEnum):
    OPEN = "open"
    USED = "used"
    EXPIRED = "expired"


class LockedQuoteOut(QuoteOut, kw_only=True):
    """A price that holds until `expires_at`. An order with its id as `quote_id` costs exactly that."""

    id: Annotated[str, Meta(description="Id of the quote.", examples=["quo_06gtv1alff3htg9thvlvj59t20"])]
    created_at: Annotated[Timestamp, Meta(description="When the price was locked.")]
    expires_at: Annotated[Timestamp, Meta(description="Until when an order can be placed with it: 30 minutes.")]
    supply_held: Annotated[
        bool,
        Meta(
            description="Whether all of the supply is held now. It ends when the quote expires unused, when its order "
            "has its credits or has ended, and if credits turn out to be invalid.",
            examples=[False],
        ),
    ]
    status: Annotated[
        QuoteStatus, Meta(description="`used`: an order was placed with it. `expired`: too late.", examples=["open"])
    ]
    order_id: Annotated[
        OrderId | None, Meta(description="The order that was placed with it, or null.", examples=[None])
    ]


def read_quote(document: Document) -> LockedQuoteIn:
    """Raises Invalid with all errors."""
    faults = _amount_faults(document.members)
    try:
        body = read(document, LockedQuoteIn)
    except Invalid as error:
        raise Invalid([*faults, *error.faults]) from error
    if faults:
        raise Invalid(faults)
    return body


def _amount_faults(members: dict[str, Any]) -> list[Fault]:
    """JSON null is the same as omitting a member."""
    sent = [name for name in _AMOUNTS if members.get(name) is not None]
    if len(sent) != 1:
        found = f"You sent {' and '.join(sent)}." if sent else "You sent none."
        return [Fault("validation_error", f"Send exactly one of {', '.join(_AMOUNTS)}. {found}", (sent or _AMOUNTS)[0])]
    if members.get(MASSES_FIELD) == []:
        return [Fault("validation_error", f"{MASSES_FIELD} is empty. Name at least one bundle.", MASSES_FIELD)]
    if sent == [MASSES_FIELD] and members.get(FIELD) is not None:
        return [Fault("validation_error", f"Send either {FIELD} or {MASSES_FIELD}, not both.", MASSES_FIELD)]
    return []


def quote_document(
    quote: QuoteOut, *, quote_id: str, created_at: datetime, expires_at: datetime, is_held: bool
) -> bytes:
    """The JSON of a quote up to its status, which `with_status` adds."""
    head = b'{"id":"%b","created_at":"%b","expires_at":"%b",%b,' % (
        quote_id.encode(),
        to_wire(created_at).encode(),
        to_wire(expires_at).encode(),
        _HELD if is_held else _NOT_HELD,
    )
    return head + msgspec.json.encode(quote)[1:-1]


def with_status(stored: StoredQuote, now: datetime) -> bytes:
    is_expired = stored.order_id is None and stored.expires_at <= now
    document = stored.document
    if is_expired or not stored.is_holding:
        # The hold has ended. Quotation marks in names are escaped, so that only the member of the quote matches.
        document = document.replace(_HELD, _NOT_HELD, 1)
    if stored.order_id is not None:
        return b'%b,"status":"used","order_id":"%b"}' % (document, stored.order_id.encode())
    return b'%b,"status":"%b","order_id":null}' % (document, b"expired" if is_expired else b"open")
