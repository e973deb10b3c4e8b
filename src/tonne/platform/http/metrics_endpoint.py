"""Metrics of all processes as text, on the main port behind a token and, with the health checks, on another port."""

import asyncio
import contextlib
import errno
import hmac
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import structlog
from aiohttp import web

from tonne.platform.db.queues import QueueReader
from tonne.platform.http.errors import Unauthorised
from tonne.platform.http.health import HealthChecks
from tonne.platform.http.route import Access, Request, Response, Route, RouteMaker
from tonne.platform.process.telemetry import metrics_text
from tonne.platform.process.telemetry.instruments import Snapshot
from tonne.platform.process.telemetry.metrics import Metrics, process_snapshot
from tonne.platform.process.telemetry.metrics_folder import FOLDER_VARIABLE, MetricsFolder
from tonne.platform.settings.settings import Settings

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


class MonitoringPort:
    """A small server for the health checks and `/metrics`. Of several processes, one has the port at a time."""

    def __init__(self, host: str, port: int, checks: HealthChecks, metrics: MetricsEndpoint | None) -> None:
        """Without `metrics`, only the health checks."""
        self._address = host, port
        self._checks = checks
        app = web.Application()
        app.add_routes([web.get("/health/live", self._get_live), web.get("/health/ready", self._get_ready)])
        if metrics is not None:
            self._metrics = metrics
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
        return web.Response(body=await self._metrics.text(), headers={"Content-Type": metrics_text.CONTENT_TYPE})

    async def _get_live(self, _: web.Request) -> web.Response:
        return _health_response(self._checks.why_not_live())

    async def _get_ready(self, _: web.Request) -> web.Response:
        return _health_response(await self._checks.why_not_ready())


def _health_response(reasons: Sequence[str]) -> web.Response:
    if reasons:
        return web.json_response({"status": "unavailable", "reasons": list(reasons)}, status=503)
    return web.json_response({"status": "ok"})


class MetricsServing:
    """Starts and stops what a process does for its monitoring: nothing, unless a port or a token is set."""

    def __init__(self, endpoint: MetricsEndpoint, ports: Sequence[MonitoringPort], folder: Path | None) -> None:
        self._endpoint = endpoint
        self._ports = ports
        self._folder = folder
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    def of(cls, process: str, endpoint: MetricsEndpoint, checks: HealthChecks, settings: Settings) -> Self:
        """With a shared folder, an api process serves the metrics of all; without one, each process its own."""
        folder, ports = os.environ.get(FOLDER_VARIABLE), []
        if settings.metrics_port and (folder is None or process == "api"):
            ports.append(MonitoringPort(settings.metrics_host, settings.metrics_port, checks, endpoint))
        if settings.worker_health_port and process == "worker":
            ports.append(MonitoringPort(settings.metrics_host, settings.worker_health_port, checks, None))
        return cls(endpoint, ports, None if folder is None else Path(folder))

    async def start(self) -> None:
        if self._folder is not None:
            self._tasks.append(asyncio.create_task(self._endpoint.share(self._folder).write_for_ever()))
        self._tasks += [asyncio.create_task(port.keep_open()) for port in self._ports]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        for port in self._ports:
            await port.close()
        await self._endpoint.close()
