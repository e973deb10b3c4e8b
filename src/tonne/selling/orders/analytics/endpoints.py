"""Endpoints of analytics."""

from datetime import UTC

from msgspec import Struct

from tonne.platform.db.database import Connection, Database
from tonne.platform.http.json_body import read
from tonne.platform.http.route import Parameter, Request, Response, Route, RouteMaker, json_response
from tonne.platform.values.context import Clock
from tonne.platform.values.errors import Fault, Invalid, TimeRangeInvalid
from tonne.selling.accounts.directory import AccountDirectory
from tonne.selling.catalogue.model import Catalogue
from tonne.selling.catalogue.snapshot import Catalogues
from tonne.selling.orders.analytics import errors, schemas, store
from tonne.selling.orders.analytics.aggregate import Aggregation, metrics_of, running_totals
from tonne.selling.orders.analytics.model import Accounts, DayRange, Grouping, Interval, period_of
from tonne.selling.orders.analytics.read_orders import order_row, query_of, read_orders
from tonne.selling.orders.analytics.store import BundleSums
from tonne.selling.orders.totals.metadata_totals import list_keys, set_keys

_DATE = {"type": "string", "format": "date"}
_RANGE = (
    Parameter("from", "First day (UTC). Without it, 30 days before `through`.", _DATE),
    Parameter("through", "Last day (UTC). Without it, today.", _DATE),
)
_ALL_ACCOUNTS = Parameter(
    "all_accounts", "`true`: all accounts of the organisation that the API key may use.", {"type": "boolean"}
)
_INTERVAL = Parameter(
    "interval", "Count by day or by month.", {"type": "string", "enum": [*Interval], "default": "day"}
)
_GROUP_BY = Parameter(
    "group_by",
    "`month`, `account`, `bundle`, `project` or `metadata[key]`. Repeat it for several; `metadata[key]` cannot be "
    "combined with `bundle` or `project`.",
    {"type": "array", "items": {"type": "string"}},
)
_METADATA = Parameter(
    "metadata[]",
    "`metadata[key]=value`: only orders with this value of a key that the account has named.",
    {"type": "object", "additionalProperties": {"type": "string"}},
)
# No account has so many bundles, projects and days.
_ALL_ROWS = 1_000_000


class AnalyticsEndpoints(Struct, frozen=True):
    database: Database
    catalogues: Catalogues
    directory: AccountDirectory
    clock: Clock

    async def read_cumulative(self, request: Request) -> Response:
        """Read running totals of orders by bundle.

        Returns for each bundle the tonnes ordered since `from` and their cost without the fee, day by day. Orders count
        on the day of their creation (UTC); cancelled and failed orders do not count.
        """
        period = self._period(request)
        sums, catalogue = await self._sum_bundles(request, period, Grouping(interval=Interval.DAY, by_bundle=True))
        terms = await self.directory.terms_of(request.scope)
        return json_response(running_totals(sums, period, catalogue, terms.currency))

    async def read_metrics(self, request: Request) -> Response:
        """Read how many projects and goals were supported.

        Counts the projects that supply was allocated from, for orders created in the period, and the Sustainable
        Development Goals that they contribute to.
        """
        sums, catalogue = await self._sum_bundles(request, self._period(request), Grouping(by_project=True))
        return json_response(metrics_of(sums, catalogue))

    async def read_aggregated(self, request: Request) -> Response:
        """Read totals of orders by properties of their projects.

        Returns tonnes and their cost without the fee by bundle, continent, registry, type of the Oxford principles and
        type of offset, for orders created in the period. Cancelled and failed orders do not count.
        """
        grouping = Grouping(by_bundle=True, by_project=True)
        sums, catalogue = await self._sum_bundles(request, self._period(request), grouping)
        terms = await self.directory.terms_of(request.scope)
        return json_response(Aggregation(sums, catalogue, terms.currency).shown())

    async def read_calculations(self, request: Request) -> Response:
        """Read how many estimates were created.

        Returns the number of estimates by day or month (UTC), also where it is zero.
        """
        period, accounts = self._period(request), _accounts(request)
        (text,) = request.query("interval")
        if text not in {None, *Interval}:
            raise Invalid([Fault("validation_error", "interval is not valid: write day or month.", "interval")])
        interval = Interval(text or Interval.DAY)
        counts = await self.database.run(store.count_estimates, request.scope, accounts, period, interval)
        starts = period.starts(interval)
        return json_response(
            schemas.CalculationsOut([schemas.DayCountOut(str(day), counts.get(day, 0)) for day in starts])
        )

    async def read_orders(self, request: Request) -> Response:
        """Read totals of orders.

        Returns numbers of orders, tonnes and money for orders created in the period, grouped as requested, and always
        by currency. Cancelled and failed orders do not count. Refunds are shown, not subtracted: a refunded order that
        is complete has retired its credits.
        """
        query = query_of(request.query_values("group_by"), request.query_map("metadata"))
        period, accounts = self._period(request), _accounts(request)
        catalogue = await self.catalogues.current(request.scope.mode)
        async with self.database.snapshot() as tx:
            found = await read_orders(tx, request.scope, accounts, period, query)
        rows = [order_row(sums, query.grouping, catalogue) for sums in found]
        group_by = request.query_values("group_by")
        return json_response(schemas.OrderAnalyticsOut(str(period.first), str(period.last), group_by, rows))

    async def read_keys(self, request: Request) -> Response:
        """Read the metadata keys of analytics.

        Returns the keys of order metadata by which `GET /v1/analytics/orders` can group and filter.
        """
        return await self.database.run(self._show_keys, request)

    async def replace_keys(self, request: Request) -> Response:
        """Replace the metadata keys of analytics.

        Names at most 5 keys of order metadata. Earlier orders are counted in the background; until then a new key is
        not ready. Choose keys with few different values, such as a cost centre. Values are texts, numbers and booleans,
        of which the first 200 characters count.
        """
        body = read(request.json(), schemas.MetadataKeysIn)
        async with self.database.transaction() as tx:
            await set_keys(tx, request.scope, body.keys, by=request.actor.at(self.clock()))
            return await self._show_keys(tx, request)

    async def _show_keys(self, connection: Connection, request: Request) -> Response:
        keys = await list_keys(connection, request.scope)
        return json_response(
            schemas.MetadataKeysOut([schemas.MetadataKeyOut(each.key, each.is_complete) for each in keys])
        )

    def _period(self, request: Request) -> DayRange:
        first, last = request.query("from", "through")
        return period_of(first, last, self.clock().astimezone(UTC).date())

    async def _sum_bundles(
        self, request: Request, period: DayRange, grouping: Grouping
    ) -> tuple[list[BundleSums], Catalogue]:
        scope = request.scope
        own = Accounts(scope.account_id)
        sums = await self.database.run(store.sum_bundles, scope, own, period, grouping, limit=_ALL_ROWS)
        return sums, await self.catalogues.current(scope.mode)

    def routes(self) -> list[Route]:
        route = RouteMaker("Analytics")
        ranged = RouteMaker("Analytics", query=_RANGE)
        keys = "/v1/analytics/metadata-keys"
        return [
            ranged(
                "GET /v1/analytics/cumulative-per-bundle",
                self.read_cumulative,
                list[schemas.BundleTimeseriesOut],
                TimeRangeInvalid,
                operation_id="getCumulativeAnalyticsPerBundle",
            ),
            ranged(
                "GET /v1/analytics/metrics",
                self.read_metrics,
                schemas.MetricsOut,
                TimeRangeInvalid,
                operation_id="getMetrics",
            ),
            ranged(
                "GET /v1/analytics/aggregated-by-property",
                self.read_aggregated,
                schemas.AggregatedOut,
                TimeRangeInvalid,
                operation_id="getAggregatedAnalyticsByProperty",
            ),
            route(
                "GET /v1/analytics/emission-calculations",
                self.read_calculations,
                schemas.CalculationsOut,
                TimeRangeInvalid,
                operation_id="getEmissionCalculationMetrics",
                query=(*_RANGE, _INTERVAL, _ALL_ACCOUNTS),
            ),
            route(
                "GET /v1/analytics/orders",
                self.read_orders,
                schemas.OrderAnalyticsOut,
                TimeRangeInvalid,
                errors.GroupingInvalid,
                errors.MetadataKeyUnknown,
                errors.MetadataKeyNotReady,
                errors.TooManyGroups,
                operation_id="getOrderAnalytics",
                query=(*_RANGE, _GROUP_BY, _ALL_ACCOUNTS, _METADATA),
            ),
            route(f"GET {keys}", self.read_keys, schemas.MetadataKeysOut, operation_id="getAnalyticsMetadataKeys"),
            route(
                f"PUT {keys}",
                self.replace_keys,
                schemas.MetadataKeysOut,
                operation_id="replaceAnalyticsMetadataKeys",
                body=schemas.MetadataKeysIn,
            ),
        ]


def _accounts(request: Request) -> Accounts:
    (text,) = request.query("all_accounts")
    if text not in {None, "true", "false"}:
        raise Invalid([Fault("validation_error", "all_accounts is not valid: write true or false.", "all_accounts")])
    if text != "true":
        return Accounts(request.scope.account_id)
    return Accounts(None, None if request.accounts is None else sorted(request.accounts))
