"""Endpoints of locked quotes."""

from tonne.platform.db.database import Database
from tonne.platform.http.client_fields import idempotency_of, replay
from tonne.platform.http.route import Request, Response, Route, RouteMaker
from tonne.platform.values.context import Clock
from tonne.selling.accounts.errors import AccountSuspended
from tonne.selling.catalogue.errors import (
    PRICE_ERRORS,
    SELECTION_ERRORS,
    PriceUnavailable,
    QuantityInvalid,
    ValueInvalid,
)
from tonne.selling.orders.errors import EstimateUnknown, QuoteNotFound, SupplyInsufficient
from tonne.selling.orders.quotes.errors import HoldQuotaExceeded
from tonne.selling.orders.quotes.lock_quotes import LockQuotes
from tonne.selling.orders.quotes.schemas import LockedQuoteIn, LockedQuoteOut, read_quote, with_status
from tonne.selling.orders.quotes.store import find_quote

_ERRORS = (
    *(*SELECTION_ERRORS, QuantityInvalid, ValueInvalid, EstimateUnknown, *PRICE_ERRORS, PriceUnavailable),
    *(SupplyInsufficient, HoldQuotaExceeded, AccountSuspended),
)


class QuoteEndpoints:
    def __init__(self, database: Database, lock_quotes: LockQuotes, clock: Clock) -> None:
        self._database = database
        self._lock_quotes = lock_quotes
        self._clock = clock

    async def lock_quote(self, request: Request) -> Response:
        """Lock a price for 30 minutes.

        An order with the id as `quote_id` costs exactly what was quoted, even if prices, exchange rates, fees or taxes
        change in the meantime. A quote is for one order.

        Returns 201 with the new quote. If the `idempotency_key` was used before, returns 200 with the original quote
        in its current state and the header `Idempotent-Replayed: true`.
        """
        document = request.json()
        idempotency = idempotency_of("quote", document)
        body, original_digest = await self._lock_quotes.lock(request.scope, idempotency, lambda: read_quote(document))
        return Response(body, 201) if original_digest is None else replay(body, original_digest, idempotency.digest)

    async def read_quote(self, request: Request) -> Response:
        """Read a locked quote.

        Returns one quote of the account in its current state. Quotes are deleted 30 days after they expired.
        """
        found = await self._database.run(find_quote, request.scope, request.path("quote_id"))
        if found is None:
            raise QuoteNotFound
        return Response(with_status(found, self._clock()))

    def routes(self) -> list[Route]:
        route = RouteMaker("Quotes")
        return [
            route(
                "POST /v1/quotes",
                self.lock_quote,
                {200: LockedQuoteOut, 201: LockedQuoteOut},
                *_ERRORS,
                operation_id="lockQuote",
                body=LockedQuoteIn,
                example={"mass": {"amount": "1040", "unit": "t"}, "idempotency_key": "offer-2026-11-15-0042"},
                takes_fair_share=False,
            ),
            route("GET /v1/quotes/{quote_id}", self.read_quote, LockedQuoteOut, QuoteNotFound, operation_id="getQuote"),
        ]
