"""Requests to receivers are as the section `webhooks` of the OpenAPI document says."""

import re
from typing import Any

import jsonschema_rs

from tests.channels.webhooks.stage import Stage
from tests.support.api_client import ApiClient
from tests.support.orders import place
from tests.support.receivers import Delivery, Receiver
from tonne.platform.values.context import utc_now
from tools.docs.openapi import inlined

# About the connection and the transfer of the body.
NOT_DECLARED = {"host", "accept", "accept-encoding", "content-length", "content-type"}


def check(document: dict[str, Any], delivery: Delivery) -> set[str]:
    """Checks the request by the description of each of its events; returns their types."""
    types = {event["event_type"] for event in delivery.events}
    for event_type in types:
        operation = document["webhooks"][event_type]["post"]
        declared = {parameter["name"].lower(): parameter["schema"] for parameter in operation["parameters"]}
        assert delivery.headers.keys() - NOT_DECLARED == declared.keys()
        for name, schema in declared.items():
            assert re.search(schema.get("pattern", ""), delivery.headers[name])
        media = operation["requestBody"]["content"]["application/json"]
        schema = {**media["schema"], "components": document["components"]}
        jsonschema_rs.Draft202012Validator(schema, validate_formats=True).validate({"events": delivery.events})
    return types


async def test_interface_4_deliveries_match_the_document(api: ApiClient, stage: Stage, receiver: Receiver) -> None:
    document = inlined((await api.http.get("/openapi.json")).json())
    hook = await stage.register(receiver.url, standard_webhooks=True)
    await place(stage.services, stage.one, utc_now())
    services = stage.services
    jobs = (services.issue_invoices, services.follow_up_invoices, services.allocate_orders, services.retire_units)
    await stage.run_jobs(*jobs)
    cancelled = await place(stage.services, stage.one, utc_now())
    assert (await api.post(f"/v1/orders/{cancelled.id}/cancel", {})).status_code == 200
    await stage.deliver()
    answer = await api.post(f"/v1/webhooks/{hook.id}/test", None)
    assert answer.json()["acknowledged"], answer.text
    types = set().union(*(check(document, delivery) for delivery in receiver.deliveries))
    assert types == {
        *("order.received", "order.placed", "order.paid", "order.retiring", "order.completed", "order.cancelled"),
        "webhook.test",
    }
