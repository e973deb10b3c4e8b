"""`ETag` and 304: a client that polls orders gets them again only when something has changed."""

from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import httpx
import pytest
from msgspec.structs import replace

from tests.support.api_client import ApiClient, codes
from tests.support.world import TESTER, World
from tonne.apps.wiring.app import Services
from tonne.platform.db.database import Connection
from tonne.platform.values.context import utc_now
from tonne.selling.accounts.keys.api_keys import issue_key
from tonne.selling.accounts.keys.restrictions import KeyRestrictions
from tonne.selling.orders.correct_email import correct_email
from tonne.selling.orders.load import load_orders
from tonne.selling.orders.model import HoldReason, Order, OrderKey
from tonne.selling.orders.move_order import BilledShare, rewrite_documents, show_billed, show_payment
from tonne.selling.orders.read_store import READ_VERSIONS
from tonne.selling.orders.rewrite_urls import rewrite_urls_any_account

KEY = "a key"


def paths(order: dict[str, Any]) -> list[str]:
    return [
        f"/v1/orders/{order['id']}",
        "/v1/orders/by-idempotency-key/a%20key",
        "/v1/orders",
        "/v1/orders?limit=1",
        "/v1/orders?status=placed",
    ]


async def ask(api: ApiClient, path: str, tag: str | None = None, **headers: str) -> httpx.Response:
    return await api.get(path, **headers, **({} if tag is None else {"If_None_Match": tag}))


async def test_an_unchanged_answer_is_a_304_that_reads_no_order(services: Services, api: ApiClient) -> None:
    order = await api.order(idempotency_key=KEY)
    statements: list[str] = []
    tags = set()

    def note(record: asyncpg.connection.LoggedQuery) -> None:
        statements.append(record.query)

    for path in paths(order):
        first = await ask(api, path)
        assert first.status_code == 200
        assert first.headers["cache-control"] == "private, no-cache"
        assert first.headers["vary"] == "Authorization, Service-Account"
        tags.add(first.headers["etag"])
        idle = list(services.database._idle)
        for connection in idle:
            connection.add_query_logger(note)
        second = await ask(api, path, first.headers["etag"])
        for connection in idle:
            connection.remove_query_logger(note)
        assert (second.status_code, second.content) == (304, b"")
        for name in ("etag", "cache-control", "vary"):
            assert second.headers[name] == first.headers[name]
        assert not {"content-length", "content-type"} & second.headers.keys()
    assert len(tags) == len(paths(order)), "a tag covers the address"
    assert [each for each in statements if "orders" in each] == []
    assert statements.count(READ_VERSIONS) == len(paths(order))


async def test_tags_are_compared_weakly_with_each_of_a_list(api: ApiClient) -> None:
    await api.order()
    tag = (await ask(api, "/v1/orders")).headers["etag"]
    assert tag.startswith('W/"')
    for known in (tag, tag.removeprefix("W/"), f'"other", {tag}, W/"another"'):
        assert (await ask(api, "/v1/orders", known)).status_code == 304
    for known in ('"other"', tag[:-2] + '"', ""):
        assert (await ask(api, "/v1/orders", known)).status_code == 200


Change = Callable[[Connection, Order], Awaitable[object]]


async def _email(tx: Connection, order: Order) -> None:
    await correct_email(tx, order, "new@example.com")


async def _taxes(tx: Connection, order: Order) -> None:
    await show_billed(tx, [BilledShare(order.key, order.currency, -1, 100, 900)], order.created_at)


async def _rewritten(tx: Connection, order: Order) -> None:
    await rewrite_documents(tx, [replace(order, hold_reason=HoldReason.CREDIT_LIMIT_REACHED)])


async def _urls(tx: Connection, _: Order) -> None:
    urls = ("http://tonne.test", "https://new.example.com")
    assert await rewrite_urls_any_account(tx, *urls, is_dry_run=False, by=TESTER.now()) == 1


async def _payment(tx: Connection, order: Order) -> None:
    await show_payment(tx, replace(order, refunded_minor=1), utc_now())


@pytest.mark.parametrize("change", [_email, _taxes, _rewritten, _urls, _payment])
async def test_a_change_with_or_without_an_event_makes_all_tags_of_the_organisation_new(
    services: Services, api: ApiClient, world: World, change: Change
) -> None:
    theirs = api.as_key(world.theirs_test.key)
    order = await api.order(idempotency_key=KEY)
    before = {path: (await ask(api, path)).headers["etag"] for path in paths(order)}
    of_theirs = (await ask(theirs, "/v1/orders")).headers["etag"]

    key = OrderKey(world.ours_test.scope.account_id, order["id"])
    async with services.database.connection() as connection:
        undone = connection.transaction()
        await undone.start()
        await change(connection, *await load_orders(connection, [key]))
        await undone.rollback()
    assert {(await ask(api, path, before[path])).status_code for path in before} == {304}
    async with services.database.transaction() as tx:
        await change(tx, *await load_orders(tx, [key]))
    for path, tag in before.items():
        after = await ask(api, path, tag)
        assert (after.status_code, after.headers["etag"] != tag) == (200, True), path
        assert (await ask(api, path, after.headers["etag"])).status_code == 304
    assert (await ask(theirs, "/v1/orders", of_theirs)).status_code == 304


async def test_a_new_order_makes_the_tag_new(api: ApiClient) -> None:
    tags = []
    for _ in range(3):
        tags.append((await ask(api, "/v1/orders")).headers["etag"])
        assert (await ask(api, "/v1/orders", tags[-1])).status_code == 304
        await api.order()
    assert len(set(tags)) == 3
    assert (await ask(api, "/v1/orders", ", ".join(tags))).status_code == 200


async def test_a_tag_covers_the_account_the_mode_and_what_the_key_may_do(
    services: Services, api: ApiClient, world: World
) -> None:
    await api.order()
    scope = world.ours_test.scope
    async with services.database.transaction() as tx:
        (_, reading), (_, blind) = [
            await issue_key(tx, scope, "key", restrictions=KeyRestrictions((name,)), by=TESTER.now())
            for name in ("orders:read", "estimates:read")
        ]
    tags = [
        (await ask(api, "/v1/orders")).headers["etag"],
        (await ask(api, "/v1/orders", Service_Account=world.ours_test.client_account_id)).headers["etag"],
        (await ask(api.as_key(world.ours_live.key), "/v1/orders")).headers["etag"],
        (await ask(api.as_key(world.theirs_test.key), "/v1/orders")).headers["etag"],
        (await ask(api.as_key(reading), "/v1/orders")).headers["etag"],
    ]
    assert len(set(tags)) == len(tags)
    assert (await ask(api, "/v1/orders", ", ".join(tags[1:]))).status_code == 200
    refused = await ask(api.as_key(blind), "/v1/orders", ", ".join(tags))
    assert (refused.status_code, codes(refused)) == (403, ["key_permission_missing"])
    assert "etag" not in refused.headers
