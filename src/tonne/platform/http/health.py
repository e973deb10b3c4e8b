"""Health checks for load balancers and monitoring."""

import asyncio
from typing import Protocol

import msgspec

from tonne.platform.db.database import Connection, Database
from tonne.platform.db.errors import DATABASE_ERRORS
from tonne.platform.db.queues import HoldWatch
from tonne.platform.db.schema.migrate import MigrationError, require_compatible
from tonne.platform.http.drain import Drain
from tonne.platform.http.errors import ServiceUnavailable
from tonne.platform.http.route import Access, Request, Response, Route, RouteMaker, json_response

READY_WITHIN_S = 1.0
NO_DATABASE = "the database does not respond, or its schema does not match this release"


class HealthOut(msgspec.Struct):
    status: str


class HealthChecks(Protocol):
    """What a process tells its supervisor. Each check returns what is wrong, or nothing."""

    def why_not_live(self) -> list[str]:
        """A restart is the remedy for everything that this returns."""

    async def why_not_ready(self) -> list[str]: ...


class HealthEndpoints:
    def __init__(self, database: Database, hold: HoldWatch) -> None:
        self._database = database
        self._hold = hold
        # Not one of the pool: a load balancer must learn that a busy server is ready.
        self._connection: Connection | None = None
        self._lock = asyncio.Lock()
        self._drain = Drain()

    async def live(self, _: Request) -> Response:
        """Checks that the process responds.

        Restart the process only if this fails.
        """
        return json_response(HealthOut("ok"))

    async def ready(self, _: Request) -> Response:
        """Checks that the process can serve requests.

        The database responds within a second, this release can run on its schema, and the process is not about to stop.
        Route traffic to the process only while this succeeds. The status is `held` while the service answers reads
        only, for example after a restore.
        """
        await self.require_ready()
        return json_response(HealthOut("held" if self._hold.is_held else "ok"))

    def why_not_live(self) -> list[str]:
        return []

    async def why_not_ready(self) -> list[str]:
        try:
            await self.require_ready()
        except ServiceUnavailable as refusal:
            return ["the process is about to stop" if refusal.is_draining else NO_DATABASE]
        return []

    async def require_ready(self) -> None:
        """Raises ServiceUnavailable."""
        if self._drain.has_begun():
            raise ServiceUnavailable(is_draining=True)
        try:
            async with asyncio.timeout(READY_WITHIN_S), self._lock:
                await self._check()
        except (*DATABASE_ERRORS, MigrationError) as error:
            await self.close()
            raise ServiceUnavailable from error

    async def _check(self) -> None:
        if not self._database.is_open:
            raise ServiceUnavailable
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._database.connect()
        await require_compatible(self._connection)

    async def close(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    def routes(self) -> list[Route]:
        route = RouteMaker("Operation", Access.PUBLIC)
        return [
            route("GET /health/live", self.live, HealthOut),
            route("GET /health/ready", self.ready, HealthOut),
        ]
