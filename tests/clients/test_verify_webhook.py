"""Signatures of webhook requests: the published vectors, Standard Webhooks, rotation, age and forgeries."""

import base64
import hashlib
import hmac
import json
from typing import Any

import pytest

from tests.support.processes import ROOT
from tonne_client import WebhookInvalid, verify_webhook

VECTORS: list[dict[str, Any]] = json.loads((ROOT / "docs" / "signing-vectors.json").read_text("utf-8"))["vectors"]
KEY = base64.b64encode(bytes(range(32))).decode()
BODY = b'{"events":[]}'
NOW = 1_794_736_800


def standard(secret: str, *, message_id: str = "msg_1", timestamp: int = NOW, body: bytes = BODY) -> dict[str, str]:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{message_id}.{timestamp}.".encode() + body
    signature = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return {"Webhook-Id": message_id, "Webhook-Timestamp": str(timestamp), "Webhook-Signature": f"v1a,x v1,{signature}"}


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_the_published_vectors_are_genuine(vector: dict[str, Any]) -> None:
    body, now = vector["body"].encode(), vector["timestamp"]
    for header in (vector["header"], vector["header_during_rotation"]):
        events = verify_webhook(body, {"service-hmac": header}, vector["secret"], now=now)
        assert [event.event_id for event in events] == [each["event_id"] for each in json.loads(body)["events"]]
    # The old secret fits during the rotation only.
    old = vector["previous_secret"]
    verify_webhook(body, {"Service-HMAC": vector["header_during_rotation"]}, [old], now=now)
    with pytest.raises(WebhookInvalid):
        verify_webhook(body, {"Service-HMAC": vector["header"]}, old, now=now)
    verify_webhook(body, {"Service-HMAC": vector["header"]}, [old, vector["secret"]], now=now)


def test_standard_webhooks_are_genuine() -> None:
    secret = f"whsec_{KEY}"
    headers = standard(secret)
    assert verify_webhook(BODY, headers, ["whsec_an-old-secret_without-key", secret], now=NOW) == []
    for changed in (
        {**headers, "Webhook-Id": "msg_2"},
        {**headers, "Webhook-Timestamp": str(NOW + 1)},
        {**headers, "Webhook-Signature": headers["Webhook-Signature"].replace("v1,", "v2,")},
    ):
        with pytest.raises(WebhookInvalid):
            verify_webhook(BODY, changed, secret, now=NOW)
    with pytest.raises(WebhookInvalid):
        verify_webhook(BODY + b" ", headers, secret, now=NOW)


@pytest.mark.parametrize(("age_s", "is_accepted"), [(299, True), (-299, True), (301, False), (-301, False)])
def test_old_and_future_signatures_are_refused(age_s: int, is_accepted: bool) -> None:
    headers = standard(f"whsec_{KEY}", timestamp=NOW - age_s)
    if is_accepted:
        verify_webhook(BODY, headers, f"whsec_{KEY}", now=NOW)
    else:
        with pytest.raises(WebhookInvalid, match="too old"):
            verify_webhook(BODY, headers, f"whsec_{KEY}", now=NOW)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "v1=",
        "timestamp=,v1=x",
        f"timestamp={NOW}",
        "timestamp=١,v1=x",
        f"timestamp={NOW},v1=é",
        "timestamp=1e9,v1=x",
    ],
)
def test_forgeries_are_refused(header: str) -> None:
    with pytest.raises(WebhookInvalid):
        verify_webhook(BODY, {"Service-HMAC": header}, "whsec_x", now=NOW)


def test_mistakes_of_the_receiver_are_reported() -> None:
    with pytest.raises(WebhookInvalid, match="neither"):
        verify_webhook(BODY, {}, "whsec_x")
    with pytest.raises(ValueError, match="No signing secret"):
        verify_webhook(BODY, {}, "")
    parsed: Any = {"events": []}
    with pytest.raises(TypeError, match="raw bytes"):
        verify_webhook(parsed, {}, "whsec_x")
    secret = f"whsec_{KEY}"
    for body in (b"[]", b"{}", b"no", b'{"events": 1}'):
        with pytest.raises(WebhookInvalid):
            verify_webhook(body, standard(secret, body=body), secret, now=NOW)
