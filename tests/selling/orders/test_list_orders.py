"""Pages of orders: newest first, nothing skipped or repeated while orders arrive."""

from typing import Any
from urllib.parse import urlencode

import pytest

from tests.support.api_client import ApiClient, codes, fields
from tests.support.world import World
from tonne.platform.db.database import Database

LIMIT = "pagination_limit_invalid"
CURSOR = "pagination_cursor_invalid"


async def page(api: ApiClient, **query: str) -> dict[str, Any]:
    answer = await api.get(f"/v1/orders?{urlencode(query)}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    assert list(found) == ["has_more", "next_cursor", "data"]
    assert (found["next_cursor"] is None) is (found["has_more"] is False)
    return found


async def test_an_account_without_orders_has_one_empty_page(api: ApiClient) -> None:
    assert await page(api) == {"has_more": False, "next_cursor": None, "data": []}


async def test_a_page_has_ten_orders_by_default(api: ApiClient) -> None:
    placed = [await api.order() for _ in range(11)]
    first = await page(api)
    assert first["data"] == placed[:0:-1]
    last = await page(api, after=first["next_cursor"])
    assert last == {"has_more": False, "next_cursor": None, "data": placed[:1]}


async def test_a_full_last_page_has_no_page_after_it(api: ApiClient) -> None:
    placed = [await api.order() for _ in range(2)]
    assert (await page(api, limit="2"))["has_more"] is False
    assert (await page(api, limit="100"))["data"] == placed[::-1]
    assert (await page(api, limit="02"))["data"] == placed[::-1]


@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_paging_while_orders_arrive_skips_and_repeats_nothing(limit: int, api: ApiClient) -> None:
    placed = [(await api.order())["id"] for _ in range(7)]
    seen: list[str] = []
    query = {"limit": str(limit)}
    while True:
        found = await page(api, **query)
        seen += [order["id"] for order in found["data"]]
        await api.order()
        if not found["has_more"]:
            break
        assert len(found["data"]) == limit
        query["after"] = found["next_cursor"]
    assert seen == placed[::-1]


async def test_orders_of_the_same_millisecond_are_paged_one_by_one(api: ApiClient, populated_db: Database) -> None:
    placed = sorted([(await api.order())["id"] for _ in range(6)], reverse=True)
    async with populated_db.connection() as connection:
        await connection.execute(
            """
            UPDATE orders SET created_at = '2026-11-15T10:00:00.123Z', wire_document = convert_to(regexp_replace(
                convert_from(wire_document, 'UTF8'), '"created_at":"[^"]*"', '"created_at":"2026-11-15T10:00:00.123Z"'
            ), 'UTF8')
            """
        )
    seen: list[str] = []
    after: dict[str, str] = {}
    while not seen or after:
        found = await page(api, limit="1", **after)
        seen += [order["id"] for order in found["data"]]
        after = {"after": found["next_cursor"]} if found["has_more"] else {}
    assert seen == placed


async def test_the_limit_may_change_from_page_to_page(api: ApiClient) -> None:
    placed = [(await api.order())["id"] for _ in range(6)]
    first = await page(api, limit="1")
    second = await page(api, limit="3", after=first["next_cursor"])
    third = await page(api, limit="100", after=second["next_cursor"])
    listed = [order["id"] for part in (first, second, third) for order in part["data"]]
    assert listed == placed[::-1]


async def test_only_an_offset_links_orders_are_listed_when_asked_for(api: ApiClient, populated_db: Database) -> None:
    placed = [(await api.order())["id"] for _ in range(6)]
    async with populated_db.connection() as connection:
        await connection.execute("UPDATE orders SET offset_link_id = 'lnk_a' WHERE id = ANY($1)", placed[::2])
        await connection.execute("UPDATE orders SET offset_link_id = 'lnk_b' WHERE id = $1", placed[1])
    first = await page(api, limit="2", offset_link_id="lnk_a")
    rest = await page(api, limit="2", offset_link_id="lnk_a", after=first["next_cursor"])
    assert [order["id"] for order in first["data"] + rest["data"]] == [placed[4], placed[2], placed[0]]
    assert [order["id"] for order in (await page(api, offset_link_id="lnk_b"))["data"]] == [placed[1]]
    for unknown in ("lnk_c", "", "LNK_A", "%"):
        assert (await page(api, offset_link_id=unknown))["data"] == []


async def test_only_the_accounts_own_orders_are_listed(api: ApiClient, world: World) -> None:
    mine = await api.order()
    assert (await page(api))["data"] == [mine]
    for tenant in (world.theirs_test, world.ours_live):
        assert (await page(api.as_key(tenant.key)))["data"] == []
    answer = await api.get("/v1/orders", Service_Account=world.ours_test.client_account_id)
    assert answer.json()["data"] == []


@pytest.mark.parametrize("path", ["/v1/orders", "/v1/bundles", "/v1/projects"])
async def test_a_limit_outside_1_to_100_or_not_in_digits_is_refused(path: str, api: ApiClient) -> None:
    for limit in ("0", "101", "1.5", "٣", "", "1e1", "+1", "%2B1", "-1", "%20 1", "abc", "1" * 40, "0x1", "１", "%00"):
        answer = await api.get(f"{path}?limit={limit}")
        assert (answer.status_code, codes(answer), fields(answer)) == (400, [LIMIT], ["limit"]), limit
    assert (await api.get(f"{path}?limit=100")).status_code == 200


async def test_a_parameter_twice_or_not_in_utf_8_is_refused(api: ApiClient) -> None:
    for query in ("limit=1&limit=1", "limit=1&limit=2", "after=x&after=x", "offset_link_id=a&offset_link_id=b"):
        answer = await api.get(f"/v1/orders?{query}")
        assert (answer.status_code, codes(answer)) == (400, ["validation_error"]), query
        assert fields(answer) == [query.partition("=")[0]]
    for query in ("offset_link_id=%FF", "offset_link_id=%ED%A0%80", "offset_link_id=a%00"):
        answer = await api.get(f"/v1/orders?{query}")
        assert (answer.status_code, codes(answer)) == (400, ["validation_error"]), query


async def test_an_unknown_parameter_is_refused_once(api: ApiClient) -> None:
    answer = await api.get("/v1/orders?colour=green&colour=blue&limit=5")
    assert answer.status_code == 400
    assert [fault["field"] for fault in answer.json()["errors"]] == ["colour"]


async def test_a_mangled_cursor_is_refused(api: ApiClient) -> None:
    for _ in range(2):
        await api.order()
    cursor = (await page(api, limit="1"))["next_cursor"]
    mangled = ["", "x", "null", cursor[:-1], cursor[:20], cursor[1:], cursor.lower(), cursor + "A", cursor + "QQ"]
    mangled += [cursor + "=", f" {cursor}", cursor + "%00", "٣" + cursor, "A" * 5000]
    # Any single letter changed: a cursor that still reads as one must not point to another place in the list.
    mangled += [cursor[:i] + ("A" if cursor[i] != "A" else "B") + cursor[i + 1 :] for i in range(len(cursor))]
    for text in mangled:
        answer = await api.get(f"/v1/orders?after={text}")
        assert (answer.status_code, codes(answer), fields(answer)) == (400, [CURSOR], ["after"]), text


async def test_a_cursor_is_valid_for_its_own_list_only(api: ApiClient, world: World) -> None:
    clients = {
        "ours": api,
        "theirs": api.as_key(world.theirs_test.key),
        "live": api.as_key(world.ours_live.key),
    }
    cursors: dict[str, str] = {}
    for name, client in clients.items():
        for _ in range(2):
            await client.order()
        cursors[name] = (await page(client, limit="1"))["next_cursor"]
    for reader, client in clients.items():
        for owner, cursor in cursors.items():
            answer = await client.get(f"/v1/orders?after={cursor}")
            if reader == owner:
                assert len(answer.json()["data"]) == 1
            else:
                assert (answer.status_code, codes(answer), fields(answer)) == (400, [CURSOR], ["after"])
    acting = await api.get(f"/v1/orders?after={cursors['ours']}", Service_Account=world.ours_test.client_account_id)
    assert codes(acting) == [CURSOR]


async def test_a_cursor_with_another_filter_or_of_another_list_is_refused(api: ApiClient) -> None:
    for _ in range(2):
        await api.order()
    cursor = (await page(api, limit="1"))["next_cursor"]
    of_bundles = (await api.get("/v1/bundles?limit=1")).json()["next_cursor"]
    for query in (f"after={cursor}&offset_link_id=lnk_a", f"after={cursor}&offset_link_id=", f"after={of_bundles}"):
        answer = await api.get(f"/v1/orders?{query}")
        assert (answer.status_code, codes(answer)) == (400, [CURSOR]), query
    for path in ("/v1/bundles", "/v1/projects"):
        assert codes(await api.get(f"{path}?after={cursor}")) == [CURSOR]
