"""For load balancers and monitoring."""

import msgspec

from tonne.db.migrate import MigrationError, require_migrated
from tonne.db.pool import Database
from tonne.http.errors import ServiceUnavailable
from tonne.http.metrics import Metrics
from tonne.http.route import Access, Request, Response, Route, json_response


class HealthOut(msgspec.Struct):
    status: str


class HealthEndpoints:
    def __init__(self, database: Database, metrics: Metrics) -> None:
        self._database = database
        self._metrics = metrics

    async def live(self, _: Request) -> Response:
        """The process answers: restart it only when this fails."""
        return json_response(HealthOut("ok"))

    async def ready(self, _: Request) -> Response:
        """The database answers, and its schema is this release's: send traffic only while this succeeds."""
        async with self._database.connection() as connection:
            try:
                await require_migrated(connection)
            except MigrationError as error:
                raise ServiceUnavailable from error
        return json_response(HealthOut("ok"))

    def routes(self) -> list[Route]:
        return [
            Route(
                method="GET",
                path=path,
                endpoint=endpoint,
                access=Access.PUBLIC,
                summary=summary,
                tag="Operation",
                answers={200: shape},
            )
            for path, endpoint, summary, shape in (
                ("/health/live", self.live, "Whether the process answers", HealthOut),
                ("/health/ready", self.ready, "Whether the database answers too", HealthOut),
                ("/metrics", self._metrics.endpoint, "Metrics for Prometheus", None),
            )
        ]
