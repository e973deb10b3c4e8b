"""/.well-known/security.txt, and caching of what belongs to one account."""

import httpx
import msgspec
import pytest

from tests.support.api_client import ApiClient, codes
from tests.support.clock import START
from tonne.apps.wiring.app import Services, build_app
from tonne.platform.db.database import Database
from tonne.platform.settings.load_settings import load_settings
from tonne.platform.settings.settings import Settings, SettingsError

PATH = "/.well-known/security.txt"


async def _get(database: Database, settings: Settings, **changes: str) -> httpx.Response:
    services = Services(database, msgspec.structs.replace(settings, **changes), lambda: START)
    transport = httpx.ASGITransport(build_app(services))
    async with httpx.AsyncClient(transport=transport, base_url="http://tonne.test") as http:
        return await http.get(PATH)


async def test_security_22_the_contact_is_published(db: Database, settings: Settings) -> None:
    contact = "security@example.com, https://example.com/report"
    answer = await _get(db, settings, security_contact=contact, public_url="https://offsets.example.com")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.text.splitlines() == [
        "Contact: mailto:security@example.com",
        "Contact: https://example.com/report",
        "Expires: 2027-04-30T00:00:00.000Z",
        "Preferred-Languages: en",
        "Canonical: https://offsets.example.com/.well-known/security.txt",
    ]


async def test_without_https_there_is_no_canonical_url(db: Database, settings: Settings) -> None:
    answer = await _get(db, settings, security_contact="mailto:security@example.com")
    assert "Contact: mailto:security@example.com\n" in answer.text
    assert "Canonical" not in answer.text


async def test_without_a_contact_there_is_no_file(api: ApiClient) -> None:
    answer = await api.http.get(PATH)
    assert (answer.status_code, codes(answer)) == (404, ["route_not_found"])


@pytest.mark.parametrize("contact", ["security", "http://example.com", "a@b\nExpires: never", "javascript:alert(1)"])
def test_an_invalid_contact_is_refused(contact: str) -> None:
    with pytest.raises(SettingsError, match="TONNE_SECURITY_CONTACT"):
        load_settings({"TONNE_SECURITY_CONTACT": contact})


async def test_security_22_certificates_are_not_cached(api: ApiClient, services: Services) -> None:
    order = await api.order()
    for job in (
        *(services.issue_invoices, services.follow_up_invoices, services.follow_up_invoices),
        services.allocate_orders,
        services.retire_units,
        services.allocate_orders,
    ):
        await job.run_once()
    for path in ("certificate", "certificate.json"):
        answer = await api.get(f"/v1/orders/{order['id']}/{path}")
        assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
    invoice = await api.get(f"/v1/orders/{order['id']}/invoice")
    assert (invoice.status_code, invoice.headers["cache-control"]) == (200, "private, no-cache")
