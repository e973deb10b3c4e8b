"""Events of allocations, invoices, refunds and certificates: recorded with their change, where a webhook names them."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from tests.money.invoices.billing import ADA, Billing
from tests.money.refunds.refund_scene import RefundScene
from tests.supply.retirements.shop import TONNE, Shop
from tests.supply.retirements.test_invalid_lots import resolve
from tests.support.clock import MARCH, ManualClock
from tests.support.events import StoredEvent, stored_events
from tests.support.scene import Scene
from tests.support.world import SELLER, TESTER, World
from tonne.apps.wiring.app import Services
from tonne.channels.webhooks.event_schemas import WebhookEvent
from tonne.channels.webhooks.model import NAMEABLE, WebhookRequest
from tonne.channels.webhooks.register import register_webhook, remove_webhook
from tonne.platform.db.database import Database
from tonne.platform.events.optional_events import OptionalEvent, record_optional
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode, Scope, replace
from tonne.selling.accounts.model import Billing as BillingMode
from tonne.selling.orders.model import Beneficiary, BeneficiaryKind, Order
from tonne.supply.retirements.rename_order import rename_order
from tonne.supply.retirements.resupply.resupply_orders import Decision

URL = "https://93.184.216.34/hook"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, **SELLER)


async def subscribe(scene: Scene, scope: Scope, event_types: Sequence[str] = NAMEABLE) -> str:
    async with scene.database.transaction() as tx:
        webhook, _ = await register_webhook(
            tx,
            scope,
            WebhookRequest(URL, event_types=event_types),
            box=scene.services.box,
            by=TESTER.at(scene.clock()),
        )
    return webhook.id


async def optional_events(scene: Scene, subject_id: str | None = None) -> list[StoredEvent]:
    """The events beside those of orders, each checked against its description."""
    async with scene.database.connection() as connection:
        events = await stored_events(connection, subject_id)
    found = [event for event in events if not event.event_type.startswith("order.")]
    for event in found:
        msgspec.json.decode(event.payload, type=WebhookEvent)
        assert next(iter(event.content["data"])) == event.event_type.partition(".")[0]
    return found


def data(event: StoredEvent) -> dict[str, Any]:
    """The subject of the event."""
    own: dict[str, Any] = event.content["data"][event.event_type.partition(".")[0]]
    return own


async def test_allocations_and_replaced_certificates(populated_db: Database, settings: Settings, world: World) -> None:
    clock = ManualClock(MARCH)
    shop = Shop(Services(populated_db, settings, clock), world, clock, Mode.LIVE)
    await shop.sell("mix", {"A": 1, "B": 1})
    lot = await shop.supply("A", 2020, 20)
    await shop.supply("A", 2021, 20)
    await shop.supply("B", 2020, 20)
    scope = world.ours_live.scope
    before = await shop.buy(scope, 2 * TONNE, "mix")
    await shop.work()
    assert await optional_events(shop) == [], "nobody has named the types"
    webhook_id = await subscribe(shop, scope)

    order = await shop.buy(scope, 4 * TONNE, "mix")
    shop.clock.advance(minutes=1)
    await shop.work()
    new = await optional_events(shop, order.id)
    assert [event.event_type for event in new] == ["allocation.new"] * 2
    assert {(data(event)["quantity"], data(event)["status"], data(event)["order_id"]) for event in new} == {
        ("2", "new", order.id)
    }
    shown = await shop.shown(order)
    assert [event.content["data"]["order"] for event in new] == [shown] * 2
    assert {data(event)["project_id"] for event in new} == {each["project_id"] for each in shown["projects"]}

    shop.clock.advance(hours=1)
    await shop.confirm(*(task for task in await shop.work_list() if task.registry_project_id == "A"))
    await shop.work()
    await shop.work()
    [retired] = (await optional_events(shop, order.id))[2:]
    first = next(event for event in new if data(event)["id"] == data(retired)["id"])
    assert data(retired) == {**data(first), "status": "retired"}
    assert retired.content["data"]["order"]["status"] == "retiring"
    await shop.confirm(*await shop.work_list())
    await shop.work()
    assert await shop.statuses(order, before) == ["complete", "complete"]
    assert [event.event_type for event in await optional_events(shop, order.id)][3:] == ["allocation.retired"]
    # Allocated before anybody asked: only what happens from then on is reported.
    assert {event.event_type for event in await optional_events(shop, before.id)} == {"allocation.retired"}

    async with shop.database.transaction() as tx:
        name = Beneficiary("Fjord Bakery AS", BeneficiaryKind.ORGANISATION)
        await rename_order(
            tx, scope, order.id, name, reason="Misspelt.", settings=shop.settings, by=TESTER.at(shop.clock())
        )
    [replaced] = (await optional_events(shop, order.id))[4:]
    states = dict(await shop.certificate_states(order))
    assert {states[data(replaced)[name]] for name in ("number", "replaces")} == {"valid", "replaced"}
    assert replaced.content["data"]["order"]["beneficiary"] == {"name": "Fjord Bakery AS"}

    # A lot turns out to be invalid: the same project supplies other credits.
    await shop.invalidate(lot, "Issued twice.")
    await resolve(shop, lot, Decision.RESUPPLY, order)
    await shop.work()
    await shop.confirm(*await shop.work_list())
    await shop.work()
    types = [event.event_type for event in (await optional_events(shop, order.id))[5:]]
    assert types == ["allocation.new", "allocation.retired", "certificate.replaced"]
    await shop.check_invariants()

    async with shop.database.transaction() as tx:
        await remove_webhook(tx, scope, webhook_id, by=TESTER.at(shop.clock()))
    count = len(await optional_events(shop))
    await shop.buy(scope, TONNE, "mix")
    await shop.work()
    assert len(await optional_events(shop)) == count


async def test_invoices(populated_db: Database, settings: Settings, world: World) -> None:
    clock = ManualClock(MARCH)
    billing = Billing(Services(populated_db, settings, clock), clock)
    scope = world.ours_live.scope
    await billing.add_admins(scope.organisation_id, ADA)
    await billing.renew_rates()
    await subscribe(billing, scope)
    paid, unpaid = [await billing.place_order(scope) for _ in range(2)]
    await billing.work()
    await billing.settle(paid)
    clock.turn_to(5, 20)
    await billing.work()
    clock.turn_to(6, 20)
    await billing.work()
    first = await optional_events(billing, paid.id)
    assert [event.event_type for event in first] == ["invoice.issued", "invoice.paid"]
    assert [data(event)["order_ids"] for event in first] == [[paid.id]] * 2
    assert (data(first[1])["status"], first[1].content["data"]["order"]["status"]) == ("paid", "paid")
    second = await optional_events(billing, unpaid.id)
    assert [event.event_type for event in second] == ["invoice.issued", "invoice.overdue", "invoice.cancelled"]
    assert [data(event)["status"] for event in second] == ["open", "open", "cancelled"]
    assert (data(second[2])["amount_due"], second[2].content["data"]["order"]["status"]) == ("0.00", "cancelled")

    # One invoice for two accounts of the organisation, and one order of it is cancelled.
    client = replace(scope, account_id=world.ours_live.client_account_id)
    await billing.renew_rates()
    for account in (scope, client):
        await billing.set_billing(account, billing=BillingMode.MONTHLY)
    orders: list[Order] = [await billing.place_order(account) for account in (scope, scope, client)]
    await billing.work()
    clock.turn_to(7, 2)
    await billing.work()
    invoice = await billing.invoice(orders[0])
    issued = await optional_events(billing, invoice.id)
    assert [(event.account_id, sorted(data(event)["order_ids"])) for event in issued] == sorted(
        [(scope.account_id, sorted([orders[0].id, orders[1].id])), (client.account_id, [orders[2].id])]
    )
    assert all(data(event)["order_count"] == 3 and "order" not in event.content["data"] for event in issued)
    await billing.cancel(orders[1])
    credited = (await optional_events(billing, invoice.id))[2:]
    assert [event.event_type for event in credited] == ["invoice.credited"] * 2
    assert float(data(credited[0])["amount_due"]) < float(data(credited[0])["total"])
    await billing.check_invariants()


async def test_refunds_and_what_rolls_back(services: Services, world: World) -> None:
    scene = RefundScene(services, world.ours_test)
    scope = world.ours_test.scope
    order = await scene.paid()
    await scene.refund(order, 100)
    assert await optional_events(scene) == []
    await subscribe(scene, scope, ["refund.requested", "refund.succeeded"])
    await scene.send()
    await scene.refund(order, 200)
    await scene.send()
    events = await optional_events(scene, order.id)
    assert [event.event_type for event in events] == ["refund.succeeded", "refund.requested", "refund.succeeded"]
    assert [data(event)["amount"] for event in events] == ["1.00", "2.00", "2.00"]
    assert [event.content["data"]["order"]["refunded_amount"] for event in events] == ["1.00", "1.00", "3.00"]

    event = OptionalEvent("refund.succeeded", order.id, b"{}", order.id)
    async with scene.database.transaction() as tx:
        assert await record_optional(tx, [(scope, event)], scene.clock())
        savepoint = tx.transaction()
        await savepoint.start()
        await record_optional(tx, [(scope, event)] * 3, scene.clock())
        await savepoint.rollback()
        others = msgspec.structs.replace(event, event_type="refund.failed")
        assert not await record_optional(tx, [(scope, others), (world.theirs_test.scope, event)], scene.clock())
    async with scene.database.connection() as connection:
        stored = await stored_events(connection, order.id)
    assert [each.event_type for each in stored].count("refund.succeeded") == 3
    assert await scene.fetch("SELECT FROM pending_events") == []
    await scene.check_invariants()
