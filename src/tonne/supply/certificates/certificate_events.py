"""The event of a certificate that replaces another one."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from tonne.platform.db.database import Connection
from tonne.platform.events.optional_events import OptionalEvent, record_optional
from tonne.platform.values.context import Timestamp, to_wire
from tonne.selling.orders.model import Order
from tonne.selling.orders.schemas import OrderId
from tonne.supply.certificates.record import CertificateRecord

REPLACED = "certificate.replaced"
_URL = {"format": "uri"}


class ReplacedCertificateOut(msgspec.Struct):
    """A new certificate of an order. The former one is no longer valid, and its number says so."""

    number: Annotated[str, Meta(description="The number of the new certificate.", examples=["7XKD-M2QH-9RTV-4WNC"])]
    replaces: Annotated[
        str, Meta(description="The number of the former certificate.", examples=["3FQA-W8ZK-5JXM-6CRT"])
    ]
    order_id: OrderId
    issued_at: Annotated[Timestamp, Meta(description="When it was issued.")]
    url: Annotated[
        str,
        Meta(
            description="The PDF. Needs API authentication.",
            examples=["https://offsets.example.com/v1/orders/ord_06gtv1alff3htg9thvlvj59t20/certificate"],
            extra_json_schema=_URL,
        ),
    ]
    public_url: Annotated[
        Annotated[str, Meta(extra_json_schema=_URL)] | None,
        Meta(
            description="Its public page. Null if the order is in a private name.",
            examples=["https://offsets.example.com/certificates/7XKD-M2QH-9RTV-4WNC"],
        ),
    ]


async def record_replacement(
    tx: Connection, order: Order, new: CertificateRecord, replaces: str, *, base_url: str, now: datetime
) -> None:
    certificate = ReplacedCertificateOut(
        number=new.number,
        replaces=replaces,
        order_id=order.id,
        issued_at=to_wire(now),
        url=order.certificate_url or f"{base_url}/v1/orders/{order.id}/certificate",
        public_url=order.public_certificate_url,
    )
    event = OptionalEvent(REPLACED, order.id, msgspec.json.encode(certificate), order.id)
    await record_optional(tx, [(order.scope, event)], now)
