"""The worst forms and queries of pages, for objects that exist, never keep others from the event loop for long."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote_plus

import httpx
import pytest

from tests.channels.checkout.shopper import LINK_SECRET, Shopper, make_link
from tests.platform.http.worst_requests import Sender, measured_steps
from tests.support.api_client import ApiClient
from tests.support.people import Person, operator
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.channels.checkout.links.signed_query import sign_query
from tonne.money.cards.stored_cards.mail_card_problems import card_page_url
from tonne.platform.http.asgi import AsgiApp
from tonne.platform.http.multipart import MULTIPART
from tonne.platform.http.route import MAX_BODY_BYTES
from tonne.selling.orders.load import load_orders
from tonne.selling.orders.mails.order_links import order_urls
from tonne.selling.orders.model import OrderKey

SOURCES = Path("src/tonne")
# Fields as templates name them, and as the code reads them.
NAMED = re.compile(r'\bname="(\w+)"|\bfield(?:_of)?\(\s*"(\w+)"|field_of\(fields\.(\w+)')
READ = re.compile(r'(?:form|fields)\w*\.\w+\(\s*"(\w+)"|\.query\(\s*"(\w+)"')
PARAMETER = re.compile(r"\{(\w+)(?::path)?\}")
FORM = b"application/x-www-form-urlencoded"
# These end what the others are about, or the session, so they are the last.
ENDING = re.compile(r"/(close|remove|delete|discard|archive|disable|enabled|switch|state|cancel|sign-out|end)$")


def names_of_fields() -> list[str]:
    found = []
    for pattern, files in ((NAMED, SOURCES.rglob("*.html")), (READ, SOURCES.rglob("*.py"))):
        for file in files:
            if "cli" not in file.parts:
                found += pattern.findall(file.read_text(encoding="utf-8"))
    names = {name for each in found for name in each if name}
    # What makes a form go to another page, or be refused before it is read.
    return sorted(names - {"form_token", "account", "viewport", "robots", "description"})


def encoded(names: list[str], size: int) -> Iterator[str]:
    """All fields at once, together as long as may be, of digits, letters, lines or commas in turn."""
    room = size // len(names) - 30
    values = ["9" * room, quote_plus("é") * (room // 6), "1%0A" * (room // 4), "1," * (room // 2)]
    for first in (0, 2):
        yield "&".join(f"{name}={values[(first + place) % len(values)]}" for place, name in enumerate(names))


@pytest.fixture
async def ids(services: Services, api: ApiClient, browser: httpx.AsyncClient, world: World) -> dict[str, str]:
    """Of objects by the parameter of paths. Olga is an operator and owns the organisation."""
    scope = world.ours_test.scope
    olga = await operator(services, Person(browser))
    link = await make_link(services, scope)
    checkout = await Shopper(browser).begin(link)
    order_id = (await api.order())["id"]
    webhook = await api.post("/v1/webhooks", {"url": "https://93.184.216.34/hook"})
    async with services.database.transaction() as tx:
        await tx.execute(
            "INSERT INTO memberships (organisation_id, user_id, role, created_at) VALUES ($1, $2, 'owner', now())",
            scope.organisation_id,
            olga.id,
        )
        card = await card_page_url(tx, scope, box=services.box, settings=services.settings, now=services.clock())
        [order] = await load_orders(tx, [OrderKey(scope.account_id, order_id)])
        order_url = (await order_urls(tx, [order], settings=services.settings, now=services.clock()))[order_id]
        found = {
            name: await tx.fetchval(f"SELECT id FROM {table} WHERE mode = 'test' LIMIT 1")  # noqa: S608 - tables below
            for name, table in (("bundle_id", "bundles"), ("lot_id", "lots"), ("project_id", "projects"))
        }
    return {
        **found,
        "organisation_id": scope.organisation_id,
        "account_id": scope.account_id,
        "order_id": order_id,
        "link_id": link.id,
        "offset_link_id": link.id,
        "/checkout/{token}": checkout.rpartition("/")[2],
        "/card/{token}": card.rpartition("/")[2],
        "/o/{token}": str(order_url).rpartition("/")[2],
        "webhook_id": webhook.json()["id"],
        "key_id": world.ours_test.key_id,
        "user_id": olga.id,
        "month": "2026-10",
        "currency": "EUR",
        "step": "pay",
    }


def worst_multipart(size: int) -> Iterator[bytes]:
    """Boundaries without end, and a part that is one head of line breaks."""
    yield b"--x" + b"\r\n--x" * (size // 5 - 10)
    yield b"--x\r\n" + b"\r\na" * (size // 3 - 20) + b"\r\n\r\n\r\n--x--"
    yield b"--x\r\n" + b"\r\n" * 10 + b"a\r\n" * (size // 3 - 50) + b"\r\n--x--"


def path_of(route_path: str, ids: dict[str, str]) -> str:
    base = "/".join(route_path.split("/")[:3])
    return PARAMETER.sub(lambda each: ids.get(base) or ids.get(each[1]) or f"{each[1][:3]}_{'0' * 26}", route_path)


async def test_the_worst_forms_and_queries_of_pages(
    services: Services, app: AsgiApp, browser: httpx.AsyncClient, ids: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In test mode: live mode has the same pages."""
    names, token = names_of_fields(), browser.cookies["tonne"]
    assert 100 < len(names) < 250
    fixed = f"form_token={token}&account={ids['account_id']}&"
    bodies = [(fixed + each).encode() for each in encoded(names, MAX_BODY_BYTES - 4096)]
    queries = [each.encode() for each in encoded(names, 60_000)]
    cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items()).encode()
    routes = [
        route
        for route in services.routes()
        if route.method in {"GET", "POST"}
        and not route.path.startswith(("/v1/", "/gateways/", "/docs", "/operator/live"))
        and "/live/" not in route.path
    ]
    assert len(routes) > 200
    seen, with_files = Counter[int](), 0
    with measured_steps(monkeypatch) as steps:
        sender = Sender(app, "", steps)
        for route in sorted(routes, key=lambda each: (ENDING.search(each.path) is not None, each.method)):
            path, what = path_of(route.path, ids), f"{route.method} {route.path}"
            worst: list[dict[str, bytes]] = [{"query": queries[0]}]
            if route.reads_body:
                # Operators are trusted, and their forms are read by the same code.
                several = bodies[:1] if route.path.startswith("/operator/") else bodies
                worst = [{"body": body, "content_type": FORM, "query": queries[0]} for body in several]
            if route.file_field or route.max_body_bytes > MAX_BODY_BYTES:
                files = worst_multipart(route.max_body_bytes)
                worst = [*({"body": body, "content_type": MULTIPART + b"; boundary=x"} for body in files), *worst]
                with_files += 1
            for each in worst:
                status = await sender.send(what, route.method, path, cookie=cookie, **each)
                assert status < 500 or status == 503, (what, status)
            seen[status] += 1
        for body in (b"[" * MAX_BODY_BYTES, b'{"a":' * (MAX_BODY_BYTES // 5), b'{"id":"' + b"9" * MAX_BODY_BYTES):
            await sender.send(
                "a notification", "POST", "/gateways/stripe/webhook", body=body, stripe_signature=b"t=1,v1=00"
            )
        # A form within a form, of a stranger. Nothing is encoded, so that it has most to encode.
        email = "é" * (MAX_BODY_BYTES // 2 - 4096)
        signature = sign_query(LINK_SECRET, ids["link_id"], [("email", email)])
        signed = f"{fixed}signed_query=email%3D{email}%26signature%3D{signature}".encode()
        await sender.send(
            "a signed query", "POST", f"/offset/{ids['link_id']}", body=signed, cookie=cookie, content_type=FORM
        )
    assert not sender.slow, "\n".join(sender.slow)
    assert with_files > 5
    # Pages of objects that exist, and forms that were read.
    assert seen[200] + seen[422] > 100


# As many rows as an export reads at once, or more.
COPIES = """
CREATE TEMP TABLE copies AS
SELECT {table}.*, number FROM (SELECT * FROM {table} LIMIT 1) AS {table}, generate_series(1, {count}) AS number;
UPDATE copies SET {changes};
ALTER TABLE copies DROP number;
INSERT INTO {table} SELECT * FROM copies;
DROP TABLE copies;
"""
PARCELS = """
INSERT INTO parcels (mode, id, lot_id, project_id, start_grams, quantity_grams, allocated_grams, beneficiary,
                     in_service_name, status, opened_at)
SELECT mode, 'par_' || number, id, project_id, number * unit_grams, unit_grams, unit_grams, 'Beneficiary ' || number,
       true, 'to_retire', now()
FROM (SELECT * FROM lots WHERE mode = 'live' LIMIT 1) AS lot, generate_series(1, 1200) AS number
"""
NUMBERED = "'x_' || lpad(number::text, 26, '0')"


async def test_files_of_many_rows_are_made_in_small_steps(
    services: Services, app: AsgiApp, browser: httpx.AsyncClient, ids: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    organisation_id, cookies = ids["organisation_id"], browser.cookies.items()
    entry = (
        f"id = {NUMBERED}, organisation_id = '{organisation_id}', mode = 'test', after = '{{\"name\": \"Some text\"}}'"
    )
    async with services.database.transaction() as tx:
        for table, count, changes in (
            ("orders", 1_200, f"id = {NUMBERED}, idempotency_key = {NUMBERED}"),
            ("audit_log", 5_500, entry),
        ):
            await tx.execute(COPIES.format(table=table, count=count, changes=changes))
        await tx.execute(PARCELS)
    cookie = "; ".join(f"{name}={value}" for name, value in cookies).encode()
    files = [f"/dashboard/test/{organisation_id}{each}" for each in ("/orders.csv", "/audit/export")]
    # Test credits are retired by simulated registries, and are not on the operator's list.
    files += [f"/operator/{each}" for each in ("test/orders.csv", "test/audit/export", "live/retirements/export")]
    with measured_steps(monkeypatch) as steps:
        sender = Sender(app, "", steps)
        for path in files:
            assert await sender.send(path, "GET", path, cookie=cookie) == 200, path
            assert sender.received > 100_000, path
    assert not sender.slow, "\n".join(sender.slow)
