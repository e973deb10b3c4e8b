"""The generated code is up to date, and decodes what the document describes."""

import json
from typing import Any

import pytest

from clients.generate.document import Document
from clients.generate.files import generate
from tests.clients.contract import check_value, sample
from tests.support.api_client import ApiClient
from tonne_client import AsyncClient, Client, models
from tonne_client.base_model import converter
from tools.docs.openapi import inlined


@pytest.fixture
async def document(api: ApiClient) -> dict[str, Any]:
    return inlined((await api.http.get("/openapi.json")).json())


def test_the_generated_files_are_up_to_date(document: dict[str, Any]) -> None:
    outdated = [path.name for path, text in generate(Document(document)).items() if path.read_text("utf-8") != text]
    assert outdated == [], "run python -m clients.generate"


def test_every_operation_is_a_method_of_both_clients(document: dict[str, Any]) -> None:
    with Client("key") as client:
        clients = (client, AsyncClient("key"))
        for operation in Document(document).operations:
            for each in clients:
                method = getattr(getattr(each, operation.resource), "_".join(operation.words))
                assert method.__doc__.startswith(operation.summary.rstrip("."))


def test_contract_every_documented_response_decodes_into_its_type(document: dict[str, Any]) -> None:
    seen = 0
    for operation in Document(document).operations:
        if operation.returns is None or operation.is_file or "$ref" not in operation.returns:
            continue
        hint = getattr(models, operation.returns["$ref"].rpartition("/")[2])
        methods = document["paths"][operation.path][operation.method.lower()]
        answers = [answer for status, answer in methods["responses"].items() if status.startswith("2")]
        for answer in answers:
            example = answer["content"]["application/json"]["example"]
            check_value(converter(hint)(example), hint, operation.operation_id)
            seen += 1
    assert seen > 50


def test_contract_every_event_decodes_into_its_type(document: dict[str, Any]) -> None:
    for webhook in document["webhooks"].values():
        body = webhook["post"]["requestBody"]["content"]["application/json"]["example"]
        delivery = converter(models.WebhookDelivery)(json.loads(json.dumps(body)))
        check_value(delivery, models.WebhookDelivery)


def test_samples_of_all_schemas_decode(document: dict[str, Any]) -> None:
    """Also of those that are only a part of others, and with every optional field present."""
    for name in Document(document).used(in_requests=False):
        hint = getattr(models, name)
        check_value(converter(hint)(sample({"$ref": f"#/components/schemas/{name}"}, document)), hint, name)
