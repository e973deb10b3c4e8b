"""Metrics of all processes as text, on the main port behind a token or on a monitoring port."""

import asyncio
import contextlib
import hmac
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tonne.platform.db.queues import QueueReader
from tonne.platform.http.errors import Unauthorised
from tonne.platform.http.health import HealthChecks
from tonne.platform.http.route import Access, Request, Response, Route, RouteMaker
from tonne.platform.process.telemetry import metrics_text
from tonne.platform.process.telemetry.instruments import Snapshot
from tonne.platform.process.telemetry.metrics import FOLDER_VARIABLE, Metrics, MetricsFolder, process_snapshot
from tonne.platform.settings.settings import Settings

if TYPE_CHECKING:
    from tonne.platform.http.monitoring_port import MonitoringPort


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


class MetricsServing:
    """Starts and stops what a process does for its monitoring: nothing, unless a port or a token is set."""

    def __init__(self, endpoint: MetricsEndpoint, ports: Sequence["MonitoringPort"], folder: Path | None) -> None:
        self._endpoint = endpoint
        self._ports = ports
        self._folder = folder
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    def of(cls, process: str, endpoint: MetricsEndpoint, checks: HealthChecks, settings: Settings) -> Self:
        """With a shared folder, an api process serves the metrics of all; without one, each process its own."""
        folder, ports = os.environ.get(FOLDER_VARIABLE), []
        if settings.metrics_port and (folder is None or process == "api"):
            ports.append(_monitoring_port(settings.metrics_host, settings.metrics_port, checks, endpoint))
        if settings.worker_health_port and process == "worker":
            ports.append(_monitoring_port(settings.metrics_host, settings.worker_health_port, checks, None))
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


def _monitoring_port(host: str, port: int, checks: HealthChecks, metrics: MetricsEndpoint | None) -> "MonitoringPort":
    # Its server takes long to import, and most processes have no such port.
    from tonne.platform.http.monitoring_port import MonitoringPort  # noqa: PLC0415

    return MonitoringPort(host, port, checks, None if metrics is None else metrics.text)
