"""Clients that are generated from the OpenAPI document compile, and work with a real service.

Commands and programs of `docs/clients.md` are run as they are shown there.
"""

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from tests.integration.node_packages import CLIENTS, HOME, find_node_program
from tests.integration.programs import find_program
from tests.support.command import wait_until
from tests.support.processes import HOST, ROOT, Process, free_port

# The interface has both /v1/orders/by-idempotency-key/{key} and /v1/orders/{id}/cancel: each path below an order is
# reported once.
BY_KEY = "/v1/orders/by-idempotency-key/{idempotency_key}"
BELOW_AN_ORDER = re.compile(r"/v1/orders/\{\w+\}/[\w.-]+")
# An id is never `multi-leg`, `client` or `logo`, so these paths are not ambiguous in practice.
AMBIGUOUS = (
    (
        "/v1/estimates/shipping/{shipping_estimate_id}/annotations",
        "/v1/estimates/shipping/multi-leg/{multi_leg_estimate_id}",
    ),
    ("/v1/accounts/client/{client_account_id}", "/v1/accounts/{account_id}/logo"),
)
GUIDE = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Service:
    url: str
    key: str
    document: Path

    def get(self, path: str) -> Any:
        answer = httpx.get(self.url + path, headers={"Authorization": f"Bearer {self.key}"}, timeout=60)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("clients")
    port = free_port()
    # The address is in the document, and Redocly warns of localhost.
    url = f"http://{HOST}:{port}"
    tonne = Process(
        "tonne",
        "serve",
        "--demo=empty",
        settings={"data_dir": folder / "data", "port": port, "public_url": url},
        log=folder / "tonne.log",
    )
    try:
        tonne.wait_until_ready(port)
        demo = msgspec.json.decode((folder / "data" / "demo.json").read_bytes())
        document = folder / "openapi.json"
        document.write_bytes(httpx.get(f"{url}/openapi.json", timeout=60).content)
        yield Service(url, demo["test"]["api_key"], document)
    finally:
        tonne.stop()


def guide_command(program: str) -> list[str]:
    """The arguments that the guide shows for this program."""
    lines = [
        line.removeprefix("npx ")
        for kind, text in BLOCK.findall(GUIDE)
        if kind in {"", "bash"}
        for line in text.splitlines()
    ]
    (found,) = [shlex.split(line) for line in lines if line.startswith(f"{program} ")]
    return found[1:]


def _block(language: str) -> str:
    # The last one: those before it belong to our own clients.
    return [str(text) for kind, text in BLOCK.findall(GUIDE) if kind == language][-1]


def guide_program(language: str, service: Service) -> str:
    """The program that the guide shows, for this service."""
    text = _block(language)
    assert "http://localhost:8080" in text
    assert "tonne_test_…" in text
    return text.replace("http://localhost:8080", service.url).replace("tonne_test_…", service.key)


@pytest.fixture
def folder(service: Service, tmp_path: Path) -> Path:
    """A folder with the document, as the guide assumes."""
    shutil.copy(service.document, tmp_path / "openapi.json")
    return tmp_path


def run(*command: str, folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_redocly_finds_no_errors(folder: Path) -> None:
    redocly = find_node_program("redocly")
    text = run(redocly, "lint", "--format=json", "openapi.json", folder=folder)
    found: dict[str, Any] = json.loads(text)
    assert found["totals"]["errors"] == 0
    paths = json.loads((folder / "openapi.json").read_text(encoding="utf-8"))["paths"]
    orders = [(BY_KEY, path) for path in paths if BELOW_AN_ORDER.fullmatch(path)]
    warned = {problem["message"] for problem in found["problems"]}
    assert warned == {
        f"Paths should resolve unambiguously. Found two ambiguous paths: `{first}` and `{second}`."
        for first, second in (*orders, *AMBIGUOUS)
    }


def test_spectral_finds_nothing(folder: Path) -> None:
    spectral, rules = find_node_program("spectral"), str(CLIENTS / "spectral.yaml")
    text = run(spectral, "lint", "--quiet", "--format=json", "-r", rules, "openapi.json", folder=folder)
    assert json.loads(text or "[]") == []


def test_interface_1_2_3_4_a_typescript_client_compiles_and_works(service: Service, folder: Path) -> None:
    for name in ("client.ts", "tsconfig.json", "package.json"):
        shutil.copy(CLIENTS / name, folder)
    (folder / "guide.ts").write_text(guide_program("ts", service), encoding="utf-8")
    (folder / "node_modules").symlink_to(HOME / "node_modules")
    run(find_node_program("openapi-typescript"), *guide_command("openapi-typescript"), folder=folder)
    run(find_node_program("tsc"), folder=folder)
    node = find_program("node")
    assert re.fullmatch(r"ord_\w+ placed [0-9.]+\n", run(node, "built/guide.js", folder=folder))
    shown = json.loads(run(node, "built/client.js", service.url, service.key, folder=folder))
    assert shown["plain"] == "50.00"
    assert shown["invoice"] == "A-17"
    assert set(shown["projects"]) == {"retired"}
    assert shown["pdf"] == "%PDF-"
    assert shown["pages"] == shown["expected"]
    assert any(url.endswith("/certificate") for url in shown["certificate"])
    assert shown["subjects"] >= 7
    assert shown["code"] == "order_not_found"
    assert shown["request"].startswith("req_")


def test_interface_3_9_a_python_client_works(service: Service, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "config.yaml").write_text(_block("yaml"), encoding="utf-8")
    printed = run(_script("openapi-python-client"), *guide_command("openapi-python-client"), folder=folder)
    assert "WARNING" not in printed.upper()
    assert list((folder / "tonne_generated").rglob("test_*.py")) == []
    (folder / "guide.py").write_text(guide_program("python", service), encoding="utf-8")
    assert re.fullmatch(r"ord_\w+ placed [0-9.]+\n", run(sys.executable, "guide.py", folder=folder))
    monkeypatch.syspath_prepend(str(folder))
    models: Any = import_module("tonne_generated.models")
    authenticated: Any = import_module("tonne_generated").AuthenticatedClient
    with authenticated(base_url=service.url, token=service.key) as client:
        _use_python_client(models, client)


def _use_python_client(models: Any, client: Any) -> None:
    def call(name: str, *arguments: Any, **options: Any) -> Any:
        return import_module(f"tonne_generated.api.{name}").sync(*arguments, client=client, **options)

    mass = models.MassInput(amount="1.5", unit=models.MassUnit.T)
    placed = [call("orders.place_order_by_mass", body=models.OrderByMassInput(mass=mass)) for _ in range(3)]
    assert {order.status for order in placed} == {models.OrderStatus.PLACED}
    page = call("orders.list_orders", limit="2")
    assert isinstance(page, models.OrderList)
    rest = call("orders.list_orders", limit="2", after=page.next_cursor)
    assert [order.id for order in [*page.data, *rest.data]][:3] == [order.id for order in reversed(placed)]
    paid = placed[0].id
    wait_until(
        lambda: call("orders.get_order", paid).status == models.OrderStatus.COMPLETE, 60, "the order is complete"
    )
    assert call("orders.download_certificate", paid).payload.read().startswith(b"%PDF-")
    events = call("events.list_events", limit="100", order=models.ListEventsOrder.ASC)
    of_order = [event for event in events.data if event.data.order.id == paid]
    assert [type(event).__name__ for event in of_order][-1] == "OrderCompletedEvent"
    refused = call("orders.get_order", "ord_unknown")
    assert refused.error.error_code == models.ErrorCode.ORDER_NOT_FOUND


def test_interface_1_models_pass_mypy_and_accept_real_responses(
    service: Service, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(_script("datamodel-codegen"), *guide_command("datamodel-codegen"), folder=folder)
    run(sys.executable, "-m", "mypy", "--strict", "--config-file=", "tonne_models.py", folder=folder)
    monkeypatch.syspath_prepend(str(folder))
    models: Any = import_module("tonne_models")
    body = models.OrderByValueInput(value="50.00").model_dump(mode="json", exclude_unset=True)
    assert body == {"value": "50.00"}
    placed = httpx.post(
        f"{service.url}/v1/orders/by-value", json=body, headers={"Authorization": f"Bearer {service.key}"}
    )
    assert models.Order.model_validate(placed.json()).status is models.OrderStatus.placed
    assert models.OrderList.model_validate(service.get("/v1/orders?limit=100")).data
    assert models.WebhookEventList.model_validate(service.get("/v1/events?limit=100")).data
    assert models.BundleList.model_validate(service.get("/v1/bundles")).data


def _script(name: str) -> str:
    """A program of the Python environment that runs the tests."""
    return str(Path(sys.executable).parent / name)
