"""The TypeScript client, run by Node: against the service, and its webhook verifier with the published vectors."""

import json
import re
from pathlib import Path
from typing import Any

from tests.clients import node
from tests.clients.conftest import Service
from tests.clients.contract import Contract
from tests.clients.test_verify_webhook import BODY, KEY, NOW, VECTORS, standard


def test_the_client_works_with_the_service(service: Service, tmp_path: Path) -> None:
    node.prepare(tmp_path, node.HERE / "client.ts")
    printed: dict[str, Any] = json.loads(node.run("client.ts", service.url, service.key, folder=tmp_path))
    check_shown(printed["shown"])
    contract = Contract(service.document())
    for exchange in printed["exchanges"]:
        method, url = exchange["method"], exchange["url"]
        headers = {name.lower(): value for name, value in exchange["headers"].items()}
        contract.check_request(method, url, headers, exchange["body"].encode())
        if not exchange["contentType"] or exchange["text"]:
            contract.check_response(method, url, exchange["status"], exchange["contentType"], exchange["text"].encode())
    assert {"placeOrderByMass", "listOrders", "registerWebhook", "deleteWebhook"} <= contract.seen


def test_the_readme_works(service: Service, tmp_path: Path) -> None:
    text = (node.TYPESCRIPT / "README.md").read_text("utf-8")
    blocks = re.findall(r"^```ts\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 5
    program = "\n".join(blocks).replace("http://localhost:8080", service.url).replace("tonne_test_…", service.key)
    node.prepare(tmp_path)
    (tmp_path / "readme.ts").write_text(program, encoding="utf-8")
    printed = node.run("readme.ts", folder=tmp_path).splitlines()
    assert printed[0].startswith("ord_")
    assert "order_not_found" in printed[-2]
    assert printed[-1] == "401"


def check_shown(shown: dict[str, Any]) -> None:
    assert shown["listed"][4] == shown["order"]
    assert len(shown["listed"]) == len(set(shown["listed"])) >= 5
    assert (shown["code"], shown["requestId"][:4]) == ("order_not_found", "req_")
    assert shown["lost"], "an order whose response was lost was placed twice, or not at all"
    assert shown["registered"] > 20, "a webhook whose registration was lost was registered twice, or has no secret"
    assert shown["released"] == "not repeated", "a POST without a key was sent again"
    assert (shown["first"], shown["account"]) == ("placed", "account test")
    assert float(shown["total"]) > 0
    assert (shown["once"], shown["acted"], shown["late"]) == (True, True, True), "options of one call had no effect"
    assert re.fullmatch(r"POST /v1/orders/\w+/release takes no idempotencyKey: it creates nothing.", shown["refused"])
    assert shown["bundles"] > 1


def test_webhooks_are_verified_and_put_in_order(tmp_path: Path) -> None:
    secret = f"whsec_{KEY}"
    cases, expected = [], []

    def add(result: int | str, body: bytes, headers: dict[str, str], secrets: list[str], now: float = NOW) -> None:
        cases.append({"body": body.decode(), "headers": headers, "secrets": secrets, "now": now})
        expected.append(result)

    wrong = "No signature fits: the secret is wrong, or the request is not from the service."
    for vector in VECTORS:
        body, now, old = vector["body"].encode(), vector["timestamp"], vector["previous_secret"]
        count = len(json.loads(body)["events"])
        add(count, body, {"Service-HMAC": vector["header"]}, [old, vector["secret"]], now)
        add(count, body, {"Service-HMAC": vector["header_during_rotation"]}, [old], now)
        add(wrong, body, {"Service-HMAC": vector["header"]}, [old], now)
    add(0, BODY, standard(secret), ["whsec_an-old-secret_without-key", secret])
    add(wrong, BODY, {**standard(secret), "Webhook-Id": "msg_2"}, [secret])
    add(wrong, BODY + b" ", standard(secret), [secret])
    add("The signature is too old, or this clock is wrong.", BODY, standard(secret, timestamp=NOW - 301), [secret])
    add("The signature has no timestamp.", BODY, {"Service-HMAC": "v1=00"}, [secret])
    add(wrong, BODY, {"Service-HMAC": f"timestamp={NOW},v1=zz"}, [secret])
    add("The request has neither Service-HMAC nor webhook-signature.", BODY, {}, [secret])
    add("The body has no events.", b"{}", standard(secret, body=b"{}"), [secret])
    node.prepare(tmp_path, node.HERE / "webhooks.ts")
    (tmp_path / "cases.json").write_text(json.dumps(cases), encoding="utf-8")
    printed: dict[str, Any] = json.loads(node.run("webhooks.ts", "cases.json", folder=tmp_path))
    assert printed["results"] == expected
    # Duplicates are ignored, and a failed event holds up its account only.
    assert (printed["counts"], printed["handled"], printed["errors"]) == ([3, 1], ["a1", "b1"], 1)
