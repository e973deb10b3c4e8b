"""Recording and reading emission calculations."""

import msgspec

from tonne.accounts.directory import AccountDirectory
from tonne.base.clock import Clock
from tonne.base.ids import new_id
from tonne.base.scope import Scope
from tonne.catalog.errors import PriceUnavailable
from tonne.catalog.pricing import PriceList, price_quantity
from tonne.catalog.schemas import QuoteOut, quote_out
from tonne.catalog.selection import resolve_default
from tonne.catalog.snapshot import Catalogues
from tonne.db.pool import Database
from tonne.estimates import store
from tonne.estimates.errors import EstimateNotFound, MassInvalid
from tonne.estimates.model import Estimate
from tonne.estimates.record_estimate import mass_in_grams
from tonne.estimates.schemas import EstimateIn, EstimateOut, estimate_out
from tonne.http.client_fields import metadata_text, peek_idempotency_key, replay, request_digest
from tonne.http.json_body import Document, read
from tonne.http.route import Access, Request, Response, Route, json_response


class EstimateEndpoints:
    def __init__(
        self, database: Database, catalogues: Catalogues, directory: AccountDirectory, *, clock: Clock
    ) -> None:
        self._database = database
        self._catalogues = catalogues
        self._directory = directory
        self._clock = clock

    async def create_estimate(self, request: Request) -> Response:
        """Stores an estimate that you calculated, and returns it with a quote for offsetting it now."""
        document = request.json()
        digest = request_digest("estimate", document)
        key = peek_idempotency_key(document)
        if key is not None and (response := await self._replay(request.scope, key, digest)):
            return response
        estimate = self._read(request.scope, document)
        async with self._database.connection() as connection:
            inserted = await store.insert_estimate(connection, estimate, digest)
        if not inserted and (response := await self._replay(request.scope, estimate.idempotency_key, digest)):
            return response
        return json_response(await self._show(estimate), 201)

    async def read_estimate(self, request: Request) -> Response:
        """Returns one estimate of the account with a quote for offsetting it now."""
        async with self._database.connection() as connection:
            estimate = await store.find_estimate(connection, request.scope, request.path("estimate_id"))
        if estimate is None:
            raise EstimateNotFound
        return json_response(await self._show(estimate))

    def _read(self, scope: Scope, document: Document) -> Estimate:
        body = read(document, EstimateIn)
        metadata = metadata_text(document)
        return Estimate(
            scope=scope,
            id=new_id("est"),
            idempotency_key=body.idempotency_key or new_id("auto"),
            mass_grams=mass_in_grams(body.mass.amount, body.mass.unit),
            mass_amount=f"{body.mass.amount:f}",
            mass_unit=body.mass.unit,
            description=body.description,
            metadata=metadata,
            created_at=self._clock(),
        )

    async def _replay(self, scope: Scope, key: str, digest: bytes) -> Response | None:
        async with self._database.connection() as connection:
            found = await store.find_by_key(connection, scope, key)
        if found is None:
            return None
        estimate, original_digest = found
        return replay(msgspec.json.encode(await self._show(estimate)), original_digest, digest)

    async def _show(self, estimate: Estimate) -> EstimateOut:
        return estimate_out(estimate, await self._quote(estimate))

    async def _quote(self, estimate: Estimate) -> QuoteOut | None:
        terms = await self._directory.terms_of(estimate.scope)
        catalogue = await self._catalogues.current(estimate.scope.mode)
        try:
            shares = resolve_default(terms.default_selection, catalogue)
            prices = PriceList(catalogue, terms.currency, terms.fee_rate)
            priced = price_quantity(prices, shares, estimate.mass_grams)
        except PriceUnavailable:
            return None
        return quote_out(priced, estimate_id=estimate.id, requested_grams=estimate.mass_grams)

    def routes(self) -> list[Route]:
        return [
            Route(
                method="POST",
                path="/v1/estimates",
                endpoint=self.create_estimate,
                access=Access.API_KEY,
                summary="Record an emission calculation",
                tag="Estimates",
                body=EstimateIn,
                example={
                    "mass": {"amount": "1040", "unit": "t"},
                    "description": "Yearly footprint of a small factory",
                    "idempotency_key": "footprint-2026",
                },
                answers={200: EstimateOut, 201: EstimateOut},
                errors=(MassInvalid,),
            ),
            Route(
                method="GET",
                path="/v1/estimates/{estimate_id}",
                endpoint=self.read_estimate,
                access=Access.API_KEY,
                summary="Read an emission calculation",
                tag="Estimates",
                answers={200: EstimateOut},
                errors=(EstimateNotFound,),
            ),
        ]
