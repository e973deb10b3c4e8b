"""Finding an order by the temporary id in the redirect after its payment."""

import uuid
from typing import Annotated, Literal

import msgspec

from tonne.channels.checkout.errors import PaymentNotFound
from tonne.channels.checkout.model import TEMPORARY_ID_LIFE, hash_temporary_id
from tonne.channels.checkout.store import find_payment
from tonne.platform.db.database import Database
from tonne.platform.http.limits.rate_limit import TokenBuckets
from tonne.platform.http.route import Request, Response
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock
from tonne.platform.values.errors import Fault, Invalid
from tonne.selling.orders.schemas import OrderOut


class PaymentOut(msgspec.Struct):
    order: Annotated[OrderOut, msgspec.Meta(description="The order that was paid.")]
    type: Annotated[Literal["order"], msgspec.Meta(description="What was paid. Always `order`.")]


class PaymentLookup:
    def __init__(self, database: Database, *, clock: Clock, settings: Settings) -> None:
        self._database = database
        self._clock = clock
        # Only misses count and are limited: an id that exists is found, however many wrong ones came before it.
        self._misses = TokenBuckets(
            "payment_lookup", settings.failed_lookup_per_minute / 60, settings.failed_lookup_burst
        )

    @property
    def limits(self) -> tuple[TokenBuckets, ...]:
        return (self._misses,)

    async def find_payment_by_temporary_id(self, request: Request) -> Response:
        """Find a payment by its temporary id.

        Finds the order of a payment by the `temporary_id` in the redirect after it.

        The id is valid for 15 minutes after the payment, for every key of the organisation in the same mode.
        """
        text = request.path("temporary_id")
        try:
            well_formed = str(uuid.UUID(text)) == text.lower()
        except ValueError:
            well_formed = False
        if not well_formed:
            raise Invalid([Fault("validation_error", "temporary_id must be a UUID.", "temporary_id")])
        async with self._database.connection() as connection:
            paid_after = self._clock() - TEMPORARY_ID_LIFE
            document = await find_payment(
                connection, request.scope, hash_temporary_id(text), paid_after, request.accounts
            )
        if document is None:
            self._misses.require(str(request.actor))
            raise PaymentNotFound
        return Response(b'{"order":%b,"type":"order"}' % document)
