"""Health checks and metrics for load balancers and monitoring."""

import msgspec

from tonne.db.migrate import MigrationError, require_migrated
from tonne.db.pool import Database
from tonne.http.errors import ServiceUnavailable
from tonne.http.metrics import Metrics
from tonne.http.route import Access, Request, Response, Route, RouteMaker, json_response


class HealthOut(msgspec.Struct):
    status: str


class HealthEndpoints:
    def __init__(self, database: Database, metrics: Metrics) -> None:
        self._database = database
        self._metrics = metrics

    async def live(self, _: Request) -> Response:
        """Checks that the process responds.

        Restart the process only if this fails.
        """
        return json_response(HealthOut("ok"))

    async def ready(self, _: Request) -> Response:
        """Checks that the database responds and has the schema of this release.

        Route traffic to the process only while this succeeds.
        """
        async with self._database.connection() as connection:
            try:
                await require_migrated(connection)
            except MigrationError as error:
                raise ServiceUnavailable from error
        return json_response(HealthOut("ok"))

    def routes(self) -> list[Route]:
        route = RouteMaker("Operation", Access.PUBLIC)
        return [
            route("GET /health/live", self.live, HealthOut),
            route("GET /health/ready", self.ready, HealthOut),
            route("GET /metrics", self._metrics.endpoint),
        ]
