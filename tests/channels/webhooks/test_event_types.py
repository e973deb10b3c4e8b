"""Filters by event type: order, cursor, parked accounts, and what the API says about them."""

from tests.channels.webhooks.stage import Stage
from tests.channels.webhooks.test_endpoints import URL, put, register
from tests.support.api_client import ApiClient, codes, fields
from tests.support.receivers import Receiver, receiving, reply
from tests.support.tls import Authority
from tests.support.world import World
from tonne.channels.webhooks.model import STATUS_TYPES, EventType, delivered_types, in_order
from tonne.platform.events.payload import message_id

MIXED = (
    *("order.received", "refund.requested", "order.placed", "order.payment_updated", "allocation.new"),
    *("certificate.replaced", "order.paid", "refund.succeeded"),
)

NAMED = ("order.placed", "refund.requested", "refund.succeeded")
# The types of events about an order as a whole.
ORDER_TYPES = (*STATUS_TYPES, "order.payment_updated", "order.person_erased")


def test_without_types_a_webhook_gets_the_seven_of_the_interface() -> None:
    assert delivered_types(()) == STATUS_TYPES
    assert sorted(STATUS_TYPES) == sorted(
        f"order.{each}" for each in ("received", "placed", "paid", "retiring", "cancelled", "failed", "completed")
    )
    assert in_order(["refund.failed", "order.paid", "refund.failed"]) == ("order.paid", "refund.failed")


async def test_each_webhook_gets_its_types_in_order_and_its_cursor_passes_the_others(
    stage: Stage, receiver: Receiver, authority: Authority
) -> None:
    async with receiving(authority.context()) as named, receiving(authority.context()) as silent:
        hooks = [
            await stage.register(receiver.url),
            await stage.register(named.url, event_types=NAMED, standard_webhooks=True),
            await stage.register(silent.url, event_types=["invoice.paid"]),
            # Filtered by account, too: another way of reading.
            await stage.register(named.url, stage.two, event_types=["allocation.new"]),
        ]
        of_orders = await stage.register(receiver.url, event_types=ORDER_TYPES)
        for _ in range(3):
            ids = await stage.emit_types(stage.one, *MIXED)
            await stage.deliver()
        await stage.emit_types(stage.two, *MIXED)
        # Nothing but types that the first webhook does not get.
        await stage.emit_types(stage.one, *["refund.failed"] * 150)
        await stage.deliver()
        for hook, expected in zip(
            hooks, (STATUS_TYPES, ["order.placed", "refund.requested", "refund.succeeded"]), strict=False
        ):
            sent = await stage.fetch(
                "SELECT event.event_type, event.position FROM webhook_attempts attempt, unnest(attempt.positions) "
                "WITH ORDINALITY AS sent (position, n) JOIN events event USING (position) "
                "WHERE webhook_id = $1 AND event.mode = 'test' ORDER BY attempt.at, attempt.id, n",
                hook.id,
            )
            assert [row["event_type"] for row in sent] == [each for each in MIXED if each in expected] * 4
            assert [row["position"] for row in sent] == sorted(row["position"] for row in sent)
        assert silent.deliveries == []
        accounts = [(event["event_type"], event["account_id"]) for event in named.events]
        assert accounts.count(("allocation.new", stage.two.account_id)) == 1
        assert ("allocation.new", stage.one.account_id) not in accounts
        first = next(each for each in named.deliveries if ids[1] in each.event_ids)
        assert first.headers["webhook-id"] == message_id(first.event_ids)
        last = await stage.fetchval("SELECT max(last_position) FROM event_streams")
        assert [(await stage.row(hook))["cursor_position"] for hook in hooks] == [last] * 4
        assert len(await stage.attempts(hooks[0])) == 4
        kept = [len(attempt["positions"]) for attempt in await stage.attempts(of_orders)]
        assert kept == [4] * 4, "the nine types about an order"


async def test_a_parked_account_waits_with_its_own_types_only(stage: Stage, api: ApiClient, receiver: Receiver) -> None:
    hook = await stage.register(receiver.url, event_types=["order.placed", "refund.failed", "order.paid"])
    receiver.rule = lambda delivery: reply(422 if stage.one.account_id in delivery.account_ids else 200)
    await stage.emit_types(stage.one, "order.received", "refund.failed", "order.placed", "order.paid")
    await stage.emit_types(stage.two, "order.received", "order.placed")
    async with stage.working():
        await stage.until(lambda: stage.parked(hook))
        await stage.until(lambda: stage.fetchval("SELECT cursor_position = 6 FROM webhooks WHERE id = $1", hook.id))
    # The refused event, and no other, is of a type that is not wanted any more.
    changed = await api.http.put(
        f"/v1/webhooks/{hook.id}", json={"event_types": ["order.placed", "order.paid"]}, headers=api._headers({})
    )
    assert changed.json()["delivery"]["parked"][0]["event_type"] == "order.placed"
    receiver.rule = lambda _: reply(200)
    receiver.deliveries.clear()
    await stage.deliver()
    assert [event["event_type"] for event in receiver.events] == ["order.placed", "order.paid"]
    skips = await stage.fetch("SELECT position FROM webhook_skips WHERE webhook_id = $1", hook.id)
    assert [row["position"] for row in skips] == [2]


async def test_types_are_validated_changed_and_shown(api: ApiClient, world: World) -> None:
    refused = await api.post("/v1/webhooks", {"url": URL, "event_types": ["order.paid", "order.sold"]})
    assert (refused.status_code, codes(refused), fields(refused)) == (400, ["validation_error"], ["event_types[1]"])
    webhook = await register(api, event_types=["refund.failed", "order.paid", "order.paid"])
    assert webhook["event_types"] == ["order.paid", "refund.failed"]
    unchanged = (await put(api, webhook["id"], {"enabled": False})).json()
    assert unchanged["event_types"] == ["order.paid", "refund.failed"]
    assert (await put(api, webhook["id"], {"event_types": []})).json()["event_types"] == []
    document = (await api.get("/openapi.json")).json()
    assert {each.value for each in EventType} <= set(document["webhooks"])

    one, two = world.ours_test.scope.account_id, world.ours_test.client_account_id
    own = await register(api, account_ids=[two])
    await register(api, account_ids=[one])
    listed = (await api.get(f"/v1/webhooks?account_id={two}")).json()
    assert [item["id"] for item in listed] == [own["id"], webhook["id"]], "also one for all accounts"
    both = (await api.get(f"/v1/webhooks?account_id={one}&account_id={two}")).json()
    assert len(both) == 3
    theirs = (await api.get(f"/v1/webhooks?account_id={world.theirs_test.scope.account_id}")).json()
    assert [item["id"] for item in theirs] == [webhook["id"]]
