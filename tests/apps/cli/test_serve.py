"""`tonne serve --demo`, from the first start to the last stop."""

import json
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import urllib.request
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Service, is_running, output_of, service_in, wait_until
from tonne.apps.cli.operations.processes import STOP_MARGIN_S
from tonne.platform.settings.settings import Settings

# The time that `tonne serve` gives its processes before it kills them.
STOPS_WITHIN_S = Settings().webhook_timeout_s + STOP_MARGIN_S


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with service_in(tmp_path) as found:
        yield found


def _run_printed_curl(printed: str) -> dict[str, Any]:
    """Run the printed curl command in a shell; without curl, send the same request."""
    found = re.search(r"^  curl .*?'$", printed, re.MULTILINE | re.DOTALL)
    assert found, printed
    pasted = found.group()
    if shutil.which("curl"):
        done = subprocess.run(["bash", "-c", f"{pasted} -sS"], capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 0, done.stderr
        answer = done.stdout
    else:
        words = shlex.split(pasted.replace("\\\n", " "))
        headers = dict(words[i + 1].split(": ", 1) for i, word in enumerate(words) if word == "-H")
        body = words[words.index("-d") + 1].encode()
        request = urllib.request.Request(words[1], body, headers)  # noqa: S310 - our own address
        with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310 - our own address
            answer = response.read()
    order: dict[str, Any] = json.loads(answer)
    return order


def _check_facts(service: Service, printed: str) -> None:
    """Scripts rely on the fields of demo.json. Only its owner can read it."""
    facts, path = service.demo(), service.data_dir / "demo.json"
    assert set(facts) == {
        *(
            "base_url",
            "organisation_id",
            "test",
            "live",
            "offset_link_id",
            "sustainability_slug",
            "sign_in",
            "operator",
        ),
    }
    assert facts["base_url"] == f"http://localhost:{service.port}/v1"
    assert [stat.S_IMODE(each.stat().st_mode) for each in (path, path.parent)] == [0o600, 0o700]
    for mode in ("test", "live"):
        keys = facts[mode]
        assert set(keys) == {"api_key", "account_id", "client_account_id", "estimate_ids", "bundle_ids"}
        assert keys["api_key"].startswith(f"tonne_{mode}_")
        assert len(set(keys["estimate_ids"])) >= 5
        assert len(set(keys["bundle_ids"])) >= 3
    assert facts["test"]["api_key"] in printed
    for address in (f"/offset/{facts['offset_link_id']}", f"/sustainability/test/{facts['sustainability_slug']}"):
        assert f"http://localhost:{service.port}{address}" in printed
    assert facts["live"]["api_key"] not in printed
    for name in ("sign_in", "operator"):
        assert f"{facts[name]['email']} with the password {facts[name]['password']}" in printed
    assert str(path) in printed
    assert facts["base_url"] in printed


def test_the_demo_keeps_its_orders_across_restarts(service: Service) -> None:
    printed = service.start()
    _check_facts(service, printed)
    # The banner scrolls away: it can be printed again.
    banner = output_of("demo", data_dir=service.data_dir, port=service.port)
    assert banner in printed
    _check_facts(service, banner)
    facts = service.demo()

    order = _run_printed_curl(printed)
    assert order["status"] == "placed"
    assert order["estimate_id"] == facts["test"]["estimate_ids"][0]
    again = _run_printed_curl(printed)
    assert again["id"] == order["id"], "repeated, it returns the same order"
    order = _until_complete(service)
    assert _retired_within(service) <= timedelta(seconds=5), "the simulated registry retires at once"
    assert service.get("/docs/try/")[0] == 200

    # Commands use the running database and do not stop it.
    data_dir = service.data_dir
    assert facts["organisation_id"] in output_of("org", "list", data_dir=data_dir)
    assert "All checks passed." in output_of("doctor", data_dir=data_dir)
    assert service.get("/health/ready")[0] == 200

    assert service.stop() == 0
    assert service.left() == []
    assert service.printed().rstrip().endswith("Stopped.")
    assert "Traceback" not in service.errors()

    assert service.start()
    assert service.demo() == facts
    status, found = service.get("/v1/orders/by-idempotency-key/my-first-order")
    assert status == 200
    assert json.loads(found) == order
    assert service.stop(signal.SIGTERM) == 0
    assert service.left() == []


def _until_complete(service: Service) -> dict[str, Any]:
    """Wait until the worker has completed the order."""

    def read() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(service.get("/v1/orders/by-idempotency-key/my-first-order")[1])
        return found

    wait_until(lambda: read()["status"] == "complete", 30, "the order is complete")
    return read()


def _retired_within(service: Service) -> timedelta:
    """From the allocation of the order's credits to its completion."""
    events = json.loads(service.get("/v1/events?order=asc")[1])["data"]
    times = {each["event_type"]: datetime.fromisoformat(each["sequence"]) for each in events}
    return times["order.completed"] - times["order.retiring"]


def test_children_stop_with_a_killed_parent_and_the_next_start_works(service: Service) -> None:
    service.start()
    facts, children = service.demo(), service.children()
    assert set(children) == {"api", "worker"}
    service.stop(signal.SIGKILL)
    wait_until(lambda: not any(map(is_running, children.values())), STOPS_WITHIN_S, "api and worker have stopped")

    # PostgreSQL still runs, because the parent was killed. The next start uses it, and stops it at the end.
    service.start()
    assert service.demo() == facts
    assert service.get("/v1/orders")[0] == 200
    _check_that_the_death_of(service, "worker")


def test_the_service_stops_when_the_api_process_dies(service: Service) -> None:
    service.start()
    _check_that_the_death_of(service, "api")


def _check_that_the_death_of(service: Service, name: str) -> None:
    """The whole service stops, so that a supervisor restarts it."""
    os.kill(service.children()[name], signal.SIGKILL)
    assert service.parent.wait(STOPS_WITHIN_S) == 1
    last = service.errors().splitlines()[-1]
    assert last == f"Error: The {name} process stopped unexpectedly. Its last log lines say why."
    wait_until(lambda: service.left() == [], 5, "nothing is left running")


def test_a_stop_while_starting_leaves_nothing_running(service: Service) -> None:
    service.begin()
    wait_until(lambda: service.postgres_pid() is not None, 30, "PostgreSQL is starting")
    assert service.stop() == 0
    assert service.left() == []
    assert "Traceback" not in service.errors()
