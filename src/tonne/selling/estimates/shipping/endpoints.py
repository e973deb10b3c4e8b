"""Lists of shipments and of the ways to ship."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from tonne.platform.db.database import Database
from tonne.platform.http.lists import LIST_ERRORS, LIST_PARAMETERS, ListOut, Paging, list_response
from tonne.platform.http.route import Parameter, Request, Response, Route, RouteMaker
from tonne.platform.values.errors import Fault, Invalid, TimeRangeInvalid
from tonne.selling.estimates.endpoints import CalculatedEstimateEndpoints
from tonne.selling.estimates.factors.model import FactorSet
from tonne.selling.estimates.factors.snapshot import Factors
from tonne.selling.estimates.shipping.kinds import KINDS
from tonne.selling.estimates.shipping.list_store import list_shipping
from tonne.selling.estimates.shipping.methods import FREIGHT, METHODS, TONNE_KM, TransportMode
from tonne.selling.estimates.shipping.read_method import OBJECTS, read_method
from tonne.selling.estimates.shipping.schemas import ShipmentOut, ShippingMethodOut

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_DATE = {"type": "string", "format": "date"}
_FILTERS = (
    Parameter(
        "is_shipment",
        "Only goods that were shipped, or only plans.",
        {"type": "string", "enum": ["true", "false"]},
    ),
    Parameter("from", "Only estimates that were created on this day (UTC) or later.", _DATE),
    Parameter("through", "Only estimates that were created on this day (UTC) or earlier.", _DATE),
)


class ShippingEndpoints:
    def __init__(self, database: Database, estimates: CalculatedEstimateEndpoints, factors: Factors) -> None:
        self._database = database
        self._estimates = estimates
        self._factors = factors

    async def list_methods(self, _request: Request) -> Response:
        """List the ways to ship.

        What `method` may be, and the emission factors behind it. The list has one page.
        """
        factors = await self._factors.current()
        return list_response([_method_out(sent, factors) for sent in (*METHODS, *OBJECTS)], None)

    async def list_shipments(self, request: Request) -> Response:
        """List estimates of shipments.

        Of both kinds, newest first, each with a quote for now. `kind` says which other fields an estimate has.
        """
        is_shipment, first, last = request.query("is_shipment", "from", "through")
        if is_shipment not in {None, "true", "false"}:
            raise Invalid([Fault("validation_error", "is_shipment is true or false.", "is_shipment")])
        since, until = _day(first, "from"), _day(last, "through")
        if since is not None and until is not None and until < since:
            raise TimeRangeInvalid("through is before from. Send the earlier day as from.", field="through")
        filters = f"{is_shipment} {first} {last}"
        paging = Paging.of(request, f"shipments {request.scope.account_id} {filters}")
        found = await self._database.run(
            list_shipping,
            request.scope,
            paging.start,
            paging.fetch,
            since=since,
            until=None if until is None else until + timedelta(days=1),
            is_actual=None if is_shipment is None else is_shipment == "true",
        )
        page, next_cursor = paging.cut(found)
        kinds = {kind.name: kind for kind in KINDS}
        return list_response([await self._estimates.show(kinds[each.kind], each) for each in page], next_cursor)

    def routes(self) -> list[Route]:
        route = RouteMaker("Estimates")
        return [
            *self._estimates.routes(KINDS),
            route(
                "GET /v1/estimates/shipping/methods",
                self.list_methods,
                ListOut[ShippingMethodOut],
                operation_id="listShippingMethods",
            ),
            route(
                "GET /v1/estimates/shipping/all",
                self.list_shipments,
                ListOut[ShipmentOut],
                *LIST_ERRORS,
                TimeRangeInvalid,
                operation_id="listShippingEstimates",
                query=(*LIST_PARAMETERS, *_FILTERS),
            ),
        ]


def _day(text: str | None, name: str) -> datetime | None:
    if text is None:
        return None
    try:
        if not _DAY.fullmatch(text):
            raise ValueError  # noqa: TRY301 - the same as for a day that does not exist
        day = datetime.fromisoformat(text).replace(tzinfo=UTC)
        # The day after it is the end of the period.
        _ = day + timedelta(days=1)
    except (ValueError, OverflowError) as error:
        raise TimeRangeInvalid(f"{name} is not a day. Send one such as 2026-11-17.", field=name) from error
    return day


def _method_out(sent: Any, factors: FactorSet) -> ShippingMethodOut:
    method = read_method(sent)
    if method.mode is TransportMode.AIR:
        found = [
            factor
            for factor in factors.latest_of(FREIGHT, TONNE_KM)
            if factor.activity.startswith("Freight flights /") and factor.activity.endswith("/ With RF")
        ]
    else:
        found = [factors.get(FREIGHT, method.activity, TONNE_KM)]
    return ShippingMethodOut(sent, method.mode, sorted(factor.id for factor in found), " ".join(method.notes) or None)
