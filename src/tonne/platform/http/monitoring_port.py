"""A port for the health checks and the metrics, apart from that of the API."""

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable, Sequence

import structlog
from aiohttp import web

from tonne.platform.http.health import HealthChecks
from tonne.platform.process.telemetry import metrics_text

# How long another process may be without the port after the one that served it has ended.
TAKE_OVER_AFTER_S = 1.0
_CLOSE_WITHIN_S = 1.0

_log = structlog.get_logger()


class MonitoringPort:
    """A small server for the health checks and `/metrics`. Of several processes, one has the port at a time."""

    def __init__(
        self, host: str, port: int, checks: HealthChecks, read_metrics: Callable[[], Awaitable[bytes]] | None
    ) -> None:
        """Without `read_metrics`, only the health checks."""
        self._address = host, port
        self._checks = checks
        app = web.Application()
        app.add_routes([web.get("/health/live", self._get_live), web.get("/health/ready", self._get_ready)])
        if read_metrics is not None:
            self._read_metrics = read_metrics
            app.add_routes([web.get("/metrics", self._get_metrics)])
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=_CLOSE_WITHIN_S)

    async def open(self) -> bool:
        """False if another process has the port."""
        family = socket.AF_INET6 if ":" in self._address[0] else socket.AF_INET
        try:
            listener = socket.create_server(self._address, family=family)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return False
        await self._runner.setup()
        await web.SockSite(self._runner, listener).start()
        return True

    async def keep_open(self) -> None:
        """Take the port when no other process has it. Runs until it is cancelled."""
        while True:
            try:
                if await self.open():
                    return
            except OSError as error:
                _log.warning("metrics_port_not_opened", port=self._address[1], error=repr(error))
            await asyncio.sleep(TAKE_OVER_AFTER_S)

    async def close(self) -> None:
        await self._runner.cleanup()

    async def _get_metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=await self._read_metrics(), headers={"Content-Type": metrics_text.CONTENT_TYPE})

    async def _get_live(self, _: web.Request) -> web.Response:
        return _health_response(self._checks.why_not_live())

    async def _get_ready(self, _: web.Request) -> web.Response:
        return _health_response(await self._checks.why_not_ready())


def _health_response(reasons: Sequence[str]) -> web.Response:
    if reasons:
        return web.json_response({"status": "unavailable", "reasons": list(reasons)}, status=503)
    return web.json_response({"status": "ok"})
