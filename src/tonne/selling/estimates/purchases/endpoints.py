"""Endpoints of estimates for transactions."""

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

import msgspec

from tonne.platform.db.database import Database
from tonne.platform.http.client_fields import keys_of_items
from tonne.platform.http.errors import RefusalOut, refusal_out
from tonne.platform.http.json_body import MAX_BATCH_VALUES, Document
from tonne.platform.http.openapi.components import any_of
from tonne.platform.http.refusals import refusal_of_item
from tonne.platform.http.route import Request, Response, Route, RouteMaker, json_response
from tonne.platform.process.cost import in_thread
from tonne.platform.values.context import Scope
from tonne.platform.values.errors import Fault, Invalid
from tonne.selling.catalogue.snapshot import Catalogues
from tonne.selling.estimates.calculate_estimate import CalculateEstimate, QuoteEstimate
from tonne.selling.estimates.calculated import EstimateKind
from tonne.selling.estimates.calculated_store import find_by_used_key
from tonne.selling.estimates.endpoints import CalculatedEstimateEndpoints
from tonne.selling.estimates.errors import EstimateNotFound
from tonne.selling.estimates.purchases.calculate import TRANSACTIONS, with_rates
from tonne.selling.estimates.purchases.schemas import MAX_BATCH, TransactionIn, TransactionOut

TransactionResult = Annotated[
    Any,
    msgspec.Meta(
        description="An estimate, or an object with `error` and `errors`.",
        extra_json_schema=any_of(TransactionOut, RefusalOut),
    ),
]


def _document(raw: msgspec.Raw, members: Any, default_key: str | None) -> Document | None:
    """None if the item is no object."""
    if not isinstance(members, dict):
        return None
    document = Document(bytes(raw), members)
    document.add_default_key(default_key)
    return document


class TransactionEndpoints(CalculatedEstimateEndpoints):
    """Reads the exchange rates before it calculates."""

    def __init__(
        self,
        database: Database,
        catalogues: Catalogues,
        estimates: CalculateEstimate,
        quotes: QuoteEstimate,
        *,
        charge: Callable[[str, Scope, int], None],
    ) -> None:
        """`charge` counts further requests against the rate limit of an API key."""
        super().__init__(estimates, quotes)
        self._database = database
        self._catalogues = catalogues
        self._charge = charge

    async def _with_rates(self, scope: Scope) -> EstimateKind[TransactionIn]:
        return with_rates(await self._catalogues.current(scope.mode))

    async def create(self, kind: EstimateKind[Any], request: Request) -> Response:  # noqa: ARG002 - replaced
        return await super().create(await self._with_rates(request.scope), request)

    async def replace(self, kind: EstimateKind[Any], request: Request) -> Response:  # noqa: ARG002 - replaced
        return await super().replace(await self._with_rates(request.scope), request)

    async def read_by_key(self, request: Request) -> Response:
        """Read an estimate of a transaction by its idempotency key.

        With a quote for now.
        """
        found = await self._database.run(find_by_used_key, request.scope, request.path("transaction_key"))
        if found is None or found[0].kind != TRANSACTIONS.name:
            raise EstimateNotFound
        return json_response(await self.show(TRANSACTIONS, found[0]))

    async def create_batch(self, request: Request) -> Response:
        """Estimate up to 100 transactions.

        Takes an array, and returns one in the same order: each item is an estimate, or an object with `error` and
        `errors`. One that is refused does not affect the others. Every item counts as a request against the rate limit.
        The body has at most 50,000 JSON values.
        """
        # In a thread: others need the event loop.
        members = await in_thread(request.json_array, MAX_BATCH_VALUES)
        if not 1 <= len(members) <= MAX_BATCH:
            raise Invalid([Fault("validation_error", f"Send 1 to {MAX_BATCH} transactions in the array.")])
        self._charge(request.actor.key_id or "", request.scope, len(members) - 1)
        raw = msgspec.json.decode(request.body, type=list[msgspec.Raw])
        kind = await self._with_rates(request.scope)
        documents = map(_document, raw, members, keys_of_items(request, len(raw)))
        results = await asyncio.gather(*(self._one(request.scope, kind, each) for each in documents))
        return json_response(results)

    async def _one(self, scope: Scope, kind: EstimateKind[TransactionIn], document: Document | None) -> Any:
        try:
            if document is None:
                raise Invalid([Fault("validation_error", "The transaction must be a JSON object.")])  # noqa: TRY301
            estimate, _ = await self._estimates.create(scope, kind, document)
            return await self.show(kind, estimate)
        except Exception as error:  # noqa: BLE001 - the other transactions of the batch are not affected
            return refusal_out(refusal_of_item(error, "transaction_of_batch_failed").faults)

    def transaction_routes(self) -> list[Route]:
        route, path = RouteMaker("Estimates"), f"/v1/estimates/{TRANSACTIONS.name}"
        return [
            *self.routes([TRANSACTIONS]),
            route(
                f"POST {path}/batch",
                self.create_batch,
                list[TransactionResult],
                operation_id="createTransactionEstimates",
                body=list[TransactionIn],
                example=[TRANSACTIONS.example],
            ),
            route(
                f"GET {path}/by-idempotency-key/{{transaction_key}}",
                self.read_by_key,
                TransactionOut,
                EstimateNotFound,
                operation_id="getTransactionEstimateByKey",
            ),
        ]
