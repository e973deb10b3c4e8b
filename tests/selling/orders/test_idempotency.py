"""An idempotency key places one order, however often and by whichever endpoint it is repeated."""

import asyncio
from typing import Any
from urllib.parse import quote

import pytest

from tests.platform.http.writes import CREATES, ORDERS, count_orders, count_rows, valid_bodies
from tests.support.api_client import ApiClient, codes, fields
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.db.database import Database
from tonne.platform.values.context import utc_now
from tonne.selling.orders.load import load_order
from tonne.selling.orders.model import OrderStatus
from tonne.selling.orders.move_order import move_order

ONE_TONNE: dict[str, Any] = {"mass": {"amount": "1", "unit": "t"}}


async def test_a_repeat_returns_the_original_and_is_marked_as_replayed(api: ApiClient, populated_db: Database) -> None:
    bodies = await valid_bodies(api)
    for path in CREATES:
        body = bodies[path] | {"idempotency_key": f"key of {path}", "metadata": {"a": 1}}
        first = await api.post(path, body)
        assert first.status_code == 201
        assert "idempotent-replayed" not in first.headers
        before = await count_rows(populated_db)
        second = await api.post(path, body)
        assert (second.status_code, second.content) == (200, first.content)
        assert second.headers["idempotent-replayed"] == "true"
        assert "idempotency-mismatch" not in second.headers
        assert await count_rows(populated_db) == before


async def test_a_repeat_with_its_members_in_another_order_is_the_same_request(api: ApiClient) -> None:
    await api.post_raw("/v1/orders/by-mass", b'{"idempotency_key":"k","mass":{"amount":"1","unit":"t"}}')
    again = await api.post_raw(
        "/v1/orders/by-mass", b'{"mass" : {"unit":"t", "amount":"1"}, "idempotency_key":"\\u006b"}'
    )
    assert again.status_code == 200
    assert "idempotency-mismatch" not in again.headers


@pytest.mark.parametrize(
    "other",
    [
        {"mass": {"amount": "2", "unit": "t"}},
        {"metadata": {"n": "1"}},
        {"metadata": None},
        {"bundle_selection": []},
        {"nonsense": True},
        {"mass": {"amount": "many"}},
    ],
)
async def test_a_repeat_with_another_request_returns_the_original_and_is_marked_as_mismatch(
    other: dict[str, Any], api: ApiClient, populated_db: Database
) -> None:
    """A used key is replayed even if the rest of the body is invalid."""
    body = ONE_TONNE | {"idempotency_key": "k", "metadata": {"n": 1}}
    first = await api.post("/v1/orders/by-mass", body)
    second = await api.post("/v1/orders/by-mass", body | other)
    assert (second.status_code, second.content) == (200, first.content)
    assert second.headers["idempotent-replayed"] == "true"
    assert second.headers["idempotency-mismatch"] == "true"
    assert await count_orders(populated_db) == 1


async def test_a_key_is_shared_by_all_order_endpoints(api: ApiClient, populated_db: Database) -> None:
    first = await api.post("/v1/orders/by-mass", ONE_TONNE | {"idempotency_key": "k"})
    for path in ORDERS:
        answer = await api.post(path, {"idempotency_key": "k"})
        assert (answer.status_code, answer.content) == (200, first.content), path
        assert answer.headers["idempotency-mismatch"] == "true"
    assert await count_orders(populated_db) == 1


async def test_orders_and_estimates_have_keys_of_their_own(api: ApiClient) -> None:
    for path in ("/v1/orders/by-mass", "/v1/estimates"):
        assert (await api.post(path, ONE_TONNE | {"idempotency_key": "k"})).status_code == 201


async def test_a_key_belongs_to_its_account(api: ApiClient, world: World) -> None:
    body = ONE_TONNE | {"idempotency_key": "k"}
    ids = {(await api.post("/v1/orders/by-mass", body)).json()["id"]}
    client = world.ours_test.client_account_id
    ids.add((await api.post("/v1/orders/by-mass", body, Service_Account=client)).json()["id"])
    for tenant in (world.theirs_test, world.ours_live):
        answer = await api.as_key(tenant.key).post("/v1/orders/by-mass", body)
        assert answer.status_code == 201
        ids.add(answer.json()["id"])
    assert len(ids) == 4


async def test_a_repeat_shows_the_order_as_it_is_now(api: ApiClient, world: World, populated_db: Database) -> None:
    first = await api.order(idempotency_key="k")
    async with populated_db.transaction() as tx:
        order = await load_order(tx, world.ours_test.scope, first["id"])
        assert order is not None
        await move_order(tx, order, OrderStatus.CANCELLED, utc_now())
    second = await api.post("/v1/orders/by-mass", ONE_TONNE | {"idempotency_key": "k"})
    assert second.status_code == 200
    assert second.json() == first | {"status": "cancelled"}
    assert (await api.by_key("k")).content == second.content


async def test_without_a_key_one_is_generated_and_every_request_places_an_order(
    api: ApiClient, populated_db: Database
) -> None:
    bodies = await valid_bodies(api)
    for path in CREATES:
        keys = [(await api.post(path, bodies[path])).json()["idempotency_key"] for _ in range(3)]
        assert len(set(keys)) == 3
        assert all(keys)
        again = await api.post(path, bodies[path] | {"idempotency_key": keys[0]})
        assert (again.status_code, again.headers["idempotent-replayed"]) == (200, "true")
    assert await count_orders(populated_db) == 9


async def test_a_second_order_on_one_estimate_is_allowed(api: ApiClient, populated_db: Database) -> None:
    estimate_id = await api.estimate()
    for key in ("one", "two"):
        answer = await api.post("/v1/orders/by-estimate", {"estimate_id": estimate_id, "idempotency_key": key})
        assert answer.status_code == 201
        assert answer.json()["estimate_id"] == estimate_id
    assert await count_orders(populated_db) == 2


KEYS = [
    "k",
    "a/b",
    "/",
    "//",
    "/leading",
    "trailing/",
    "a//b",
    "a/./b",
    "a/../b",
    "...",
    "50%",
    "%2F",
    "%00",
    "a?b=c&d",
    "a#b",
    "a b",
    " padded ",
    "a+b",
    "a;b,c:d@e",
    'quote"back\\slash',
    "naïve ключ 鍵",
    "🌍",
    "👩‍👩‍👧‍👦 family",
    "e\u0301",
    "\u00a0",
    "<script>alert(1)</script>",
    "'; DROP TABLE orders; --",
    "quote",
    "by-idempotency-key/by-idempotency-key/",
    "/v1/orders/by-idempotency-key/x",
    "null",
    "x" * 255,
    "🌍" * 255,
]


async def test_every_printable_key_can_be_read_back_by_its_address(api: ApiClient, populated_db: Database) -> None:
    for key in KEYS:
        answer = await api.post("/v1/orders/by-mass", ONE_TONNE | {"idempotency_key": key})
        assert answer.status_code == 201, key
        assert answer.json()["idempotency_key"] == key
        found = await api.by_key(key)
        assert (found.status_code, found.content) == (200, answer.content), key
    assert await count_orders(populated_db) == len(KEYS)


async def test_a_slash_or_plus_in_the_address_may_be_unencoded(api: ApiClient) -> None:
    for key in ("a/b", "trailing/", "a//b", "c+d", "e:f@g"):
        order = await api.order(idempotency_key=key)
        found = await api.get(f"/v1/orders/by-idempotency-key/{quote(key, safe='/+:@')}")
        assert found.status_code == 200, key
        assert found.json()["id"] == order["id"]


async def test_keys_that_differ_in_anything_are_different_keys(api: ApiClient, populated_db: Database) -> None:
    keys = ["key", "Key", "key ", "key/", "ke\u0301", "k\u00e9", "ké ", "%6Bey"]
    ids = {(await api.order(idempotency_key=key))["id"] for key in keys}
    assert len(ids) == len(keys) == await count_orders(populated_db)
    for near in ("key//", "KEY", "", "ke"):
        answer = await api.by_key(near)
        assert answer.status_code == 404, near


@pytest.mark.parametrize(
    "key",
    ["", "x" * 256, "🌍" * 256, ".", "..", "a\tb", "a\nb", "\x7f", "\x85", "\u2028", 5, True, ["k"], {"k": "k"}],
    ids=repr,
)
async def test_an_invalid_key_is_refused(key: Any, api: ApiClient, populated_db: Database) -> None:
    bodies = await valid_bodies(api)
    before = await count_rows(populated_db)
    for path in CREATES:
        answer = await api.post(path, bodies[path] | {"idempotency_key": key})
        expected = (400, ["validation_error"], ["idempotency_key"])
        assert (answer.status_code, codes(answer), fields(answer)) == expected, path
    assert await count_rows(populated_db) == before


async def test_reading_an_unknown_or_invalid_key_returns_404(api: ApiClient) -> None:
    await api.order(idempotency_key="k")
    prefix = "/v1/orders/by-idempotency-key/"
    for tail in ("unknown", "K", "k%00", "%00", "%ED%A0%80", "%FF", "%", "%zz", "x" * 2000, "k/", "k%2F"):
        answer = await api.get(prefix + tail)
        assert (answer.status_code, codes(answer)) == (404, ["order_not_found"]), tail


async def test_many_requests_at_once_with_one_key_make_one_order(services: Services, api: ApiClient) -> None:
    body = ONE_TONNE | {"idempotency_key": "k"}
    answers = await asyncio.gather(*(api.post("/v1/orders/by-mass", body) for _ in range(40)))
    assert sorted(answer.status_code for answer in answers) == [200] * 39 + [201]
    assert len({answer.content for answer in answers}) == 1
    assert await count_orders(services.database) == 1


async def test_interface_6_an_estimate_may_be_ordered_again_and_its_id_as_key_prevents_that(api: ApiClient) -> None:
    estimate_id = await api.estimate()
    body = {"estimate_id": estimate_id}
    twice = [await api.post("/v1/orders/by-estimate", body) for _ in range(2)]
    assert [answer.status_code for answer in twice] == [201, 201]
    assert twice[0].json()["id"] != twice[1].json()["id"]
    once = [await api.post("/v1/orders/by-estimate", body | {"idempotency_key": estimate_id}) for _ in range(2)]
    assert [answer.status_code for answer in once] == [201, 200]
    assert once[0].json()["id"] == once[1].json()["id"]
