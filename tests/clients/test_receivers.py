"""The example receivers for Django, FastAPI and Node get real deliveries of a running service."""

import contextlib
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import pytest

from tests.clients import node
from tests.clients.conftest import Service
from tests.support.command import wait_until
from tests.support.processes import HOST, ROOT, free_port
from tonne_client import Client

EXAMPLES = ROOT / "examples"
LIFE = ["order.received", "order.placed", "order.paid", "order.retiring", "order.completed"]


class Example:
    """A receiver in `examples`, as processes that serve https with a certificate of the service's authority."""

    def __init__(self, kind: str, service: Service, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.log = folder / "out.log"
        self.kind = kind
        self._service = service
        self._processes: list[subprocess.Popen[bytes]] = []
        certificate = folder / "certificate.pem"
        service.authority.write_certificate(certificate)
        self._certificate = str(certificate)
        if kind == "node":
            node.prepare(folder, EXAMPLES / "node" / "receiver.mjs")

    @property
    def url(self) -> str:
        return f"https://{HOST}:{self.port}/tonne"

    def start(self, *secrets: str) -> None:
        paths = [ROOT / "clients" / "python" / "src", EXAMPLES / self.kind]
        variables = {
            **os.environ,
            "WEBHOOK_SECRETS": " ".join(secrets),
            "INBOX_FILE": str(self.folder / "inbox.db"),
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "PORT": str(self.port),
            "TLS_CERT": self._certificate,
            "TLS_KEY": self._certificate,
        }
        with self.log.open("ab") as log:
            self._processes = [
                subprocess.Popen(command, cwd=self.folder, env=variables, stdout=log, stderr=log)
                for command in self._commands()
            ]

    def wait_until_ready(self) -> None:
        wait_until(self._is_ready, 60, f"{self.kind} listens")

    def _commands(self) -> list[Sequence[str]]:
        if self.kind == "node":
            return [[node.NODE, "--conditions=source", "--disable-warning=ExperimentalWarning", "receiver.mjs"]]
        application = "application" if self.kind == "django" else "app"
        tls = ("--ssl-certfile", self._certificate, "--ssl-keyfile", self._certificate)
        quiet = ("--log-level", "warning", "--no-access-log")
        serve = [sys.executable, "-m", "uvicorn", f"receiver:{application}", "--port", str(self.port), *tls, *quiet]
        handle = [sys.executable, str(EXAMPLES / "django" / "receiver.py"), "handle"]
        return [serve, handle] if self.kind == "django" else [serve]

    def _is_ready(self) -> bool:
        assert all(process.poll() is None for process in self._processes), self.log.read_text("utf-8")
        with contextlib.suppress(httpx.TransportError):
            return self.post(b"{}", {}) == 401
        return False

    def post(self, body: bytes, headers: dict[str, str]) -> int:
        return httpx.post(self.url, content=body, headers=headers, verify=False).status_code  # noqa: S501 - a test

    def wait_until_handled(self, order_id: str) -> None:
        """Until all events of the order were handled, and the inbox has noted it: a crash before that repeats one."""
        wait_until(lambda: self.handled(order_id)[-1:] == LIFE[-1:], 60, f"{self.kind} has got the last event")
        wait_until(lambda: self._unfinished() == 0, 60, f"{self.kind} has finished")

    def _unfinished(self) -> int:
        own = "inbox WHERE finished = 0" if self.kind == "node" else "tonne_inbox WHERE finished IS NULL"
        with contextlib.closing(sqlite3.connect(self.folder / "inbox.db")) as connection:
            count: int = connection.execute(f"SELECT count(*) FROM {own}").fetchone()[0]  # noqa: S608 - two constants
        return count

    def handled(self, order_id: str) -> list[str]:
        lines = [line.split() for line in self.log.read_text("utf-8").splitlines()]
        return [line[0] for line in lines if line[1:] == [order_id]]

    def kill(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


@pytest.fixture
def examples(service: Service, tmp_path: Path) -> Iterator[list[Example]]:
    made = []
    for kind in ("django", "fastapi", "node"):
        (tmp_path / kind).mkdir()
        made.append(Example(kind, service, tmp_path / kind))
    yield made
    for example in made:
        example.kill()


def test_events_arrive_once_and_in_order_also_after_a_crash_and_a_rotation(
    service: Service, examples: list[Example]
) -> None:
    with Client(service.key, base_url=service.url) as client:
        webhooks = {example: client.webhooks.create(url=example.url) for example in examples}
        for example, webhook in webhooks.items():
            example.start(webhook.secret or "")
        first = client.orders.create_by_mass(mass={"amount": "1", "unit": "kg"})
        for example in examples:
            example.wait_until_handled(first.id)
            example.kill()
        # While the receivers are down, an order is placed, and all events are sent again.
        second = client.orders.create_by_mass(mass={"amount": "2", "unit": "kg"})
        start = next(
            event for event in client.events.list(order="asc") if event.data.to_dict()["order"]["id"] == first.id
        )
        for example, webhook in webhooks.items():
            client.webhooks.rewind(webhook.id, event_id=start.event_id)
            changed = client.webhooks.rotate_secret(webhook.id, overlap_s=0)
            example.start(changed.secret or "", webhook.secret or "")
        for example, webhook in webhooks.items():
            example.wait_until_ready()
            client.webhooks.retry_now(webhook.id)
        for example, webhook in webhooks.items():
            example.wait_until_handled(second.id)
            assert example.handled(first.id) == LIFE
            assert example.handled(second.id) == LIFE
            client.webhooks.delete(webhook.id)
