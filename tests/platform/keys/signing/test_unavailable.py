"""A document key that is missing for a while."""

from pathlib import Path

import msgspec
import pytest

from tests.channels.public_pages.certificates import complete_order
from tests.support.api_client import ApiClient
from tests.support.document_key import write_document_key
from tonne.apps.wiring.app import Services
from tonne.platform.settings.settings import Settings


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    return msgspec.structs.replace(
        settings,
        document_key_file=str(tmp_path / "document.key"),
        document_certificate_file=str(tmp_path / "document.pem"),
    )


async def test_pdfs_wait_for_the_key_and_orders_do_not(services: Services, api: ApiClient, tmp_path: Path) -> None:
    await complete_order(api, services)
    order = (await api.get("/v1/orders")).json()["data"][0]
    assert order["status"] == "complete"
    path = f"/v1/orders/{order['id']}/certificate"
    refused = await api.get(path)
    assert (refused.status_code, refused.json()["error"]["error_code"]) == (503, "signing_unavailable")
    assert (await api.get(f"{path}.json")).status_code == 200
    write_document_key(tmp_path)
    assert (await api.get(path)).content.startswith(b"%PDF-")
