"""Standard Webhooks: the headers beside ours, verified with the reference library."""

import json
import re
from typing import Any

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from tests.channels.webhooks.stage import Stage, verify
from tests.channels.webhooks.test_endpoints import put
from tests.channels.webhooks.test_signing_vectors import DOCUMENT
from tests.support.api_client import ApiClient
from tests.support.receivers import Receiver, reply
from tonne.channels.webhooks.sending.signing import standard_signature
from tonne.platform.events.payload import message_id
from tonne.platform.values.context import utc_now


@pytest.mark.parametrize("vector", DOCUMENT["standard_webhooks"], ids=lambda vector: vector["name"])
def test_the_published_vectors_are_right(vector: dict[str, Any]) -> None:
    body, moment = vector["body"].encode(), vector["timestamp"]
    assert message_id([event["event_id"] for event in json.loads(body)["events"]]) == vector["webhook-id"]
    secrets = [vector[name] for name in ("secret", "previous_secret") if name in vector]
    signature = standard_signature(secrets, vector["webhook-id"], moment, body)
    assert signature == vector["webhook-signature"]
    for secret in secrets:
        signed = Webhook(secret).sign(
            vector["webhook-id"], utc_now().fromtimestamp(moment, utc_now().tzinfo), body.decode()
        )
        assert signed in signature.split(" ")


async def test_every_request_is_verified_by_the_reference_library(
    stage: Stage, api: ApiClient, receiver: Receiver
) -> None:
    hook = await stage.register(receiver.url, standard_webhooks=True)
    organisation_id = stage.one.organisation_id
    receiver.next(reply(500), reply(500))
    ids = await stage.emit_many(stage.one, ['{"metadata":{"Größe":"東京"}}', '{"a":"b"}'])
    await stage.deliver()
    both, first, again, *_ = receiver.deliveries
    for delivery in receiver.deliveries:
        assert Webhook(hook.secret).verify(delivery.body, delivery.headers) == json.loads(delivery.body)
        assert verify(delivery, hook.secret, organisation_id)
        assert delivery.headers["webhook-id"] == message_id(delivery.event_ids)
        assert re.fullmatch(r"msg_[0-9a-f]{32}", delivery.headers["webhook-id"])
    assert (both.event_ids, first.event_ids) == (ids, ids[:1])
    assert first.headers["webhook-id"] == again.headers["webhook-id"] != both.headers["webhook-id"]
    forged = {**first.headers, "webhook-id": "msg_0"}
    with pytest.raises(WebhookVerificationError):
        Webhook(hook.secret).verify(first.body, forged)

    rotated = (await api.post(f"/v1/webhooks/{hook.id}/rotate-secret", {"overlap_s": 600})).json()["secret"]
    await stage.emit(stage.one)
    await stage.deliver()
    await api.post(f"/v1/webhooks/{hook.id}/test", {})
    for delivery in receiver.deliveries[-2:]:
        for secret in (hook.secret, rotated):
            Webhook(secret).verify(delivery.body, delivery.headers)
            assert verify(delivery, secret, organisation_id)
        assert len(delivery.headers["webhook-signature"].split(" ")) == 2


async def test_only_webhooks_that_ask_for_it_get_the_headers(stage: Stage, api: ApiClient, receiver: Receiver) -> None:
    hook = await stage.register(receiver.url)
    path = f"/v1/webhooks/{hook.id}"
    assert not (await api.get(path)).json()["standard_webhooks"]
    for asked in (False, True, False):
        shown = await put(api, hook.id, {"standard_webhooks": asked})
        assert shown.json()["standard_webhooks"] is asked
        receiver.deliveries.clear()
        await stage.emit(stage.one)
        await stage.deliver()
        await api.post(f"{path}/test", {})
        assert len(receiver.deliveries) == 2
        for delivery in receiver.deliveries:
            assert verify(delivery, hook.secret, stage.one.organisation_id)
            names = {name for name in delivery.headers if name.startswith("webhook-")}
            assert names == ({"webhook-id", "webhook-timestamp", "webhook-signature"} if asked else set())
