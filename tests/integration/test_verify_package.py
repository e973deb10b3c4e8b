"""tonne-verify as an auditor installs it: its wheel alone, in an environment of its own, against a running service."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from tests.integration.test_client_libraries import UV, Demo, run
from tests.support.command import wait_until
from tests.support.processes import HOST, ROOT, Process, free_port
from tonne_client import Client


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verify")
    source = folder / "source"
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    shutil.copytree(ROOT / "clients" / "verify", source, ignore=ignored)
    build = ("build", "--quiet", "--no-build-isolation", "--python", sys.executable, "--out-dir", folder / "dist")
    run(UV, *build, source, folder=folder)
    (wheel,) = (folder / "dist").glob("*.whl")
    run(UV, "venv", "--quiet", "--python", sys.executable, folder / "venv", folder=folder)
    python = folder / "venv" / "bin" / "python"
    run(UV, "pip", "install", "--quiet", "--python", python, wheel, folder=folder)
    with pytest.raises(AssertionError, match="No module named 'tonne'"):
        run(python, "-c", "import tonne", folder=folder)
    return python.with_name("tonne-verify")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    folder, port = tmp_path_factory.mktemp("service"), free_port()
    url = f"http://{HOST}:{port}"
    settings = {"data_dir": folder / "data", "port": port, "public_url": url}
    tonne = Process("tonne", "serve", "--demo=empty", settings=settings, log=folder / "tonne.log")
    try:
        tonne.wait_until_ready(port)
        facts = msgspec.json.decode((folder / "data" / "demo.json").read_bytes())
        yield Demo(url, facts["test"]["api_key"])
    finally:
        tonne.stop()


def test_a_certificate_is_verified_and_the_log_audited(command: Path, service: Demo, tmp_path: Path) -> None:
    with Client(service.key, base_url=service.url) as client:
        estimate = client.estimates.create(mass={"amount": "1.5", "unit": "t"})
        order_id = client.orders.create_by_estimate(estimate_id=estimate.id).id
    with httpx.Client(base_url=service.url, headers={"Authorization": f"Bearer {service.key}"}, timeout=60) as http:

        def credential() -> dict[str, Any]:
            answer = http.get(f"/v1/orders/{order_id}/credential.json")
            return dict(answer.json()) if answer.status_code == 200 else {}

        wait_until(lambda: "evidence" in credential(), 90, "the credential has a proof")
        (tmp_path / "credential.json").write_text(json.dumps(credential()))
        (tmp_path / "certificate.pdf").write_bytes(http.get(f"/v1/orders/{order_id}/certificate").content)
        (tmp_path / "issuer.json").write_bytes(http.get("/.well-known/tonne-issuer.json").content)
    options = ("--issuer", "issuer.json", "--online", "--accept-no-witness", "--json")
    shown = run(command, "certificate.pdf", "credential.json", *options, folder=tmp_path, code=4)
    *reports, together = json.loads(shown)
    assert together["holds"]
    for report in reports:
        verdicts = {each["name"]: each["verdict"] for each in report["checks"]}
        # The demo has no witnesses, who would confirm the time, and this is an order in test mode.
        others = {name: verdict for name, verdict in verdicts.items() if verdict != "holds"}
        # What the pages of a PDF say is not read.
        of_pdf = {"pages": "not checked"} if report["file"].endswith(".pdf") else {}
        assert others == {"time": "not checked", "witnesses": "not checked", "mode": "test"} | of_pdf, report
        assert {"credential", "log", "facts", "retirements", "status"} <= verdicts.keys()

    changed = (tmp_path / "certificate.pdf").read_bytes()
    (tmp_path / "certificate.pdf").write_bytes(changed[:2000] + bytes([changed[2000] ^ 1]) + changed[2001:])
    done = subprocess.run(
        [command, "certificate.pdf", "--issuer", "issuer.json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert "does not hold  signature" in done.stdout

    audit = ("audit", f"{service.url}/log/test", "--state", "state.json")
    assert "You have not trusted its key" in run(command, *audit, folder=tmp_path, code=3)
    for expected in ("This is the first audit", "0 of them new"):
        assert expected in run(command, *audit, "--issuer", "issuer.json", folder=tmp_path)
