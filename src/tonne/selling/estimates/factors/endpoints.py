"""Endpoints of emission factors."""

from typing import Annotated

import msgspec

from tonne.platform.http.lists import LIST_ERRORS, LIST_PARAMETERS, ListOut, Paging, list_response
from tonne.platform.http.route import Parameter, Request, Response, Route, RouteMaker, json_response
from tonne.platform.values.errors import Fault, Invalid
from tonne.platform.values.paging import START, Position
from tonne.selling.estimates.factors.errors import FactorNotFound
from tonne.selling.estimates.factors.model import Factor, FactorSearch
from tonne.selling.estimates.factors.schemas import EmissionFactorOut, factor_out
from tonne.selling.estimates.factors.snapshot import Factors
from tonne.selling.estimates.geography.countries import alpha_3

MAX_NAME_LENGTH = 200
Region = Annotated[str, msgspec.Meta(description="ISO 3166 alpha-3 code, or WLD.", examples=["DEU"])]
_TEXT = {"type": "string"}
_FILTERS = (
    Parameter("name", "Words that name, category or id contain.", {**_TEXT, "maxLength": MAX_NAME_LENGTH}),
    Parameter("source", "Code of the publisher, such as `beis`. May be repeated.", _TEXT),
    Parameter("publication_year", "Year of the data. May be repeated.", {**_TEXT, "pattern": "^[0-9]{4}$"}),
    Parameter("region", "ISO 3166 code, or WLD. May be repeated.", _TEXT),
    Parameter(
        "unit",
        "What the activity is measured in: `energy`, `distance`, `person-distance`, `mass-distance`, `room-time`, "
        "`fte-time`, `currency` and so on. May be repeated.",
        _TEXT,
    ),
)


class FactorEndpoints:
    def __init__(self, factors: Factors) -> None:
        self._factors = factors

    async def list_factors(self, request: Request) -> Response:
        """List emission factors.

        All factors that estimates can use, in the order of their ids. Filters may be combined.
        """
        [name] = request.query("name")
        if name and len(name) > MAX_NAME_LENGTH:
            raise Invalid([Fault("validation_error", f"name has more than {MAX_NAME_LENGTH} characters.", "name")])
        requested = FactorSearch(
            name or "",
            frozenset(request.query_values("source")),
            frozenset(map(_year, request.query_values("publication_year"))),
            frozenset(alpha_3(code) or code.upper() for code in request.query_values("region")),
            frozenset(request.query_values("unit")),
        )
        paging = Paging.of(request, f"emission-factors {_list_name(requested)}")
        # In the order of ids, so the first page starts below all of them, not above.
        after = "" if paging.start == START else paging.start.id
        found = (await self._factors.current()).search(requested, after, paging.fetch)
        page, cursor = paging.cut(found, _position)
        return list_response([factor_out(factor) for factor in page], cursor)

    async def list_regions(self, _request: Request) -> Response:
        """List the regions of emission factors.

        Returns an array of ISO 3166 alpha-3 codes.
        """
        return json_response((await self._factors.current()).regions)

    async def read_factor(self, request: Request) -> Response:
        """Read an emission factor.

        Returns its latest version. The id may contain slashes, encoded or not.
        """
        factor = (await self._factors.current()).by_id.get(request.path("factor_id"))
        if factor is None:
            raise FactorNotFound
        return json_response(factor_out(factor))

    def routes(self) -> list[Route]:
        route = RouteMaker("Emission factors")
        return [
            route(
                "GET /v1/emission-factors",
                self.list_factors,
                ListOut[EmissionFactorOut],
                *LIST_ERRORS,
                operation_id="listEmissionFactors",
                query=(*LIST_PARAMETERS, *_FILTERS),
            ),
            route(
                "GET /v1/emission-factors/regions",
                self.list_regions,
                list[Region],
                operation_id="listEmissionFactorRegions",
            ),
            route(
                "GET /v1/emission-factors/{factor_id:path}",
                self.read_factor,
                EmissionFactorOut,
                FactorNotFound,
                operation_id="getEmissionFactor",
            ),
        ]


def _list_name(requested: FactorSearch) -> str:
    """Binds cursors to the filters."""
    return "|".join([requested.name, *(",".join(sorted(map(str, each))) for each in requested[1:])])


def _year(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) == 4):
        raise Invalid([Fault("validation_error", "publication_year is not a year such as 2025.", "publication_year")])
    return int(text)


def _position(factor: Factor) -> Position:
    return Position(factor.created_at, factor.id)
