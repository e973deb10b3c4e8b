"""The API for offset links."""

import json
import re
from typing import Any

import httpx
import pytest

from tests.channels.checkout.links import LINKS, allow_shops, create, put
from tests.support.api_client import ApiClient, codes, fields
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.channels.checkout.links.signed_query import sign_query
from tonne.channels.checkout.links.store import find_link_any_account
from tonne.platform.db.database import Database
from tonne.platform.values.context import new_secret_id, to_wire, utc_now
from tonne.selling.accounts.redirect_hosts import forbid_host, read_host

MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
DEFAULTS = {
    "message": "",
    "bundle_selection": None,
    "preset_quantity": None,
    "preset_value": None,
    "amount_editable": True,
    "min_quantity": None,
    "max_quantity": None,
    "min_value": None,
    "max_value": None,
    "redirect_url": None,
    "redirect_label": None,
    "enabled": True,
    "expires_at": None,
    "beneficiary": "account",
    "language": None,
}


def settings_of(link: dict[str, Any]) -> dict[str, Any]:
    """The settings of a link, as a client sends them back."""
    return {name: link[name] for name in ("title", *DEFAULTS)}


@pytest.fixture
async def allowed(populated_db: Database, world: World) -> None:
    await allow_shops(populated_db, world)


async def test_only_the_title_is_required(api: ApiClient) -> None:
    before = utc_now()
    link = await create(api)
    assert list(link) == [*("id", "url", "title"), *DEFAULTS, *("currency", "account_type", "created_at")]
    assert settings_of(link) == {"title": "Offset your flight", **DEFAULTS}
    assert re.fullmatch(r"lnk_[a-z0-9]{26}", link["id"])
    assert link["url"] == f"http://tonne.test/offset/{link['id']}"
    assert (link["currency"], link["account_type"]) == ("EUR", "test")
    assert MOMENT.fullmatch(link["created_at"])
    assert link["created_at"] >= to_wire(before)


@pytest.mark.usefixtures("allowed")
async def test_every_setting_is_stored_and_returned(api: ApiClient, world: World, populated_db: Database) -> None:
    wind, forest = list(world.bundles_test.values())[:2]
    settings = {
        "title": "Offset your flight",
        "message": "Two lines,\nof text.",
        "bundle_selection": [{"bundle_id": wind, "percentage": 60}, {"bundle_id": forest, "percentage": "40.00"}],
        "preset_quantity": "1.500000",
        "amount_editable": False,
        "min_quantity": "0.000001",
        "max_quantity": "100000000",
        "min_value": "0.01",
        "max_value": "250",
        "redirect_url": "https://Shop.Example.com/thanks?a=1",
        "redirect_label": "Example Shop",
        "enabled": False,
        "expires_at": "2099-12-31T23:59:59.9999+01:00",
        "beneficiary": "customer",
        "language": "de",
    }
    link = await create(api, **settings)
    assert settings_of(link) == {
        **settings,
        "bundle_selection": [{"bundle_id": wind, "percentage": "60"}, {"bundle_id": forest, "percentage": "40.00"}],
        "preset_quantity": "1.5",
        "preset_value": None,
        "max_value": "250.00",
        "redirect_url": "https://shop.example.com/thanks?a=1",
        "expires_at": "2099-12-31T22:59:59.999Z",
    }
    assert (await api.get(f"{LINKS}/{link['id']}")).json() == link
    assert (await api.get(LINKS)).json() == {"has_more": False, "next_cursor": None, "data": [link]}
    async with populated_db.connection() as connection:
        stored = await find_link_any_account(connection, link["id"])
        assert await find_link_any_account(connection, new_secret_id("lnk")) is None
    assert stored is not None
    assert (stored.scope, stored.preset_quantity_grams, stored.max_value_minor) == (
        world.ours_test.scope,
        1_500_000,
        25_000,
    )


async def test_sending_a_link_back_changes_nothing(api: ApiClient, world: World) -> None:
    bundle = next(iter(world.bundles_test.values()))
    link = await create(api, preset_value="12.50", max_value="20", bundle_selection=[{"bundle_id": bundle}])
    assert link["bundle_selection"] == [{"bundle_id": bundle, "percentage": None}]
    assert (await put(api, link["id"], settings_of(link))).json() == link


async def test_ids_are_random_and_do_not_reveal_the_time(api: ApiClient) -> None:
    ids = [(await create(api))["id"] for _ in range(5)]
    assert len({link_id[:12] for link_id in ids}) == 5


async def test_put_replaces_all_settings(api: ApiClient) -> None:
    link = await create(api, message="Old", preset_quantity="1", amount_editable=False, redirect_label="Old")
    changed = await put(api, link["id"], {"title": "Only this", "min_value": "5"})
    assert changed.status_code == 200
    kept = {name: link[name] for name in ("id", "url", "currency", "account_type", "created_at")}
    assert changed.json() == {**kept, "title": "Only this", **DEFAULTS, "min_value": "5.00"}
    assert (await api.get(f"{LINKS}/{link['id']}")).json() == changed.json()
    refused = await put(api, link["id"], {"enabled": False})
    assert fields(refused) == ["title"], "a title is no setting to leave out"


@pytest.mark.usefixtures("allowed")
async def test_a_link_can_be_disabled_when_its_bundle_or_host_is_no_longer_allowed(
    api: ApiClient, world: World, populated_db: Database
) -> None:
    bundle = next(iter(world.bundles_test.values()))
    url = "https://shop.example.com/thanks"
    link = await create(
        api, bundle_selection=[{"bundle_id": bundle}], redirect_url=url, expires_at="2099-12-31T00:00:00Z"
    )
    async with populated_db.transaction() as tx:
        assert await forbid_host(tx, world.ours_test.scope.organisation_id, read_host("shop.example.com"))
        await tx.execute("UPDATE bundles SET enabled = false WHERE id = $1", bundle)
        await tx.execute("UPDATE catalogues SET version = version + 1")
        await tx.execute("UPDATE offset_links SET expires_at = created_at")
    read = (await api.get(f"{LINKS}/{link['id']}")).json()
    assert read["expires_at"] == link["created_at"]
    off = await put(api, link["id"], {**settings_of(read), "enabled": False})
    assert (off.status_code, off.json()) == (200, {**read, "enabled": False})

    moved = await put(api, link["id"], {**settings_of(read), "redirect_url": f"{url}/2"})
    assert codes(moved) == ["redirect_url_refused"], "another URL is validated"
    shared = [{"bundle_id": bundle, "percentage": 100}]
    assert codes(await put(api, link["id"], {**settings_of(read), "bundle_selection": shared})) == [
        "bundle_selection_bundle_invalid"
    ]


@pytest.mark.usefixtures("allowed")
async def test_redirect_hosts_apply_to_both_modes_of_one_organisation(api: ApiClient, world: World) -> None:
    url = "https://shop.example.com/"
    await create(api, redirect_url=url)
    await create(api.as_key(world.ours_live.key), redirect_url=url, enabled=False)
    refused = await api.as_key(world.theirs_test.key).post(LINKS, {"title": "x", "redirect_url": url})
    assert codes(refused) == ["redirect_url_refused"]


async def test_bundles_of_the_other_mode_are_rejected(api: ApiClient, world: World) -> None:
    live = api.as_key(world.ours_live.key)
    mine, other = ([{"bundle_id": next(iter(b.values()))}] for b in (world.bundles_live, world.bundles_test))
    assert (await create(live, bundle_selection=mine, enabled=False))["account_type"] == "live"
    assert codes(await live.post(LINKS, {"title": "x", "bundle_selection": other})) == [
        "bundle_selection_bundle_invalid"
    ]


async def test_links_of_others_look_unknown(api: ApiClient, world: World) -> None:
    link = await create(api)
    strangers: list[tuple[ApiClient, dict[str, str]]] = [
        (api.as_key(world.theirs_test.key), {}),
        (api.as_key(world.ours_live.key), {}),
        (api, {"Service_Account": world.ours_test.client_account_id}),
    ]
    for stranger, headers in strangers:
        for body in (None, settings_of(link), {}, {"title": "Mine", "preset_quantity": "0"}):
            texts = set()
            for link_id in (link["id"], new_secret_id("lnk")):
                if body is None:
                    answer = await stranger.get(f"{LINKS}/{link_id}", **headers)
                else:
                    answer = await put(stranger, link_id, body, **headers)
                assert (answer.status_code, codes(answer)) == (404, ["offset_link_not_found"])
                texts.add(answer.text.replace(answer.headers["x-request-id"], ""))
            assert len(texts) == 1
        assert (await stranger.get(LINKS, **headers)).json()["data"] == []
    assert (await api.get(f"{LINKS}/{link['id']}")).json() == link


async def test_a_malformed_id_is_not_found(api: ApiClient) -> None:
    for link_id in ("x", "lnk_", "%00", "%F0%28", "lnk_" + "0" * 26, "..%2Forders", "x" * 5000):
        for answer in (await api.get(f"{LINKS}/{link_id}"), await put(api, link_id, {"title": "x"})):
            assert (answer.status_code, codes(answer)) == (404, ["offset_link_not_found"]), link_id


async def test_new_links_do_not_shift_the_pages_of_the_list(api: ApiClient, world: World) -> None:
    made = [(await create(api, title=f"Link {i}"))["id"] for i in range(5)]
    other = await api.post(LINKS, {"title": "Beside"}, Service_Account=world.ours_test.client_account_id)
    assert other.status_code == 201
    seen: list[str] = []
    after, pages = "", 0
    while True:
        page = (await api.get(f"{LINKS}?limit=2{after}")).json()
        seen += [link["id"] for link in page["data"]]
        pages += 1
        assert page["has_more"] is (page["next_cursor"] is not None)
        if not page["has_more"]:
            break
        await create(api, title="Meanwhile")
        after = f"&after={page['next_cursor']}"
    assert pages == 3
    # The order within one millisecond is undefined.
    assert sorted(seen) == sorted(made)
    newest_first = (await api.get(f"{LINKS}?limit=100")).json()["data"]
    assert [link["created_at"] for link in newest_first] == sorted(
        (link["created_at"] for link in newest_first), reverse=True
    )
    cursor = (await api.get(f"{LINKS}?limit=1")).json()["next_cursor"]
    elsewhere = await api.get(f"{LINKS}?after={cursor}", Service_Account=world.ours_test.client_account_id)
    assert codes(elsewhere) == ["pagination_cursor_invalid"]
    assert codes(await api.get(f"/v1/orders?after={cursor}")) == ["pagination_cursor_invalid"]
    assert codes(await api.get(f"{LINKS}?limit=101")) == ["pagination_limit_invalid"]


HOSTILE = [
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "{{ 7 * 7 }} ${7*7} %s {0}",
    "Robert'); DROP TABLE offset_links;--",
    "\u202eright to left\u202c \u200b zero \ufeff width",
    "e\u0301 ≠ \u00e9, ﬀ, 𝒳, 👩‍🚀",
    "\ttabs\r\nand\x01controls\x7f ",
    '=HYPERLINK("https://evil.example")',
]


async def test_hostile_text_is_stored_unchanged(api: ApiClient) -> None:
    for text in HOSTILE:
        link = await create(api, title=text, message=text, redirect_label=text)
        assert (link["title"], link["message"], link["redirect_label"]) == (text, text, text)
        assert (await api.get(f"{LINKS}/{link['id']}")).json() == link
        assert link in (await api.get(LINKS)).json()["data"]


async def test_texts_of_the_maximum_length_are_accepted(api: ApiClient) -> None:
    link = await create(api, title="🌳" * 200, message="🌳" * 2000, redirect_label="🌳" * 100)
    assert len(link["message"]) == 2000


async def test_the_examples_of_the_documentation_work_as_they_stand(api: ApiClient, services: Services) -> None:
    routes = {route.method: route for route in services.routes() if route.path.startswith(LINKS) and route.example}
    made = await api.post(LINKS, routes["POST"].example)
    assert made.status_code == 201, made.text
    assert routes["POST"].example.items() <= made.json().items()
    changed = await put(api, made.json()["id"], routes["PUT"].example)
    assert changed.status_code == 200
    assert routes["PUT"].example.items() <= changed.json().items()


async def test_creating_and_changing_a_link_is_audited(api: ApiClient, world: World, populated_db: Database) -> None:
    link = await create(api)
    await put(api, link["id"], {"title": "Off", "enabled": False})
    await put(api, link["id"], {"title": ""})
    async with populated_db.connection() as connection:
        rows = await connection.fetch(
            "SELECT actor, action, organisation_id, before, after FROM audit_log WHERE subject_id = $1 ORDER BY id",
            link["id"],
        )
    actor, organisation_id = f"key:{world.ours_test.key_id}", world.ours_test.scope.organisation_id
    assert [(row["actor"], row["action"], row["organisation_id"]) for row in rows] == [
        (actor, "offset_link.created", organisation_id),
        (actor, "offset_link.changed", organisation_id),
    ]
    assert json.loads(rows[1]["before"]) == {"title": link["title"], "enabled": True}
    assert json.loads(rows[1]["after"]) == {"title": "Off", "enabled": False}


async def test_the_secret_is_rotated_and_never_shown_again(api: ApiClient, browser: httpx.AsyncClient) -> None:
    made = (await api.post(LINKS, {"title": "Signed"})).json()
    path = f"{LINKS}/{made['id']}"
    for shown in (await api.get(path), await api.get(LINKS), await put(api, made["id"], {"title": "Signed"})):
        assert "secret" not in shown.text
    rotated = await api.post(f"{path}/rotate-secret", {"overlap_s": 60})
    assert rotated.status_code == 200
    assert rotated.json() == made | {"secret": rotated.json()["secret"]}
    assert rotated.json()["secret"] != made["secret"]
    query = {"external_id": "A-1", "expires": "99999999999"}

    async def opens_with(secret: str) -> bool:
        signature = sign_query(secret, made["id"], query.items())
        answer = await browser.get(f"/offset/{made['id']}", params=query | {"signature": signature})
        return answer.status_code == 200

    assert await opens_with(rotated.json()["secret"])
    assert await opens_with(made["secret"]), "during the overlap"
    last = await api.http.post(f"{path}/rotate-secret", headers=api._headers({}))
    assert last.status_code == 200, "without a body, there is no overlap"
    assert not await opens_with(rotated.json()["secret"])
    for overlap in (-1, 604_801, "1"):
        refused = await api.post(f"{path}/rotate-secret", {"overlap_s": overlap})
        assert codes(refused) == ["validation_error"], overlap
