"""The metrics of all processes as text, on the main port behind a token and on a port of their own."""

import asyncio
import contextlib
import errno
import hmac
import socket
from pathlib import Path

import structlog
from aiohttp import web

from tonne.base import metrics_text
from tonne.base.instruments import Snapshot
from tonne.base.settings import Settings
from tonne.db.queues import QueueReader
from tonne.http.errors import ServiceUnavailable, Unauthorised
from tonne.http.health import HealthEndpoints
from tonne.http.metrics import Metrics, process_snapshot
from tonne.http.metrics_folder import MetricsFolder
from tonne.http.route import Access, Request, Response, Route, RouteMaker

# How long another process may be without the port after the one that served it has ended.
TAKE_OVER_AFTER_S = 1.0
_CLOSE_WITHIN_S = 1.0

_log = structlog.get_logger()


class MetricsEndpoint:
    """Serves the metrics of this process or, after `share`, of all processes that use the same folder."""

    def __init__(self, metrics: Metrics, queues: QueueReader, settings: Settings) -> None:
        self._metrics = metrics
        self._queues = queues
        self._folder: MetricsFolder | None = None
        self._expected = f"Bearer {settings.metrics_token}".encode() if settings.metrics_token else b""

    def share(self, folder: Path) -> MetricsFolder:
        self._folder = MetricsFolder(folder, self._metrics)
        return self._folder

    async def text(self) -> bytes:
        if self._folder is not None:
            snapshots = await self._folder.read_all()
        else:
            process = await asyncio.to_thread(process_snapshot, self._metrics.process)
            snapshots = [*self._metrics.snapshot(), *process]
        return await asyncio.to_thread(_render, [*snapshots, *await self._queues.read()])

    async def get(self, request: Request) -> Response:
        """Metrics for Prometheus."""
        if not hmac.compare_digest(request.headers.get(b"authorization", b""), self._expected):
            raise Unauthorised
        return Response(await self.text(), media_type=metrics_text.CONTENT_TYPE.encode())

    def routes(self) -> list[Route]:
        """None without a token: the path then does not exist."""
        return [RouteMaker("Operation", Access.PUBLIC)("GET /metrics", self.get)] if self._expected else []

    async def close(self) -> None:
        if self._folder is not None:
            await self._folder.close()
        await self._queues.close()


def _render(snapshots: list[Snapshot]) -> bytes:
    return metrics_text.render(snapshots)


class MetricsPort:
    """A small server for `/metrics` and the health checks. Of several processes, one has the port at a time."""

    def __init__(self, settings: Settings, endpoint: MetricsEndpoint, health: HealthEndpoints) -> None:
        self._address = settings.metrics_host, settings.metrics_port
        self._endpoint = endpoint
        self._health = health
        app = web.Application()
        app.add_routes(
            [
                web.get("/metrics", self._get_metrics),
                web.get("/health/live", self._get_live),
                web.get("/health/ready", self._get_ready),
            ]
        )
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
                _log.warning("metrics_port_not_opened", error=repr(error))
            await asyncio.sleep(TAKE_OVER_AFTER_S)

    async def close(self) -> None:
        await self._runner.cleanup()

    async def _get_metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=await self._endpoint.text(), headers={"Content-Type": metrics_text.CONTENT_TYPE})

    async def _get_live(self, _: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _get_ready(self, _: web.Request) -> web.Response:
        try:
            await self._health.require_ready()
        except ServiceUnavailable:
            return web.json_response({"status": "unavailable"}, status=503)
        return web.json_response({"status": "ok"})


class MetricsServing:
    """Starts and stops what a process does for its metrics: nothing, unless a port or a token is set."""

    def __init__(self, endpoint: MetricsEndpoint, port: MetricsPort | None, folder: Path | None) -> None:
        self._endpoint = endpoint
        self._port = port
        self._folder = folder
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        if self._folder is not None:
            self._tasks.append(asyncio.create_task(self._endpoint.share(self._folder).write_for_ever()))
        if self._port is not None:
            self._tasks.append(asyncio.create_task(self._port.keep_open()))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        if self._port is not None:
            await self._port.close()
        await self._endpoint.close()
