"""Orders of all organisations: what the operator finds and does."""

import csv
import io
import re
from collections.abc import Callable

import pytest

from tests.support.api_client import ApiClient
from tests.support.clock import ManualClock
from tests.support.orders import place, receive
from tests.support.people import Person, add_user, operator
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.selling.orders.model import HoldReason
from tonne.selling.users.model import User

BASE = "/operator/test"
ROW = re.compile(r'<a href="[^"]*/orders/(ord_\w+)"><bdi>')


@pytest.fixture
def olga(person: Callable[[], Person]) -> Person:
    return person()


@pytest.fixture
async def user(services: Services, olga: Person) -> User:
    return await operator(services, olga)


async def execute(services: Services, sql: str, *values: object) -> None:
    async with services.database.transaction() as tx:
        await tx.execute(sql, *values)


async def listed(olga: Person, query: str) -> list[str]:
    answer = await olga.get(f"{BASE}/orders?{query}")
    assert answer.status_code == 200, answer.text
    return ROW.findall(answer.text)


@pytest.mark.usefixtures("user")
async def test_orders_of_all_organisations_are_found(
    olga: Person, services: Services, world: World, clock: ManualClock
) -> None:
    assert "There are no orders in this mode yet." in (await olga.get(f"{BASE}/orders")).text
    ours = await place(services, world.ours_test.scope, clock(), metadata='{"booking": "Harbour 77"}')
    live = await place(services, world.ours_live.scope, clock())
    clock.advance(hours=2)
    theirs = await receive(services, world.theirs_test.scope, clock(), key="trip-42")
    await execute(services, "UPDATE orders SET email = 'zoe@example.com' WHERE id = $1", theirs.id)
    text = (await olga.get(f"{BASE}/orders")).text
    assert ROW.findall(text) == [theirs.id, ours.id]
    assert "<bdi>Theirs</bdi>" in text
    organisation_id = world.theirs_test.scope.organisation_id
    found = {
        f"q={ours.id}": [ours.id],
        f"q={live.id}": [],
        "q=trip-42": [theirs.id],
        "q=ZOE@example.com": [theirs.id],
        "q=harbour": [ours.id],
        "status=received": [theirs.id],
        "status=complete": [],
        "payment=unpaid": [theirs.id, ours.id],
        f"organisation={organisation_id}": [theirs.id],
        f"organisation={organisation_id}&status=placed": [],
        f"organisation={organisation_id}&stuck=1": [],
    }
    assert {query: await listed(olga, query) for query in found} == found
    assert (await olga.get(f"{BASE}/orders?organisation=Theirs")).status_code == 422
    rows = list(csv.DictReader(io.StringIO((await olga.get(f"{BASE}/orders.csv")).text)))
    assert [(row["order_id"], row["organisation_name"]) for row in rows] == [(theirs.id, "Theirs"), (ours.id, "Ours")]
    assert (await olga.get(f"{BASE}/orders/{live.id}")).status_code == 404
    assert (await olga.get(f"/operator/live/orders/{live.id}")).status_code == 200


@pytest.mark.usefixtures("user")
async def test_stuck_orders_say_why_they_wait(
    olga: Person, services: Services, world: World, clock: ManualClock
) -> None:
    scope = world.ours_test.scope
    unpriced, held, unpaid, by_card, disputed = [await place(services, scope, clock()) for _ in range(5)]
    short = await place(services, scope, clock())
    retiring = await place(services, world.ours_live.scope, clock())
    await services.issue_invoices.run_once()
    reference = (
        "SELECT invoices.reference FROM invoices JOIN invoice_orders ON invoice_id = invoices.id WHERE order_id = $1"
    )
    async with services.database.connection() as connection:
        invoice = await connection.fetchval(reference, unpaid.id)
    await execute(
        services, "UPDATE orders SET status = 'paid', next_attempt_at = created_at WHERE id = $1", retiring.id
    )
    await services.allocate_orders.run_once()
    for order, change in {
        unpriced: "status = 'received'",
        held: "hold_reason = 'credit_limit_reached'",
        by_card: "payment_method = 'card'",
        disputed: "status = 'paid', payment_state = 'disputed'",
        short: "status = 'paid'",
    }.items():
        await execute(services, f"UPDATE orders SET {change} WHERE id = $1", order.id)  # noqa: S608 - constants
    await execute(services, "DELETE FROM invoice_orders WHERE order_id = $1", by_card.id)
    clock.advance(minutes=30)
    assert await listed(olga, "stuck=1") == [held.id]
    await execute(services, "UPDATE orders SET status_changed_at = status_changed_at - interval '31 days'")
    text = (await olga.get(f"{BASE}/orders?stuck=1")).text
    assert set(ROW.findall(text)) == {each.id for each in (unpriced, held, unpaid, by_card, disputed, short)}
    for reason in (
        "Waits for a price: no exchange rate for EUR",
        "On hold: the credit limit of the account is reached",
        f"Waits for the payment of invoice {invoice}, due on",
        "Waits for payment: the charge of the card.",
        "On hold: the payer disputes the payment.",
        "Waits for supply: too few credits",
    ):
        assert reason in text
    text = (await olga.get("/operator/live/orders?stuck=1")).text
    assert ROW.findall(text) == [retiring.id]
    assert "Waits for a shared unit until" in text
    assert "Waits for" not in (await olga.get(f"{BASE}/orders")).text


@pytest.mark.usefixtures("user")
async def test_an_order_on_hold_says_what_it_waits_for(
    olga: Person, services: Services, world: World, clock: ManualClock
) -> None:
    order = await place(services, world.ours_test.scope, clock())
    waits_for = {
        HoldReason.CREDIT_LIMIT_REACHED: "credit limit",
        HoldReason.COLLECTION_PENDING: "earlier small orders are paid first",
        HoldReason.BUYER_DETAILS_MISSING: "the buyer&#39;s address",
        HoldReason.VAT_CHECK_MISSING: "a check of the buyer&#39;s VAT ID",
        HoldReason.EXCHANGE_RATE_MISSING: "the exchange rate",
    }
    assert waits_for.keys() == set(HoldReason)
    for reason in HoldReason:
        await execute(services, "UPDATE orders SET hold_reason = $1, payment_method = 'card'", reason)
        for path in ("orders?stuck=1", f"orders/{order.id}"):
            text = (await olga.get(f"{BASE}/{path}")).text
            [sentence] = re.findall(r"On hold: ([^<]*)", text)
            assert [each for each, words in waits_for.items() if words in sentence] == [reason], path


async def test_the_operator_cancels_refunds_and_corrects_an_address(
    olga: Person, user: User, api: ApiClient, services: Services
) -> None:
    by_olga = f"user:{user.id}"

    async def added() -> tuple[str, str]:
        async with services.database.connection() as connection:
            row = await connection.fetchrow("SELECT actor, action FROM audit_log ORDER BY id DESC LIMIT 1")
        assert row is not None
        return row["actor"], row["action"]

    cancelled, paid = (await api.order())["id"], (await api.order())["id"]
    answer = await olga.submit(f"{BASE}/orders/{cancelled}/cancel", reason="Asked by phone")
    assert answer.headers["location"] == f"{BASE}/orders/{cancelled}?done=order_cancelled"
    assert await added() == (by_olga, "order.cancelled")
    order = (await api.get(f"/v1/orders/{cancelled}")).json()
    assert order["cancellation_reason"] == "requested_by_operator"
    assert "Asked by phone" in (await olga.get(f"{BASE}/orders/{cancelled}")).text
    path = f"{BASE}/orders/{paid}"
    assert (await olga.submit(f"{path}/test-helpers/settle-invoice")).status_code == 303
    # Without the permission of the account, which is for its own people.
    answer = await olga.submit(f"{path}/refund", amount="1.00", reason="A gesture", key="dash_1")
    assert answer.headers["location"] == f"{path}?done=refund_requested"
    assert (by_olga, "refund.requested") in await _entries(services)
    text = (await olga.get(path)).text
    assert "By Olga Berg" in text
    assert "refund.requested" in text
    await execute(services, "UPDATE orders SET email = 'zoe@exmaple.com' WHERE id = $1", paid)
    await execute(
        services,
        "INSERT INTO organisation_admins (organisation_id, email, created_at) "
        "SELECT organisation_id, 'admin@ours.test', created_at FROM orders WHERE id = $1",
        paid,
    )
    answer = await olga.submit(f"{path}/mails", invoice="1", email="no address")
    assert "Enter an e-mail address" in answer.text
    answer = await olga.submit(f"{path}/mails", invoice="1", email="zoe@example.com")
    assert answer.headers["location"] == f"{path}?done=mails_resent", answer.text
    async with services.database.connection() as connection:
        rows = await connection.fetch("SELECT actor, action FROM audit_log ORDER BY id DESC LIMIT 2")
    assert [tuple(row) for row in rows] == [(by_olga, "order.mails_resent"), (by_olga, "invoice.resent")]
    assert (await api.get(f"/v1/orders/{paid}")).json()["email"] == "zoe@example.com"
    answer = await olga.submit(f"{path}/cancel", reason="Not needed", refund="1")
    assert answer.headers["location"] == f"{path}?done=order_cancelled"


async def _entries(services: Services) -> list[tuple[str, str]]:
    async with services.database.connection() as connection:
        return [(row["actor"], row["action"]) for row in await connection.fetch("SELECT actor, action FROM audit_log")]


async def test_a_member_is_no_operator(
    services: Services, world: World, api: ApiClient, person: Callable[[], Person]
) -> None:
    await add_user(services, "ann@ours.test", world.ours_test.scope.organisation_id)
    ann, order_id = person(), (await api.order())["id"]
    await ann.sign_in("ann@ours.test")
    for path in ("/orders", "/orders.csv", f"/orders/{order_id}", f"/orders/{order_id}/cancel"):
        assert (await ann.get(f"{BASE}{path}")).status_code == 404
    assert (await ann.submit(f"{BASE}/orders/{order_id}/cancel", reason="x")).status_code == 404
