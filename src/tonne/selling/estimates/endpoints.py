"""Endpoints of estimates, and the routes of every kind of calculated estimate."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from tonne.platform.db.database import Database
from tonne.platform.http.client_fields import idempotency_of, metadata_text, replay
from tonne.platform.http.json_body import Document, read
from tonne.platform.http.route import Endpoint, Parameter, Request, Response, Route, RouteMaker, json_response
from tonne.platform.values.amounts import format_tonnes
from tonne.platform.values.context import Clock, Scope, is_id, to_wire
from tonne.platform.values.errors import Fault, Invalid
from tonne.selling.accounts.directory import AccountDirectory
from tonne.selling.accounts.model import Terms
from tonne.selling.catalogue.errors import SELECTION_ERRORS, QuantityInvalid
from tonne.selling.catalogue.model import Catalogue
from tonne.selling.catalogue.prices.price import PriceRequest, price_for_display
from tonne.selling.catalogue.schemas import QuoteOut, quote_out
from tonne.selling.catalogue.snapshot import Catalogues
from tonne.selling.estimates import store
from tonne.selling.estimates.calculate_estimate import AUTO_KEY, CalculateEstimate, QuoteEstimate
from tonne.selling.estimates.calculated import CalculatedEstimate, EstimateKind, mass_out
from tonne.selling.estimates.errors import EstimateNotFound, EstimateVersionNotFound, IdempotencyKeyTaken, MassInvalid
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


_VERSION = Parameter(
    "version",
    "Read an earlier version. Orders keep the one that they were placed on.",
    {"type": "string", "pattern": "^[1-9][0-9]{0,8}$"},
)
_RESULT = dict[str, msgspec.Raw]


class CalculatedEstimateEndpoints:
    def __init__(self, estimates: CalculateEstimate, quotes: QuoteEstimate) -> None:
        self._estimates = estimates
        self._quotes = quotes

    async def show(self, kind: EstimateKind[Any], estimate: CalculatedEstimate) -> dict[str, Any]:
        """The estimate as the API returns it, ready to be encoded as JSON."""
        shown: dict[str, Any] = {
            "id": estimate.id,
            "kind": estimate.kind,
            "version": estimate.version,
            "name": estimate.name,
            "mass": mass_out(estimate.mass_grams),
            "quantity": format_tonnes(estimate.mass_grams),
            "quote": await self._quotes.quote(estimate),
            "request": msgspec.Raw(estimate.request.encode()),
            "metadata": msgspec.Raw(estimate.metadata.encode()),
        }
        if not is_id(AUTO_KEY, estimate.idempotency_key):
            shown["idempotency_key"] = estimate.idempotency_key
        shown["created_at"] = to_wire(estimate.created_at)
        shown["calculated_at"] = to_wire(estimate.calculated_at)
        if kind.annotations is not None:
            shown[kind.annotations.is_actual] = bool(estimate.is_actual)
            moment = estimate.occurred_at
            shown[kind.annotations.occurred_at] = None if moment is None else to_wire(moment)
        return shown | msgspec.json.decode(estimate.result, type=_RESULT)

    async def create(self, kind: EstimateKind[Any], request: Request) -> Response:
        estimate, is_new = await self._estimates.create(request.scope, kind, request.json())
        response = json_response(await self.show(kind, estimate), 201 if is_new else 200)
        if not is_new:
            response.headers["Idempotent-Replayed"] = "true"
        return response

    async def read(self, kind: EstimateKind[Any], request: Request) -> Response:
        [text] = request.query("version")
        version = None if text is None else _version(text)
        estimate = await self._estimates.find(request.scope, kind, request.path(kind.parameter), version)
        if estimate is None and version is not None:
            estimate = await self._estimates.find(request.scope, kind, request.path(kind.parameter))
            raise EstimateNotFound if estimate is None else EstimateVersionNotFound(field="version")
        if estimate is None:
            raise EstimateNotFound
        return json_response(await self.show(kind, estimate))

    async def replace(self, kind: EstimateKind[Any], request: Request) -> Response:
        estimate = await self._estimates.replace(request.scope, kind, request.path(kind.parameter), request.json())
        return json_response(await self.show(kind, estimate))

    async def annotate(self, kind: EstimateKind[Any], request: Request) -> Response:
        estimate = await self._estimates.annotate(request.scope, kind, request.path(kind.parameter), request.json())
        return json_response(await self.show(kind, estimate))

    def routes(self, kinds: Sequence[EstimateKind[Any]]) -> list[Route]:
        return [route for kind in kinds for route in self._routes(kind)]

    def _routes(self, kind: EstimateKind[Any]) -> list[Route]:
        route, noun = RouteMaker("Estimates"), kind.noun
        path, one = f"/v1/estimates/{kind.name}", f"/v1/estimates/{kind.name}/{{{kind.parameter}}}"
        invalid = (*kind.errors, MassInvalid, *SELECTION_ERRORS, IdempotencyKeyTaken)
        create = f"Estimate {noun}.\n\n{kind.about}"
        read = f"Read an estimate of {noun}.\n\nWith a quote for now."
        replace = (
            f"Calculate {noun} again.\n\nMakes a new version with the current emission factors. Orders keep the "
            "version that they were placed on."
        )
        routes = [
            route(
                f"POST {path}",
                _documented(self.create, kind, create),
                {200: kind.answer, 201: kind.answer},
                *invalid,
                operation_id=f"create{kind.operation}",
                body=kind.request,
                example=kind.example,
            ),
            route(
                f"GET {one}",
                _documented(self.read, kind, read),
                kind.answer,
                EstimateNotFound,
                EstimateVersionNotFound,
                operation_id=f"get{kind.operation}",
                query=(_VERSION,),
            ),
            route(
                f"PUT {one}",
                _documented(self.replace, kind, replace),
                kind.answer,
                EstimateNotFound,
                *invalid,
                operation_id=f"replace{kind.operation}",
                body=kind.request,
                example=kind.example,
            ),
        ]
        if kind.annotations is not None and kind.annotations.request is not None:
            annotate = f"Annotate an estimate of {noun}.\n\nChanges only the fields that you send, and no version."
            routes.append(
                route(
                    f"PATCH {one}/annotations",
                    _documented(self.annotate, kind, annotate),
                    kind.answer,
                    EstimateNotFound,
                    IdempotencyKeyTaken,
                    operation_id=f"annotate{kind.operation}",
                    body=kind.annotations.request,
                )
            )
        return routes


def _documented(endpoint: Any, kind: EstimateKind[Any], text: str) -> Endpoint:
    """The endpoint for one kind. The first line of its docstring is the summary in the OpenAPI document."""

    async def call(request: Request) -> Response:
        response: Response = await endpoint(kind, request)
        return response

    call.__doc__ = text
    return call


def _version(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and int(text) > 0):
        raise Invalid([Fault("validation_error", "version is not a whole number above 0.", "version")])
    return int(text)
