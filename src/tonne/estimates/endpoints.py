"""Endpoints of estimates."""

import msgspec

from tonne.accounts.directory import AccountDirectory
from tonne.base.clock import Clock
from tonne.base.scope import Scope
from tonne.catalog.price import PriceRequest, price_if_available
from tonne.catalog.schemas import QuoteOut, quote_out
from tonne.catalog.snapshot import Catalogues
from tonne.db.pool import Database
from tonne.estimates import store
from tonne.estimates.errors import EstimateNotFound, MassInvalid
from tonne.estimates.model import Estimate
from tonne.estimates.record_estimate import new_estimate, record_estimate_once
from tonne.estimates.schemas import EstimateIn, EstimateOut, estimate_out
from tonne.http.client_fields import idempotency_of, metadata_text, replay
from tonne.http.json_body import Document, read
from tonne.http.route import Request, Response, Route, RouteMaker, json_response


class EstimateEndpoints:
    def __init__(
        self, database: Database, catalogues: Catalogues, directory: AccountDirectory, *, clock: Clock
    ) -> None:
        self._database = database
        self._catalogues = catalogues
        self._directory = directory
        self._clock = clock

    async def create_estimate(self, request: Request) -> Response:
        """Create an estimate.

        Stores an estimate that you calculated, and returns it with a quote for offsetting it now.
        """
        document = request.json()
        idempotency = idempotency_of("estimate", document)
        async with self._database.connection() as connection:
            estimate, original_digest = await record_estimate_once(
                connection, request.scope, idempotency, lambda: self._read(request.scope, document)
            )
        shown = await self._show(estimate)
        if original_digest is None:
            return json_response(shown, 201)
        return replay(msgspec.json.encode(shown), original_digest, idempotency.digest)

    async def read_estimate(self, request: Request) -> Response:
        """Read an estimate.

        Returns one estimate of the account with a quote for offsetting it now.
        """
        async with self._database.connection() as connection:
            estimate = await store.find_estimate(connection, request.scope, request.path("estimate_id"))
        if estimate is None:
            raise EstimateNotFound
        return json_response(await self._show(estimate))

    def _read(self, scope: Scope, document: Document) -> Estimate:
        body = read(document, EstimateIn)
        return new_estimate(
            scope,
            body.mass.amount,
            body.mass.unit,
            body.description,
            now=self._clock(),
            idempotency_key=body.idempotency_key,
            metadata=metadata_text(document),
        )

    async def _show(self, estimate: Estimate) -> EstimateOut:
        return estimate_out(estimate, await self._quote(estimate))

    async def _quote(self, estimate: Estimate) -> QuoteOut | None:
        terms = await self._directory.terms_of(estimate.scope)
        catalogue = await self._catalogues.current(estimate.scope.mode)
        request = PriceRequest(mass_grams=estimate.mass_grams)
        priced = price_if_available(request, terms, catalogue)
        return None if priced is None else quote_out(priced, request, estimate_id=estimate.id)

    def routes(self) -> list[Route]:
        route, shown = RouteMaker("Estimates"), {200: EstimateOut, 201: EstimateOut}
        return [
            route("POST /v1/estimates", self.create_estimate, shown, MassInvalid, body=EstimateIn),
            route("GET /v1/estimates/{estimate_id}", self.read_estimate, EstimateOut, EstimateNotFound),
        ]
