"""Orders and certificates of an organisation: lists, the page of an order, and what members do to it."""

import csv
import io
import re
import zipfile
from collections.abc import Callable
from datetime import timedelta
from html import unescape

import pytest

from tests.apps.workspace.forms import typed_fields
from tests.support.api_client import ApiClient
from tests.support.clock import ManualClock
from tests.support.orders import place, receive
from tests.support.people import Person, add_user
from tests.support.world import World
from tonne.apps.lookup.find_orders import SCANNED, list_page
from tonne.apps.wiring.app import Services
from tonne.selling.orders.model import PaymentState
from tonne.selling.orders.order_filter import OrderFilter
from tonne.selling.users.model import Role

MakePerson = Callable[[], Person]
ANN = "ann@ours.test"
ROW = re.compile(r'<a href="[^"]*/orders/(ord_\w+)"><bdi>')
FAULT = re.compile(r'<p class="notice bad"[^>]*>([^<]+)')
LAST_ENTRY = "SELECT actor, action, subject_id FROM audit_log ORDER BY id DESC LIMIT 1"


@pytest.fixture
def base(world: World) -> str:
    return f"/dashboard/test/{world.ours_test.scope.organisation_id}"


@pytest.fixture
async def ann(services: Services, world: World, person: MakePerson) -> Person:
    return await signed_in(services, world, person, Role.OWNER, ANN)


async def signed_in(services: Services, world: World, person: MakePerson, role: Role, email: str) -> Person:
    await add_user(services, email, world.ours_test.scope.organisation_id, role)
    someone = person()
    await someone.sign_in(email)
    return someone


async def execute(services: Services, sql: str, *values: object) -> None:
    async with services.database.transaction() as tx:
        await tx.execute(sql, *values)


async def fetchval(services: Services, sql: str, *values: object) -> str:
    async with services.database.connection() as connection:
        return str(await connection.fetchval(sql, *values))


async def listed(ann: Person, address: str) -> list[str]:
    answer = await ann.get(address)
    assert answer.status_code == 200, answer.text
    return ROW.findall(answer.text)


async def test_a_list_has_the_orders_of_the_organisation_and_mode_newest_first(
    ann: Person, services: Services, world: World, clock: ManualClock, base: str
) -> None:
    live = base.replace("/test/", "/live/")
    assert "There are no orders yet." in (await ann.get(f"{base}/orders")).text
    first = await place(services, world.ours_test.scope, clock())
    theirs = await place(services, world.theirs_test.scope, clock())
    clock.advance(seconds=1)
    second = await receive(services, world.ours_test.scope, clock(), key="trip-42")
    assert await listed(ann, f"{base}/orders") == [second.id, first.id]
    assert await listed(ann, f"{live}/orders") == []
    for address in (f"{base}/orders/{theirs.id}", f"{live}/orders/{first.id}", f"{base}/orders/nonsense"):
        assert (await ann.get(address)).status_code == 404
        assert (await ann.submit(f"{address}/cancel", reason="Ordered twice")).status_code == 404
    assert "trip-42" in (await ann.get(f"{base}/orders")).text


async def test_orders_are_found_by_what_names_them_and_by_filters(
    ann: Person, services: Services, world: World, clock: ManualClock, base: str
) -> None:
    scope = world.ours_test.scope
    old = await place(services, scope, clock(), metadata='{"booking": "Harbour 77"}')
    clock.advance(days=2)
    # The session has ended meanwhile.
    await ann.sign_in(ANN)
    new = await receive(services, scope, clock(), key="trip-42")
    await execute(services, "UPDATE orders SET email = 'Zoe@example.com' WHERE id = $1", new.id)
    await services.issue_invoices.run_once()
    invoice = await fetchval(services, "SELECT reference FROM invoices")
    client = world.ours_test.client_account_id
    found = {
        f"q={old.id}": [old.id],
        "q=trip-42": [new.id],
        "q=zoe@EXAMPLE.com": [new.id],
        f"q={invoice.lower()}": [old.id],
        "q=harbour+77": [old.id],
        "q=nothing": [],
        "status=received": [new.id],
        "status=placed": [old.id],
        "status=complete": [],
        "payment=unpaid": [new.id, old.id],
        "payment=disputed": [],
        "method=card": [],
        f"account={scope.account_id}": [new.id, old.id],
        f"account={client}": [],
        f"since={clock():%Y-%m-%d}": [new.id],
        f"until={clock() - timedelta(days=1):%Y-%m-%d}": [old.id],
        f"q=trip-42&until={clock() - timedelta(days=1):%Y-%m-%d}": [],
        "status=placed&payment=paid": [],
    }
    assert {query: await listed(ann, f"{base}/orders?{query}") for query in found} == found
    answer = await ann.get(f"{base}/orders?since=soon&until=9999-12-31")
    assert (answer.status_code, answer.text.count("Enter a date such as 2026-11-16.")) == (422, 2)
    assert "No order matches “<bdi>&lt;b&gt;</bdi>”" in (await ann.get(f"{base}/orders?q=%3Cb%3E")).text


async def test_pages_follow_each_other_and_the_export_has_all_of_them(
    ann: Person, services: Services, world: World, clock: ManualClock, base: str
) -> None:
    scope, orders = world.ours_test.scope, []
    for _ in range(53):
        clock.advance(milliseconds=1)
        orders.append((await place(services, scope, clock())).id)
    last = await receive(services, scope, clock(), key="=cmd|'/c calc'!A1")
    orders = [last.id, *reversed(orders)]
    answer = await ann.get(f"{base}/orders")
    assert ROW.findall(answer.text) == orders[:50]
    onward = re.search(r'href="([^"]*after=[^"]*)"', answer.text)
    assert onward is not None
    assert await listed(ann, unescape(onward[1])) == orders[50:]
    assert (await ann.get(f"{base}/orders?status=placed&after={onward[1].rpartition('=')[2]}")).status_code == 400
    answer = await ann.get(f"{base}/orders.csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert "content-length" not in answer.headers
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [row["order_id"] for row in rows] == orders
    assert rows[0]["idempotency_key"] == "'=cmd|'/c calc'!A1"
    assert (rows[1]["quantity_tonnes"], rows[1]["currency"]) == ("1.105697", "EUR")
    assert len((await ann.get(f"{base}/orders.csv?status=received")).text.splitlines()) == 2
    for _ in range(8):
        assert (await ann.get(f"{base}/orders.csv?q=none")).status_code == 200
    assert (await ann.get(f"{base}/orders.csv?q=none")).status_code == 429


async def test_a_rare_match_is_reached_by_reading_on(services: Services, world: World, clock: ManualClock) -> None:
    scope = world.ours_test.scope
    rare = await place(services, scope, clock())
    await execute(services, "UPDATE orders SET payment_state = 'paid' WHERE id = $1", rare.id)
    await execute(
        services,
        """
        INSERT INTO orders (account_id, id, wire_document, organisation_id, mode, idempotency_key, request_digest, type,
            status, currency, payment_method, requested_quantity_grams, metadata, created_at, status_changed_at)
        SELECT account_id, 'ord_' || n, wire_document, organisation_id, mode, 'copy ' || n, request_digest, type,
            'received', currency, payment_method, requested_quantity_grams, metadata,
            created_at + n * interval '1 s', created_at
        FROM orders, generate_series(1, $2) AS n WHERE id = $1
        """,
        rare.id,
        SCANNED + 10,
    )
    requested = OrderFilter(mode=scope.mode, organisation_id=scope.organisation_id, payment_state=PaymentState.PAID)
    async with services.database.connection() as connection:
        page = await list_page(connection, requested, limit=50)
        assert (page.orders, page.is_short) == ([], True)
        assert page.next is not None
        page = await list_page(connection, requested, page.next, limit=50)
    assert ([order.id for order in page.orders], page.next) == ([rare.id], None)


async def check_list(ann: Person, base: str, number: str, order_id: str) -> None:
    for query, is_found in {
        "": True,
        f"?q={number}": True,
        f"?q={order_id}": True,
        "?q=FJORD+bakery": True,
        "?q=nobody": False,
        "?until=2020-01-01": False,
    }.items():
        assert (f"/verify/{number}" in (await ann.get(f"{base}/certificates{query}")).text) is is_found, query


async def check_download(ann: Person, base: str, number: str) -> None:
    """The certificate can be downloaded as a ZIP file, in its mode only."""
    download = f"{base}/certificates/download"
    assert (await ann.submit(download)).status_code == 422
    assert (await ann.submit(download, number="0000-0000-0000-0000")).status_code in {404, 422}
    answer = await ann.submit(download, number=number)
    assert answer.headers["content-type"] == "application/zip"
    archive = zipfile.ZipFile(io.BytesIO(answer.content))
    assert archive.testzip() is None
    assert archive.namelist() == [f"certificate-{number}.pdf"]
    assert archive.read(archive.namelist()[0]).startswith(b"%PDF-")
    other = base.replace("/test/", "/live/")
    assert (await ann.submit(f"{other}/certificates/download", number=number)).status_code == 404


async def test_an_order_is_helped_to_its_certificate_and_tells_its_life(
    ann: Person, api: ApiClient, services: Services, base: str
) -> None:
    hook = (await api.post("/v1/webhooks", {"url": "https://1.1.1.1/hook"})).json()
    estimate = await api.estimate("2.5")
    body = {"estimate_id": estimate, "metadata": {"trip": "<script>alert(1)</script>"}}
    order = (await api.post("/v1/orders/by-estimate", body)).json()
    path = f"{base}/orders/{order['id']}"
    text = (await ann.get(path)).text
    for part in ("Pay the invoice", "Cancel the order", "&lt;script&gt;", estimate, hook["url"], "Pending", "2.5"):
        assert part in text
    assert "<script>alert" not in text
    assert "jobs.js" in text, "it refreshes itself while it waits"
    live = path.replace("/test/", "/live/")
    assert (await ann.submit(f"{live}/test-helpers/complete")).status_code == 404
    assert (await ann.submit(f"{path}/test-helpers/explode")).status_code == 404
    for step in ("settle-invoice", "complete"):
        answer = await ann.submit(f"{path}/test-helpers/{step}")
        assert answer.headers.get("location") == f"{path}?done=helped", FAULT.findall(answer.text)
    answer = await ann.submit(f"{path}/test-helpers/retire")
    assert (answer.status_code, "it must be paid first" in answer.text) == (422, True)
    number = await fetchval(services, "SELECT number FROM certificates")
    text = (await ann.get(path)).text
    for part in ("Complete: every gram is retired", "Paid: waits for credits", f"{number} issued", "Retired on"):
        assert part in text
    assert "By Ann Lee" in text
    assert "jobs.js" not in text
    # What concerns other orders too is folded away behind what happened to this one.
    timeline, _, details = text.partition('<ol class="timeline">')[2].partition("<details>")
    assert re.findall(r'<li class="on-([a-z-]+)', timeline)[0] in {"event", "order"}
    assert "on-unit" not in timeline
    assert "on-unit" in details.partition("</details>")[0]
    assert "By the API key test key" in text
    assert "Cancel the order" not in text
    for document in ("certificate.pdf", f"certificate.pdf?number={number.lower()}", "invoice.pdf"):
        answer = await ann.get(f"{path}/{document}")
        assert (answer.headers["content-type"], answer.content[:5]) == ("application/pdf", b"%PDF-")
    assert (await ann.get(f"{path}/certificate.pdf?number=0000")).status_code == 404
    assert "A new certificate with a new number" in (await ann.get(f"{path}/name")).text
    answer = await ann.submit(f"{path}/name", name="", reason="")
    assert (answer.status_code, "Enter the name" in answer.text, "Say why" in answer.text) == (422, True, True)
    answer = await ann.submit(f"{path}/name", name="Fjord Bakery AS", reason="The name was misspelt.")
    assert answer.headers["location"] == f"{path}?done=order_renamed"
    actor = await fetchval(services, "SELECT actor FROM audit_log WHERE action = 'order.renamed'")
    assert actor == "user:" + await fetchval(services, "SELECT id FROM users")
    former, number = number, await fetchval(services, "SELECT number FROM certificates WHERE state = 'valid'")
    text = (await ann.get(path)).text
    assert f"{number} issued, replaces {former}" in text
    assert '<span class="badge off">Replaced</span>' in text
    await check_list(ann, base, number, order["id"])
    await check_download(ann, base, number)
    assert "There are no certificates yet." in (await ann.get(base.replace("/test/", "/live/") + "/certificates")).text
    assert (await ann.get(f"{base}/certificates?since=soon")).status_code == 422
    assert await listed(ann, f"{base}/orders?q={number}") == [order["id"]]
    await services.webhooks.close()


async def test_a_cancellation_is_confirmed_and_has_a_reason(
    ann: Person, api: ApiClient, services: Services, base: str
) -> None:
    order = await api.order()
    path = f"{base}/orders/{order['id']}"
    text = (await ann.get(f"{path}/cancel")).text
    assert "This cannot be undone." in text
    answer = await ann.submit(f"{path}/cancel", reason="")
    assert (answer.status_code, "Say why" in answer.text) == (422, True)
    answer = await ann.submit(f"{path}/cancel", reason="Ordered twice")
    assert answer.headers["location"] == f"{path}?done=order_cancelled"
    order = (await api.get(f"/v1/orders/{order['id']}")).json()
    assert (order["status"], order["cancellation_reason"]) == ("cancelled", "requested_by_client")
    user_id = await fetchval(services, "SELECT id FROM users")
    async with services.database.connection() as connection:
        assert tuple(await connection.fetchrow(LAST_ENTRY) or ()) == (f"user:{user_id}", "order.cancelled", order["id"])
    text = (await ann.get(f"{path}?done=order_cancelled")).text
    assert "The order is cancelled." in text
    assert "Cancelled: Ordered twice" in text
    assert (await ann.submit(f"{path}/cancel", reason="Again")).status_code == 422
    assert "there is nothing to cancel" in (await ann.get(f"{path}/cancel")).text


async def test_a_refund_needs_the_permission_of_the_account_and_is_made_once(
    ann: Person, api: ApiClient, services: Services, base: str
) -> None:
    order = await api.order()
    path = f"{base}/orders/{order['id']}"
    assert "Nothing was paid" in (await ann.get(f"{path}/refund")).text
    await ann.submit(f"{path}/test-helpers/settle-invoice")
    assert "Refunds are off for this account." in (await ann.get(f"{path}/refund")).text
    form = {"amount": "1.00", "reason": "A gesture", "key": "dash_1"}
    answer = await ann.submit(f"{path}/refund", **form)
    assert (answer.status_code, "Refunds by API are off" in answer.text) == (422, True)
    assert (await ann.submit(f"{path}/cancel", reason="No", refund="1")).status_code == 422
    await execute(services, "UPDATE accounts SET refunds_by_api = true")
    answer = await ann.submit(f"{path}/refund", amount="1.001", reason="", key="dash_1")
    assert answer.status_code == 422
    assert "at most 2 decimals" in answer.text
    assert "Say why" in answer.text
    assert "can still be refunded" in (await ann.submit(f"{path}/refund", **{**form, "amount": "9999"})).text
    for _ in range(2):
        answer = await ann.submit(f"{path}/refund", **form)
        assert answer.headers["location"] == f"{path}?done=refund_requested"
    assert await fetchval(services, "SELECT count(*) FROM refunds") == "1"
    user_id = await fetchval(services, "SELECT id FROM users")
    assert (
        await fetchval(services, "SELECT actor FROM audit_log WHERE action = 'refund.requested'") == f"user:{user_id}"
    )
    assert "A gesture" in (await ann.get(path)).text
    text = (await ann.get(f"{path}/cancel")).text
    assert "to the bank account that paid" in text
    answer = await ann.submit(f"{path}/cancel", reason="Not needed", refund="1")
    assert answer.headers["location"] == f"{path}?done=order_cancelled"
    order = (await api.get(f"/v1/orders/{order['id']}")).json()
    assert (order["status"], order["cancellation_reason"]) == ("cancelled", "requested_by_client")


async def test_an_order_that_waits_is_reduced_cancelled_or_released_without_the_permission(
    ann: Person, api: ApiClient, base: str
) -> None:
    account = f"{base}/accounts/{(await api.get('/v1/account')).json()['id']}"
    orders = [f"{base}/orders/{(await api.order(fulfil_after='manual'))['id']}" for _ in range(2)]
    for path in orders:
        assert "can be reduced" in (await ann.get(f"{path}/reduce")).text
        await ann.submit(f"{path}/test-helpers/settle-invoice")
        assert "This order waits until you release it" in (await ann.get(path)).text
    path, other = orders
    assert "such as 2.5" in (await ann.submit(f"{path}/reduce", quantity="x", reason="")).text
    assert "Send a smaller quantity" in (await ann.submit(f"{path}/reduce", quantity="3", reason="Less")).text
    answer = await ann.submit(f"{path}/reduce", quantity="0.25", reason="Less")
    assert answer.headers["location"] == f"{path}?done=order_reduced"
    assert "&#34;quantity&#34;: &#34;0.25&#34;" in (await ann.get(path)).text
    assert "to the bank account that paid" in (await ann.get(f"{path}/cancel")).text
    answer = await ann.submit(f"{path}/cancel", reason="Not needed", refund="1")
    assert answer.headers["location"] == f"{path}?done=order_cancelled"
    answer = await ann.submit(f"{other}/release")
    assert answer.headers["location"] == f"{other}?done=order_released"
    assert "This order waits" not in (await ann.get(other)).text
    assert (await ann.submit(f"{other}/cancel", reason="No", refund="1")).status_code == 422
    details = {"name": "Ours", "beneficiary": "Ours"}
    assert "a whole number of hours" in (await ann.submit(account, fulfil_delay="-1", **details)).text
    for entered, shown in (("manual", "manual"), ("", ""), ("024", "24"), ("0", "")):
        assert (await ann.submit(account, fulfil_delay=entered, **details)).status_code == 303
        assert typed_fields((await ann.get(account)).text)["fulfil_delay"] == shown, entered


async def test_mails_are_sent_again(ann: Person, api: ApiClient, services: Services, world: World, base: str) -> None:
    await execute(
        services,
        "INSERT INTO organisation_admins (organisation_id, email, created_at) VALUES ($1, 'admin@ours.test', now())",
        world.ours_test.scope.organisation_id,
    )
    order = await api.order()
    path = f"{base}/orders/{order['id']}"
    assert "There is no mail to send" in (await ann.get(f"{path}/mails")).text
    await ann.submit(f"{path}/test-helpers/settle-invoice")
    assert "Choose at least one mail." in (await ann.submit(f"{path}/mails")).text
    answer = await ann.submit(f"{path}/mails", invoice="1", email="other@example.com")
    assert answer.headers["location"] == f"{path}?done=mails_resent", answer.text
    async with services.database.connection() as connection:
        row = await connection.fetchrow(LAST_ENTRY)
    assert row is not None
    assert row["action"] == "order.mails_resent"
    assert (await ann.submit(f"{path}/mails", certificate="1")).status_code == 422


async def test_roles_see_and_do_what_they_may(
    api: ApiClient, services: Services, world: World, person: MakePerson, *, base: str
) -> None:
    path = f"{base}/orders/{(await api.order())['id']}"
    forms = ("cancel", "refund", "mails", "name", "test-helpers/settle-invoice")
    allowed = {Role.FINANCE: (True, False), Role.DEVELOPER: (False, True), Role.READ_ONLY: (False, False)}
    for role, (has_money, has_helpers) in allowed.items():
        someone = await signed_in(services, world, person, role, f"{role}@ours.test")
        text = (await someone.get(path)).text
        assert ("Cancel the order" in text, "Pay the invoice" in text) == (has_money, has_helpers)
        refused = {form for form in forms if (await someone.submit(f"{path}/{form}")).status_code == 403}
        assert refused == {*(() if has_money else forms[:4]), *(() if has_helpers else forms[4:])}
