"""For load balancers and monitoring."""

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
        """Whether the process answers.

        The process answers: restart it only when this fails.
        """
        return json_response(HealthOut("ok"))

    async def ready(self, _: Request) -> Response:
        """Whether the database answers too.

        The database answers, and its schema is this release's: send traffic only while this succeeds.
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
