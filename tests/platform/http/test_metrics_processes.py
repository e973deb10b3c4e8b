"""Metrics of real processes: several api processes, and a worker alone."""

import asyncio
import os
import secrets
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from tests.conftest import POPULATED, Server
from tests.platform.http.conftest import METRICS_TOKEN
from tests.support.command import wait_until
from tests.support.processes import HOST, Process, free_port
from tests.support.samples import Samples, parse_samples, total

REQUESTS = "tonne_http_requests_total"
Start = Callable[..., tuple[Process, int, int]]


@pytest.fixture
def start(server: Server, tmp_path: Path) -> Iterator[Start]:
    """Starts a command; returns it with its port and its metrics port."""
    url = server.url(asyncio.run(server.clone_of(POPULATED)))
    started: list[Process] = []

    def start(command: str, **settings: object) -> tuple[Process, int, int]:
        port, metrics_port = free_port(), free_port()
        common = {"port": port, "metrics_port": metrics_port, "data_dir": tmp_path / "data", "database_url": url}
        common |= {"secret_key": secrets.token_urlsafe(32)}
        started.append(Process("tonne", command, settings=common | settings, log=tmp_path / "log"))
        started[-1].wait_until_ready(metrics_port)
        return started[-1], port, metrics_port

    yield start
    for process in started:
        process.stop()


def _scrape(metrics_port: int) -> Samples:
    response = httpx.get(f"http://{HOST}:{metrics_port}/metrics")
    assert response.status_code == 200
    return parse_samples(response.text)


def _served(samples: Samples) -> float:
    return total(samples, REQUESTS, route="/health/live")


def test_operations_12_the_metrics_of_several_processes_are_added_up(start: Start) -> None:
    """Also after one of them was killed, on the port and, with the token, from whichever process answers."""
    api, port, metrics_port = start("api", api_processes=2, metrics_token=METRICS_TOKEN)
    wait_until(lambda: total(_scrape(metrics_port), "tonne_processes") == 2, 20, "both processes are up")
    for _ in range(60):
        # A connection each: the kernel distributes them over the processes.
        assert httpx.get(f"http://{HOST}:{port}/health/live").status_code == 200
    wait_until(lambda: _served(_scrape(metrics_port)) == 60, 20, "all requests are counted")

    [victim, *_] = [child.pid for child in psutil.Process(api.pid).children() if _is_worker(child)]
    os.kill(victim, signal.SIGKILL)
    # The kernel gives it connections until its last thread has ended.
    wait_until(lambda: not psutil.pid_exists(victim), 20, "the process is gone")
    for _ in range(20):
        response = httpx.get(f"http://{HOST}:{port}/metrics", headers={"Authorization": f"Bearer {METRICS_TOKEN}"})
        assert _served(parse_samples(response.text)) == 60
    wait_until(lambda: _two_processes(metrics_port), 30, "the process is replaced, and the port is served")
    assert _served(_scrape(metrics_port)) == 60
    assert httpx.get(f"http://{HOST}:{port}/metrics").status_code == 401

    # SIGHUP replaces all of them, one after the other.
    old = {child.pid for child in psutil.Process(api.pid).children()}
    os.kill(api.pid, signal.SIGHUP)
    wait_until(lambda: old.isdisjoint(c.pid for c in psutil.Process(api.pid).children()), 60, "all are replaced")
    wait_until(lambda: _two_processes(metrics_port), 30, "gauges count only the new ones")
    assert _served(_scrape(metrics_port)) == 60
    assert api.stop()


def _is_worker(child: psutil.Process) -> bool:
    """Not one of multiprocessing's helpers."""
    return len(child.net_connections("tcp4")) > 0


def _two_processes(metrics_port: int) -> bool:
    try:
        return total(_scrape(metrics_port), "tonne_processes") == 2
    except httpx.TransportError:
        return False


def test_operations_12_a_worker_alone_has_metrics_and_health(start: Start) -> None:
    worker, _, metrics_port = start("worker")
    assert httpx.get(f"http://{HOST}:{metrics_port}/health/live").json() == {"status": "ok"}
    assert httpx.get(f"http://{HOST}:{metrics_port}/health/ready").json() == {"status": "ok"}
    for path in ("/", "/metrics/", "/v1/orders"):
        assert httpx.get(f"http://{HOST}:{metrics_port}{path}").status_code == 404
    wait_until(lambda: total(_scrape(metrics_port), "tonne_job_runs_total", outcome="idle") > 12, 20, "jobs run")
    samples = _scrape(metrics_port)
    assert total(samples, "tonne_listening", process="worker") == 1
    assert total(samples, "tonne_job_runs_total", outcome="failed") == 0
    assert total(samples, "tonne_queue_read_success") == 1
    assert total(samples, "tonne_processes", process="worker") == 1
    assert worker.stop()


@pytest.mark.parametrize("setting", ["metrics_port", "worker_health_port"])
def test_a_port_that_is_in_use_is_refused(setting: str, tmp_path: Path) -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        settings = {setting: port, "data_dir": tmp_path, "database_url": "postgresql://127.0.0.1:1/x"}
        worker = Process("tonne", "worker", settings=settings, log=tmp_path / "worker.log")
        assert worker.wait(30) == 1
    printed = (tmp_path / "worker.log").read_text()
    assert f"Cannot listen on 127.0.0.1 port {port}" in printed
    assert f"TONNE_{setting.upper()}" in printed


def test_operations_12_serve_has_a_port_for_the_health_of_its_worker(start: Start) -> None:
    health_port = free_port()
    serve, port, metrics_port = start("serve", worker_health_port=health_port, worker_stuck_s=1e-6)
    base = f"http://{HOST}:{health_port}"
    wait_until(lambda: _answers(f"{base}/health/live"), 30, "the worker has its port")
    # With such a short limit every job is stuck as soon as it runs: it says so, and the API goes on.
    wait_until(lambda: httpx.get(f"{base}/health/live").status_code == 503, 30, "a job was seen running")
    assert httpx.get(f"http://{HOST}:{metrics_port}/health/live").json() == {"status": "ok"}
    assert httpx.get(f"http://{HOST}:{port}/health/ready").status_code == 200
    assert httpx.get(f"{base}/metrics").status_code == 404
    assert serve.stop()


def _answers(url: str) -> bool:
    try:
        return httpx.get(url).status_code in {200, 503}
    except httpx.TransportError:
        return False
