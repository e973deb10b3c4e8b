"""Endpoints of estimates."""

import msgspec
from msgspec import Struct

from tonne.platform.db.database import Database
from tonne.platform.http.client_fields import idempotency_of, metadata_text, replay
from tonne.platform.http.json_body import Document, read
from tonne.platform.http.route import Request, Response, Route, RouteMaker, json_response
from tonne.platform.values.context import Clock, Scope
from tonne.selling.accounts.directory import AccountDirectory
from tonne.selling.accounts.model import Terms
from tonne.selling.catalogue.errors import QuantityInvalid
from tonne.selling.catalogue.model import Catalogue
from tonne.selling.catalogue.prices.price import PriceRequest, price_for_display
from tonne.selling.catalogue.schemas import QuoteOut, quote_out
from tonne.selling.catalogue.snapshot import Catalogues
from tonne.selling.estimates import store
from tonne.selling.estimates.errors import EstimateNotFound, MassInvalid
from tonne.selling.estimates.model import Estimate
from tonne.selling.estimates.record_estimate import new_estimate, record_estimate_once
from tonne.selling.estimates.schemas import EstimateIn, EstimateOut, estimate_out


class EstimateEndpoints(Struct, frozen=True):
    database: Database
    catalogues: Catalogues
    directory: AccountDirectory
    clock: Clock

    async def create_estimate(self, request: Request) -> Response:
        """Create an estimate.

        Stores an estimate that you calculated, and returns it with a quote for offsetting it now.
        """
        document = request.json()
        idempotency = idempotency_of("estimate", document)
        # Before taking a connection: holding one while waiting for another can exhaust the pool.
        terms, catalogue = await self._price_basis(request.scope)

        def compose() -> Estimate:
            estimate = self._read(request.scope, document)
            _require_price_in_range(estimate, terms, catalogue)
            return estimate

        estimate, original_digest = await self.database.run(record_estimate_once, request.scope, idempotency, compose)
        shown = estimate_out(estimate, _quote(estimate, terms, catalogue))
        if original_digest is None:
            return json_response(shown, 201)
        return replay(msgspec.json.encode(shown), original_digest, idempotency.digest)

    async def read_estimate(self, request: Request) -> Response:
        """Read an estimate.

        Returns one estimate of the account with a quote for offsetting it now.
        """
        estimate = await self.database.run(store.find_estimate, request.scope, request.path("estimate_id"))
        if estimate is None:
            raise EstimateNotFound
        return json_response(estimate_out(estimate, _quote(estimate, *await self._price_basis(request.scope))))

    def _read(self, scope: Scope, document: Document) -> Estimate:
        body = read(document, EstimateIn)
        return new_estimate(
            scope,
            body.mass.amount,
            body.mass.unit,
            body.description,
            now=self.clock(),
            idempotency_key=body.idempotency_key,
            metadata=metadata_text(document),
            quantity_trunc=body.quantity_trunc,
            shown_unit=body.estimate_mass_unit,
        )

    async def _price_basis(self, scope: Scope) -> tuple[Terms, Catalogue]:
        return await self.directory.terms_of(scope), await self.catalogues.current(scope.mode)

    def routes(self) -> list[Route]:
        route, shown = RouteMaker("Estimates"), {200: EstimateOut, 201: EstimateOut}
        return [
            route(
                "POST /v1/estimates",
                self.create_estimate,
                shown,
                MassInvalid,
                operation_id="createEstimate",
                body=EstimateIn,
            ),
            route(
                "GET /v1/estimates/{estimate_id}",
                self.read_estimate,
                EstimateOut,
                EstimateNotFound,
                operation_id="getEstimate",
            ),
        ]


def _require_price_in_range(estimate: Estimate, terms: Terms, catalogue: Catalogue) -> None:
    """Nobody could order the estimate, and every response with its quote would fail."""
    try:
        price_for_display(PriceRequest(mass_grams=estimate.mass_grams), terms, catalogue)
    except QuantityInvalid as error:
        raise MassInvalid(
            "Offsetting this mass costs more than can be paid. Check amount and unit.", field="mass.amount"
        ) from error


def _quote(estimate: Estimate, terms: Terms, catalogue: Catalogue) -> QuoteOut | None:
    request = PriceRequest(mass_grams=estimate.mass_grams, unit=estimate.quantity_trunc)
    try:
        priced = price_for_display(request, terms, catalogue)
    except QuantityInvalid:
        # Prices have risen since the estimate was created.
        return None
    return None if priced is None else quote_out(priced, request, terms, estimate_id=estimate.id)
