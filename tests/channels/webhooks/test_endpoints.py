"""Registrations over HTTP: responses, errors, tenant isolation and secrets."""

import asyncio
import re
from typing import Any

import httpx
import pytest

from tests.channels.webhooks.stage import Stage
from tests.channels.webhooks.test_dial_guard import Names
from tests.support.api_client import ApiClient, codes, fields
from tests.support.receivers import Receiver
from tests.support.world import World
from tonne.apps.wiring.app import Services, build_app
from tonne.channels.webhooks.endpoints import WebhookEndpoints
from tonne.channels.webhooks.register import MAX_WEBHOOKS
from tonne.channels.webhooks.sending.sender import Sender
from tonne.platform.values.context import utc_now

URL = "https://93.184.216.34/hook"
SECRET = re.compile(r"whsec_[A-Za-z0-9+/]{43}=")
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
FIELDS = [
    "id",
    "url",
    "enabled",
    "account_type",
    "account_ids",
    "event_types",
    "disable_on_gone",
    "standard_webhooks",
    "disabled_reason",
    "created_at",
    "secret",
]
FIELDS += ["delivery"]


async def register(api: ApiClient, url: str = URL, **body: Any) -> dict[str, Any]:
    answer = await api.post("/v1/webhooks", {"url": url, **body})
    assert answer.status_code == 201, answer.text
    registered: dict[str, Any] = answer.json()
    return registered


async def put(api: ApiClient, webhook_id: str, body: Any) -> httpx.Response:
    return await api.http.put(f"/v1/webhooks/{webhook_id}", json=body, headers=api._headers({}))


async def delete(api: ApiClient, webhook_id: str) -> httpx.Response:
    return await api.http.delete(f"/v1/webhooks/{webhook_id}", headers=api._headers({}))


async def test_a_registration_returns_the_webhook_with_its_delivery_state(
    api: ApiClient,
) -> None:
    before = utc_now()
    webhook = await register(api)
    assert list(webhook) == FIELDS
    assert re.fullmatch(r"wh_[a-z0-9]{26}", webhook["id"])
    assert SECRET.fullmatch(webhook["secret"])
    assert MOMENT.fullmatch(webhook["created_at"])
    assert webhook["created_at"] >= before.isoformat()[:19]
    assert {name: webhook[name] for name in FIELDS[1:9]} == {
        "url": URL,
        "enabled": True,
        "account_type": "test",
        "account_ids": [],
        "event_types": [],
        "disable_on_gone": False,
        "standard_webhooks": False,
        "disabled_reason": None,
    }
    assert webhook["delivery"] == {
        "state": "idle",
        "waiting_events": 0,
        "oldest_waiting_at": None,
        "failures": 0,
        "failing_since": None,
        "next_attempt_at": None,
        "parked": [],
    }


async def test_the_mode_of_the_key_is_the_mode_of_the_webhook(api: ApiClient, world: World) -> None:
    assert (await register(api.as_key(world.ours_live.key)))["account_type"] == "live"


async def test_the_secret_is_complete_only_at_registration_and_rotation(api: ApiClient) -> None:
    webhook = await register(api)
    path = f"/v1/webhooks/{webhook['id']}"
    shown = f"whsec_...{webhook['secret'][-4:]}"
    assert (await api.get(path)).json() == {**webhook, "secret": shown}
    assert [item["secret"] for item in (await api.get("/v1/webhooks")).json()] == [shown]
    assert (await put(api, webhook["id"], {"enabled": False})).json()["secret"] == shown
    rotated = (await api.post(f"{path}/rotate-secret", {})).json()
    assert SECRET.fullmatch(rotated["secret"])
    assert rotated["secret"] != webhook["secret"]
    assert (await api.get(path)).json()["secret"] == f"whsec_...{rotated['secret'][-4:]}"


async def test_interface_8_the_secret_can_be_rotated_with_put(api: ApiClient) -> None:
    webhook = await register(api)
    path = f"/v1/webhooks/{webhook['id']}/rotate-secret"
    with_body = await api.http.put(path, json={"overlap_s": 60}, headers=api._headers({}))
    without_body = await api.http.put(path, headers=api._headers({}))
    secrets = [webhook["secret"]]
    for answer in (with_body, without_body):
        assert answer.status_code == 200, answer.text
        assert SECRET.fullmatch(answer.json()["secret"])
        secrets.append(answer.json()["secret"])
    assert len(set(secrets)) == 3


async def test_the_secret_is_not_in_the_database_in_plain_text(api: ApiClient, stage: Stage) -> None:
    webhook = await register(api)
    rotated = (await api.post(f"/v1/webhooks/{webhook['id']}/rotate-secret", {"overlap_s": 60})).json()
    tables = await stage.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    searched = 0
    for table in tables:
        for row in await stage.fetch(f'SELECT row_to_json(t)::text AS text FROM "{table["tablename"]}" t'):  # noqa: S608 - the database's own names
            searched += 1
            for secret in (webhook["secret"], rotated["secret"]):
                # Binary columns are shown as hexadecimal.
                for spelling in (secret, secret[6:30], secret.encode().hex(), secret[6:30].encode().hex()):
                    assert spelling not in row["text"], table["tablename"]
    assert searched > 10


async def test_a_sealed_secret_copied_to_another_webhook_cannot_be_decrypted(api: ApiClient, stage: Stage) -> None:
    one, two = await register(api), await register(api)
    await stage.fetch(
        "UPDATE webhooks SET secret_box = (SELECT secret_box FROM webhooks WHERE id = $1) WHERE id = $2",
        one["id"],
        two["id"],
    )
    answer = await api.post(f"/v1/webhooks/{two['id']}/test", {})
    assert (answer.json()["acknowledged"], answer.json()["error"]) == (False, "secret_unreadable")
    assert one["secret"] not in answer.text


REFUSED: list[tuple[Any, str, str | None]] = [
    ({}, "validation_error", "url"),
    ({"url": None}, "validation_error", "url"),
    ({"url": 5}, "validation_error", "url"),
    ({"url": ["https://93.184.216.34/"]}, "validation_error", "url"),
    ({"url": URL, "events": ["order.placed"]}, "validation_error", "events"),
    ({"url": URL, "account_ids": "acc_1"}, "validation_error", "account_ids"),
    ({"url": URL, "account_ids": [1]}, "validation_error", "account_ids[0]"),
    ({"url": ""}, "webhook_url_invalid", "url"),
    ({"url": "http://93.184.216.34/"}, "webhook_url_invalid", "url"),
    ({"url": "https://10.0.0.1/"}, "webhook_url_invalid", "url"),
    ({"url": "https://[::ffff:169.254.169.254]/"}, "webhook_url_invalid", "url"),
    ({"url": "https://user:pass@93.184.216.34/"}, "webhook_url_invalid", "url"),
    ({"url": "https://93.184.216.34/#x"}, "webhook_url_invalid", "url"),
    ({"url": "https://2130706433/"}, "webhook_url_invalid", "url"),
    ({"url": URL, "account_ids": ["acc_unknown"]}, "webhook_account_invalid", "account_ids[0]"),
    ({"url": URL, "account_ids": [""]}, "webhook_account_invalid", "account_ids[0]"),
]


async def test_an_invalid_registration_is_refused_with_code_and_field(api: ApiClient) -> None:
    for body, code, field in REFUSED:
        answer = await api.post("/v1/webhooks", body)
        assert (answer.status_code, codes(answer), fields(answer)) == (400, [code], [field]), body
    assert (await api.get("/v1/webhooks")).json() == []


@pytest.mark.parametrize("url", ["http://93.184.216.34/", "https://10.0.0.1/"])
async def test_people_c_a_refused_webhook_url_points_to_tonne_listen(api: ApiClient, url: str) -> None:
    answer = await api.post("/v1/webhooks", {"url": url})
    assert (answer.status_code, codes(answer)) == (400, ["webhook_url_invalid"])
    assert answer.json()["error"]["message"].endswith("To receive events on your own machine, run `tonne listen`.")


async def test_a_url_that_is_too_long_is_refused(api: ApiClient) -> None:
    answer = await api.post("/v1/webhooks", {"url": URL + "x" * (2049 - len(URL))})
    assert (answer.status_code, codes(answer), fields(answer)) == (400, ["webhook_url_invalid"], ["url"])
    await register(api, URL + "x" * (2048 - len(URL)))


async def test_a_host_that_cannot_be_resolved_is_refused_with_a_readable_message(
    services: Services, world: World
) -> None:
    sender = Sender(services.settings, Names(private_example_com=[["93.184.216.34", "10.0.0.1"]]))
    services.webhooks = WebhookEndpoints(
        services.database, services.box, clock=utc_now, settings=services.settings, sender=sender
    )
    transport = httpx.ASGITransport(build_app(services), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://tonne.test") as client:
        api = ApiClient(client, world.ours_test.key)
        for host in ("unknown.example.com", "private.example.com"):
            answer = await api.post("/v1/webhooks", {"url": f"https://{host}/"})
            assert (answer.status_code, codes(answer), fields(answer)) == (400, ["webhook_url_invalid"], ["url"])
            assert "Errno" not in answer.json()["error"]["message"]


async def test_accounts_of_other_tenants_are_refused(api: ApiClient, world: World) -> None:
    mine, client = world.ours_test.scope.account_id, world.ours_test.client_account_id
    webhook = await register(api, account_ids=[client, mine])
    assert webhook["account_ids"] == [client, mine]
    unknown = await api.post("/v1/webhooks", {"url": URL, "account_ids": [mine, "acc_06gtv1alff3htg9thvlvj59t20"]})
    for stranger in (world.ours_live.scope.account_id, world.theirs_test.scope.account_id):
        answer = await api.post("/v1/webhooks", {"url": URL, "account_ids": [mine, stranger]})
        assert (answer.status_code, codes(answer), fields(answer)) == (
            400,
            ["webhook_account_invalid"],
            ["account_ids[1]"],
        )
        # The same error as for an unknown account.
        assert answer.json()["error"] == unknown.json()["error"]
        changed = await put(api, webhook["id"], {"account_ids": [stranger]})
        assert (changed.status_code, codes(changed)) == (400, ["webhook_account_invalid"])
    assert (await api.get(f"/v1/webhooks/{webhook['id']}")).json()["account_ids"] == [client, mine]


async def test_the_seventeenth_webhook_is_refused_until_one_is_deleted(api: ApiClient, world: World) -> None:
    answers = await asyncio.gather(*(api.post("/v1/webhooks", {"url": f"{URL}/{n}"}) for n in range(MAX_WEBHOOKS + 4)))
    assert MAX_WEBHOOKS == 16
    assert sorted(answer.status_code for answer in answers) == [201] * 16 + [409] * 4
    assert {code for a in answers if a.status_code == 409 for code in codes(a)} == {"webhook_limit_reached"}
    # The limit applies per organisation and mode.
    await register(api.as_key(world.ours_live.key))
    await register(api.as_key(world.theirs_test.key))
    gone = next(answer.json()["id"] for answer in answers if answer.status_code == 201)
    assert (await delete(api, gone)).status_code == 204
    await register(api)


async def test_a_put_changes_only_the_fields_it_contains(api: ApiClient, world: World) -> None:
    webhook = await register(api, account_ids=[world.ours_test.client_account_id])
    expected = {**webhook, "secret": f"whsec_...{webhook['secret'][-4:]}"}
    changes: list[dict[str, Any]] = [
        {},
        {"enabled": False},
        {"url": "https://93.184.216.34:8443/other?a=b"},
        {"account_ids": []},
        {"enabled": True, "account_ids": [world.ours_test.scope.account_id]},
        {"url": None, "enabled": None, "account_ids": None},
    ]
    for change in changes:
        answer = await put(api, webhook["id"], change)
        assert answer.status_code == 200, answer.text
        expected |= {name: value for name, value in change.items() if value is not None}
        expected["delivery"] = {**expected["delivery"], "state": "idle" if expected["enabled"] else "disabled"}
        assert answer.json() == expected
        assert (await api.get(f"/v1/webhooks/{webhook['id']}")).json() == expected


async def test_an_invalid_put_changes_nothing(api: ApiClient) -> None:
    webhook = await register(api)
    before = (await api.get(f"/v1/webhooks/{webhook['id']}")).json()
    for body, code in (
        ({"url": "https://93.184.216.34:22/#"}, "webhook_url_invalid"),
        ({"url": "http://93.184.216.34/"}, "webhook_url_invalid"),
        ({"enabled": "yes"}, "validation_error"),
        ({"secret": "mine"}, "validation_error"),
        ({"account_type": "live"}, "validation_error"),
    ):
        answer = await put(api, webhook["id"], {"enabled": False, **body})
        assert (answer.status_code, codes(answer)) == (400, [code]), body
    assert (await api.get(f"/v1/webhooks/{webhook['id']}")).json() == before


async def test_a_deleted_webhook_is_not_found_by_any_route(api: ApiClient) -> None:
    webhook = await register(api)
    answer = await delete(api, webhook["id"])
    assert (answer.status_code, answer.content) == (204, b"")
    path = f"/v1/webhooks/{webhook['id']}"
    gone = [
        await api.get(path),
        await put(api, webhook["id"], {"enabled": True}),
        await delete(api, webhook["id"]),
        await api.post(f"{path}/rotate-secret", {}),
        await api.post(f"{path}/test", {}),
        await api.get(f"{path}/attempts"),
        await api.post(f"{path}/rewind", {"sequence": "2026-11-15T10:00:00.000Z"}),
        await api.post(f"{path}/retry-now", {}),
        await api.post(f"{path}/skip", {"event_id": "evt_1"}),
    ]
    assert {answer.status_code for answer in gone} == {404}
    assert {code for answer in gone for code in codes(answer)} == {"webhook_not_found"}
    assert (await api.get("/v1/webhooks")).json() == []


async def test_webhooks_are_an_array_newest_first_whatever_limit_and_after_say(api: ApiClient) -> None:
    ids = [(await register(api, f"{URL}/{n}"))["id"] for n in range(5)]
    for query in ("", "?limit=2", "?limit=0", "?after=nonsense", "?limit=all&after="):
        assert [item["id"] for item in (await api.get(f"/v1/webhooks{query}")).json()] == ids[::-1], query
    assert codes(await api.get("/v1/webhooks?before=2")) == ["validation_error"]


async def test_other_organisations_and_the_other_mode_see_nothing(api: ApiClient, world: World) -> None:
    webhook = await register(api)
    for tenant in (world.theirs_test, world.ours_live):
        stranger = api.as_key(tenant.key)
        assert (await stranger.get("/v1/webhooks")).json() == []
        for answer in (
            await stranger.get(f"/v1/webhooks/{webhook['id']}"),
            await delete(stranger, webhook["id"]),
            await stranger.post(f"/v1/webhooks/{webhook['id']}/rotate-secret", {}),
        ):
            assert (answer.status_code, codes(answer)) == (404, ["webhook_not_found"])
    # Webhooks belong to the organisation, whatever account the key acts for.
    assert (
        await api.get(f"/v1/webhooks/{webhook['id']}", Service_Account=world.ours_test.client_account_id)
    ).is_success


async def test_an_overlap_is_an_integer_up_to_seven_days(api: ApiClient) -> None:
    webhook = await register(api)
    path = f"/v1/webhooks/{webhook['id']}/rotate-secret"
    for overlap in (-1, 604_801, 1.5, "60", True):
        answer = await api.post(path, {"overlap_s": overlap})
        assert (answer.status_code, codes(answer), fields(answer)) == (400, ["validation_error"], ["overlap_s"])
    assert (await api.get(f"/v1/webhooks/{webhook['id']}")).json()["secret"].endswith(webhook["secret"][-4:])
    assert (await api.post(path, {"overlap_s": 604_800})).status_code == 200


async def test_a_rotation_needs_no_body(api: ApiClient) -> None:
    webhook = await register(api)
    answer = await api.http.post(f"/v1/webhooks/{webhook['id']}/rotate-secret", headers=api._headers({}))
    assert answer.status_code == 200
    assert SECRET.fullmatch(answer.json()["secret"])


async def test_every_change_is_audited_without_a_secret(
    api: ApiClient, stage: Stage, world: World, receiver: Receiver
) -> None:
    webhook = await register(api, receiver.url)
    await put(api, webhook["id"], {"enabled": False})
    await api.post(f"/v1/webhooks/{webhook['id']}/rotate-secret", {})
    await api.post(f"/v1/webhooks/{webhook['id']}/rewind", {"sequence": "2026-11-15T10:00:00.000Z"})
    await delete(api, webhook["id"])
    rows = await stage.fetch(
        "SELECT actor, action, audit_log::text AS entry FROM audit_log WHERE subject_id = $1 ORDER BY at, id",
        webhook["id"],
    )
    assert [row["action"] for row in rows] == [
        "webhook.registered",
        "webhook.changed",
        "webhook.secret_rotated",
        "webhook.rewound",
        "webhook.deleted",
    ]
    assert {row["actor"] for row in rows} == {f"key:{world.ours_test.key_id}"}
    assert not any("whsec" in row["entry"] for row in rows)
