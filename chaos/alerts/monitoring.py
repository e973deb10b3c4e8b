"""Prometheus and Alertmanager with the rules and sample configurations of `deploy/prometheus`, made faster."""

import asyncio
import json
import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from chaos.alerts.scaling import scale_rules, scale_settings
from chaos.model import NotAsExpected
from tests.integration.programs import find_program
from tests.support.processes import HOST, ROOT, free_port
from tests.support.receivers import Listener, read_request, response

SAMPLES = ROOT / "deploy" / "prometheus"
# Prometheus asks no more often than this, however fast the rules are.
SCRAPE_S = 1.0
STARTS_WITHIN_S = 20.0


@dataclass(frozen=True, slots=True)
class Notification:
    """What a person gets: one alert of a group that has begun (`firing`) or ended (`resolved`)."""

    at_s: float
    to: str
    status: str
    labels: Mapping[str, str]

    @property
    def alert(self) -> str:
        return self.labels["alertname"]


class Monitoring:
    """`factor` divides all times. `targets` are ports with metrics; they can be changed while it runs."""

    def __init__(self, folder: Path, factor: float, targets: Sequence[int]) -> None:
        self._folder = folder
        self._factor = factor
        self._targets = list(targets)
        self._prometheus_port, self._alertmanager_port = free_port(), free_port()
        self._listener = Listener(self._receive)
        self._programs: list[subprocess.Popen[bytes]] = []
        self.notifications: list[Notification] = []

    async def open(self) -> None:
        folder = self._folder
        folder.mkdir()
        await self._listener.open()
        rules = scale_rules((SAMPLES / "alerts.yml").read_text(encoding="utf-8"), self._factor, SCRAPE_S)
        (folder / "alerts.yml").write_text(rules, encoding="utf-8")
        alertmanager = scale_settings((SAMPLES / "alertmanager.yml").read_text(encoding="utf-8"), self._factor)
        text = _replaced(alertmanager, r"http://127.0.0.1:9095/", f"http://{HOST}:{self._listener.port}/", 2)
        (folder / "alertmanager.yml").write_text(text, encoding="utf-8")
        self._configure_prometheus()
        self._start(
            "prometheus-alertmanager",
            f"--config.file={folder / 'alertmanager.yml'}",
            f"--storage.path={folder / 'alertmanager'}",
            f"--web.listen-address={HOST}:{self._alertmanager_port}",
            "--cluster.listen-address=",
        )
        self._start(
            "prometheus",
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'prometheus'}",
            f"--web.listen-address={HOST}:{self._prometheus_port}",
            # The default is a minute.
            f"--rules.alert.resend-delay={max(60 / self._factor, 1):.0f}s",
        )
        async with asyncio.timeout(STARTS_WITHIN_S):
            await _until_ready(self._prometheus_port)
            await _until_ready(self._alertmanager_port)

    async def close(self) -> None:
        for program in self._programs:
            program.terminate()
        for program in self._programs:
            await asyncio.to_thread(program.wait)
        await self._listener.close()

    def add_target(self, port: int) -> None:
        self._targets.append(port)
        self._configure_prometheus()
        self._programs[-1].send_signal(signal.SIGHUP)

    def remove_target(self, port: int) -> None:
        self._targets.remove(port)
        self._configure_prometheus()
        self._programs[-1].send_signal(signal.SIGHUP)

    async def active(self) -> list[str]:
        """Alerts that fire or are about to, silenced ones too, as Prometheus sees them."""
        found = await _get(self._prometheus_port, "/api/v1/alerts")
        return sorted(
            f"{alert['labels']['alertname']} ({alert['state']}: {_short(alert['labels'])})"
            for alert in found["data"]["alerts"]
        )

    def _configure_prometheus(self) -> None:
        sample = (SAMPLES / "prometheus.yml").read_text(encoding="utf-8")
        text = scale_settings(sample, self._factor, SCRAPE_S)
        text = _replaced(text, r"127\.0\.0\.1:9093", f"{HOST}:{self._alertmanager_port}", 1)
        targets = json.dumps([f"{HOST}:{port}" for port in self._targets])
        text = _replaced(text, r"(?m)^      - targets: \[.*$", f"      - targets: {targets}", 1)
        (self._folder / "prometheus.yml").write_text(text, encoding="utf-8")

    def _start(self, program: str, *arguments: str) -> None:
        with (self._folder / f"{program}.log").open("ab") as log:
            command = [find_program(program), *arguments]
            self._programs.append(subprocess.Popen(command, stdout=log, stderr=log))

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, body = await read_request(reader)
            to = head.split(b" ", 2)[1].decode().removeprefix("/")
            now_s = time.monotonic()
            with (self._folder / "notifications.jsonl").open("ab") as file:
                file.write(json.dumps({"at": time.time(), "to": to, **json.loads(body)}).encode() + b"\n")
            for alert in json.loads(body)["alerts"]:
                self.notifications.append(Notification(now_s, to, alert["status"], alert["labels"]))
            writer.write(response(200, b""))
            await writer.drain()


def _short(labels: Mapping[str, str]) -> str:
    left = {"alertname", "severity", "cause", "symptom_of", "job"}
    return ", ".join(value for name, value in sorted(labels.items()) if name not in left)


def _replaced(text: str, pattern: str, by: str, times: int) -> str:
    found, count = re.subn(pattern, lambda _: by, text)
    if count != times:
        raise NotAsExpected(f"the sample configuration has {pattern} {count} times, not {times}")
    return found


async def _get(port: int, path: str) -> Any:
    async with aiohttp.ClientSession() as http, http.get(f"http://{HOST}:{port}{path}") as found:
        found.raise_for_status()
        return await found.json() if found.content_type == "application/json" else await found.text()


async def _until_ready(port: int) -> None:
    while True:
        try:
            await _get(port, "/-/ready")
        except aiohttp.ClientError:
            await asyncio.sleep(0.1)
        else:
            return
