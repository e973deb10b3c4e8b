"""Restricted API keys: what they may do, and how keys manage keys."""

from datetime import timedelta
from typing import Any

import httpx
import pytest

from tests.support.api_client import ApiClient, codes, fields
from tests.support.world import TESTER, World
from tonne.apps.wiring.app import Services
from tonne.platform.http.permissions import PERMISSIONS
from tonne.platform.values.context import Scope, replace, to_wire, utc_now
from tonne.selling.accounts.errors import KeyRightInvalid
from tonne.selling.accounts.keys.api_keys import issue_key
from tonne.selling.accounts.keys.restrictions import KeyRight, check_restrictions

ONE_TONNE = {"mass": {"amount": "1", "unit": "t"}}
UNKNOWN = "key_06dq2k8v7p3h5n9s4t1w0x2y6z"


async def issue(services: Services, scope: Scope, *permissions: str, **restricted: Any) -> tuple[str, str]:
    """The id and the secret of a new key."""
    now = utc_now()
    given: dict[str, Any] = {"account_ids": None, "networks": [], "expires_at": None, "now": now, **restricted}
    async with services.database.transaction() as tx:
        limits = check_restrictions(permissions or None, **given)
        key, secret = await issue_key(tx, scope, "restricted", by=TESTER.at(now), restrictions=limits)
    return key.id, secret


@pytest.fixture
async def manager(services: Services, api: ApiClient, world: World) -> ApiClient:
    """A key that may do everything, managing keys included."""
    async with services.database.transaction() as tx:
        _, secret = await issue_key(tx, world.ours_test.scope, "manager", by=TESTER.now(), rights=[KeyRight.API_KEYS])
    return api.as_key(secret)


async def test_a_key_does_what_it_is_permitted_and_nothing_else(
    services: Services, api: ApiClient, world: World
) -> None:
    _, secret = await issue(services, world.ours_test.scope, "orders:write", "catalogue:read")
    key = api.as_key(secret)
    order = await key.order()
    assert (await key.get(f"/v1/orders/{order['id']}")).status_code == 200
    assert (await key.get("/v1/bundles")).status_code == 200
    for path, missing in (
        (f"/v1/orders/{order['id']}/certificate", "certificates:read"),
        ("/v1/webhooks", "webhooks:read"),
        ("/v1/api-keys", "api_keys:read"),
        ("/v1/audit-log", "audit_log:read"),
    ):
        answer = await key.get(path)
        assert (answer.status_code, codes(answer)) == (403, ["key_permission_missing"])
        assert missing in answer.json()["error"]["message"]
    _, reader = await issue(services, world.ours_test.scope, "orders:read")
    answer = await api.as_key(reader).post("/v1/orders/by-mass", ONE_TONNE)
    assert codes(answer) == ["key_permission_missing"]
    assert (await api.as_key(reader).post("/v1/orders/by-mass/quote", ONE_TONNE)).status_code == 200


async def test_a_key_for_some_accounts(services: Services, api: ApiClient, world: World) -> None:
    ours = world.ours_test
    _, secret = await issue(services, ours.scope, account_ids=[ours.scope.account_id])
    key = api.as_key(secret)
    assert (await key.get("/v1/orders", Service_Account=ours.scope.account_id)).status_code == 200
    answer = await key.get("/v1/orders", Service_Account=ours.client_account_id)
    assert (answer.status_code, codes(answer)) == (403, ["key_account_not_allowed"])
    answer = await key.get("/v1/orders", Service_Account=world.theirs_test.scope.account_id)
    assert (answer.status_code, codes(answer)) == (404, ["account_not_found"])
    # What shows all accounts of the organisation is left out.
    for path in ("/v1/events", "/v1/retirements", "/v1/audit-log"):
        assert codes(await key.get(path)) == ["key_permission_missing"]


@pytest.mark.parametrize(
    ("networks", "status"),
    [(["127.0.0.0/8"], 200), (["::1"], 403), (["192.0.2.0/24", "127.0.0.1"], 200), (["192.0.2.0/24"], 403)],
)
async def test_a_key_for_some_networks(
    services: Services, api: ApiClient, world: World, networks: list[str], status: int
) -> None:
    key_id, secret = await issue(services, world.ours_test.scope, networks=networks)
    answer = await api.as_key(secret).get("/v1/orders")
    assert answer.status_code == status
    if status == 403:
        assert codes(answer) == ["key_network_not_allowed"]
        assert "127.0.0.1" in answer.json()["error"]["message"]
        await services.directory.write_uses()
        async with services.database.connection() as connection:
            # A use that was refused would hide that the key leaked.
            assert await connection.fetchval("SELECT last_used_at FROM api_keys WHERE id = $1", key_id) is None


async def test_an_expired_key_is_refused_like_a_revoked_one(services: Services, api: ApiClient, world: World) -> None:
    key_id, secret = await issue(services, world.ours_test.scope, expires_at=utc_now() + timedelta(days=1))
    assert (await api.as_key(secret).get("/v1/orders")).status_code == 200
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE api_keys SET expires_at = now() - interval '1 s' WHERE id = $1", key_id)
    answer = await api.as_key(secret).get("/v1/orders")
    assert (answer.status_code, codes(answer)) == (401, ["unauthorised"])


async def test_keys_issued_before_keep_their_rights(api: ApiClient) -> None:
    """They have no restrictions, and cannot manage keys."""
    assert (await api.order())["id"]
    for path in ("/v1/events", "/v1/audit-log", "/v1/retirements", "/v1/webhooks"):
        assert (await api.get(path)).status_code == 200
    assert codes(await api.get("/v1/api-keys")) == ["key_permission_missing"]


async def test_a_key_creates_lists_rotates_and_revokes_keys(
    services: Services, manager: ApiClient, api: ApiClient, world: World
) -> None:
    expires_at = to_wire(utc_now() + timedelta(days=90))
    body = {
        "name": "Web shop",
        "permissions": ["orders:read", "orders:write", "catalogue:read"],
        "account_ids": [world.ours_test.scope.account_id],
        "networks": ["127.0.0.1", "2001:db8::/32"],
        "expires_at": expires_at,
    }
    answer = await manager.post("/v1/api-keys", body)
    assert answer.status_code == 201, answer.text
    created = answer.json()
    secret, key_path = created.pop("secret"), f"/v1/api-keys/{created['id']}"
    assert secret.startswith("tonne_test_")
    assert created["permissions"] == ["orders:write", "catalogue:read"]
    assert created["networks"] == ["127.0.0.1/32", "2001:db8::/32"]
    assert (created["expires_at"], created["last_four"]) == (expires_at, secret[-4:])
    assert (await manager.get(key_path)).json() == created
    assert (await manager.get("/v1/api-keys?limit=1")).json()["data"] == [created]
    await api.as_key(secret).order()

    answer = await manager.post(f"{key_path}/rotate", {"overlap_hours": 2})
    assert answer.status_code == 201, answer.text
    rotated = answer.json()
    same = {"name", "permissions", "account_ids", "networks", "expires_at", "default_account_id", "account_type"}
    assert {name: rotated[name] for name in same} == {name: created[name] for name in same}
    for working in (secret, rotated["secret"]):
        assert (await api.as_key(working).get("/v1/orders")).status_code == 200
    old = (await manager.get(key_path)).json()
    assert old["replaced_by"] == rotated["id"]
    assert old["expires_at"] < to_wire(utc_now() + timedelta(hours=2, seconds=1))
    assert codes(await manager.post(f"{key_path}/rotate", {})) == ["api_key_ended"]

    revoked = await _delete(manager, f"/v1/api-keys/{rotated['id']}")
    assert revoked.json()["revoked_at"] is not None
    assert (await _delete(manager, f"/v1/api-keys/{rotated['id']}")).json() == revoked.json()
    assert (await api.as_key(rotated["secret"]).get("/v1/orders")).status_code == 401
    async with services.database.connection() as connection:
        rows = await connection.fetch(
            "SELECT action, subject_id, audit_log::text AS entry FROM audit_log WHERE actor LIKE 'key:%'"
        )
    assert {(row["action"], row["subject_id"]) for row in rows} == {
        ("api_key.issued", created["id"]),
        ("api_key.issued", rotated["id"]),
        ("api_key.rotated", created["id"]),
        ("api_key.revoked", rotated["id"]),
    }
    assert len(rows) == 4
    assert not any(text in row["entry"] for row in rows for text in (secret[11:], rotated["secret"][11:]))
    for method, path in (("GET", ""), ("POST", "/rotate"), ("DELETE", "")):
        missing = await manager.http.request(method, f"/v1/api-keys/{UNKNOWN}{path}", headers=manager._headers({}))
        assert (missing.status_code, codes(missing)) == (404, ["api_key_not_found"])


async def _delete(client: ApiClient, path: str) -> httpx.Response:
    return await client.http.delete(path, headers=client._headers({}))


async def test_a_key_never_creates_rotates_or_revokes_a_stronger_one(
    services: Services, api: ApiClient, manager: ApiClient, world: World
) -> None:
    scope, soon = world.ours_test.scope, utc_now() + timedelta(days=7)
    _, secret = await issue(
        services, scope, "api_keys:write", "orders:read", networks=["127.0.0.0/16"], expires_at=soon
    )
    key = api.as_key(secret)
    within = {"name": "x", "permissions": ["orders:read"], "networks": ["127.0.0.0/24"], "expires_at": to_wire(soon)}
    assert (await key.post("/v1/api-keys", within)).status_code == 201
    for change, part in (
        ({"permissions": None}, "the permission orders:write"),
        ({"permissions": ["orders:write"]}, "the permission orders:write"),
        ({"permissions": ["persons:read"]}, None),
        ({"networks": None}, "more networks"),
        ({"networks": ["127.0.0.0/8"]}, "more networks"),
        ({"networks": ["127.0.0.0/24", "::/0"]}, "more networks"),
        ({"expires_at": None}, "a later expiry"),
        ({"expires_at": to_wire(soon + timedelta(seconds=1))}, "a later expiry"),
    ):
        answer = await key.post("/v1/api-keys", {**within, **change})
        assert codes(answer) == ["key_right_invalid" if part is None else "key_rights_exceeded"], change
        assert part is None or part in answer.json()["error"]["message"]
    # Rotating returns the secret of the new key.
    answer = await key.post(f"/v1/api-keys/{world.ours_test.key_id}/rotate", {})
    assert (answer.status_code, codes(answer)) == (403, ["key_rights_exceeded"])
    answer = await _delete(key, f"/v1/api-keys/{world.ours_test.key_id}")
    assert (answer.status_code, codes(answer)) == (403, ["key_rights_exceeded"])
    assert (await api.get("/v1/orders")).status_code == 200
    weaker = (await key.post("/v1/api-keys", within)).json()["id"]
    assert (await _delete(key, f"/v1/api-keys/{weaker}")).status_code == 200
    own_id = next(each["id"] for each in (await key.get("/v1/api-keys")).json()["data"] if each["rights"])
    assert (await _delete(key, f"/v1/api-keys/{own_id}")).status_code == 200
    assert codes(await manager.post("/v1/api-keys", {"name": "x", "permissions": list(PERMISSIONS)})) == [
        "key_right_invalid"
    ]
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE api_keys SET monthly_limit_minor = 100 WHERE name = 'manager'")
    answer = await manager.post("/v1/api-keys", {"name": "x", "permissions": ["orders:write"]})
    assert codes(answer) == ["key_rights_exceeded"]
    assert "monthly limit" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({}, "validation_error", "name"),
        ({"name": "\n"}, "name_invalid", None),
        ({"name": "x", "permissions": []}, "key_restriction_invalid", "permissions"),
        ({"name": "x", "permissions": ["orders"]}, "key_restriction_invalid", "permissions"),
        ({"name": "x", "account_ids": ["acc_x"]}, "key_restriction_invalid", "account_ids"),
        ({"name": "x", "account_ids": []}, "key_restriction_invalid", "account_ids"),
        ({"name": "x", "default_account_id": "acc_x"}, "account_not_found", "default_account_id"),
        ({"name": "x", "networks": ["10.0.0.1/8"]}, "key_restriction_invalid", "networks"),
        ({"name": "x", "networks": ["here"]}, "key_restriction_invalid", "networks"),
        ({"name": "x", "expires_at": "2020-01-01T00:00:00Z"}, "key_restriction_invalid", "expires_at"),
        ({"name": "x", "expires_at": "tomorrow"}, "validation_error", "expires_at"),
        ({"name": "x", "expires_at": "2030-01-01T00:00:00"}, "validation_error", "expires_at"),
    ],
)
async def test_faults_of_a_new_key(manager: ApiClient, body: dict[str, Any], code: str, field: str | None) -> None:
    answer = await manager.post("/v1/api-keys", body)
    assert (codes(answer), fields(answer)) == ([code], [field])


async def test_accounts_of_a_key_do_not_go_with_what_concerns_the_whole_organisation(
    manager: ApiClient, world: World
) -> None:
    accounts = [world.ours_test.scope.account_id]
    answer = await manager.post(
        "/v1/api-keys", {"name": "x", "account_ids": accounts, "permissions": ["webhooks:read"]}
    )
    assert codes(answer) == ["key_restriction_invalid"]
    client = {"name": "x", "account_ids": [world.ours_test.client_account_id]}
    assert fields(await manager.post("/v1/api-keys", client)) == ["account_ids"]
    client["default_account_id"] = world.ours_test.client_account_id
    answer = await manager.post("/v1/api-keys", client)
    assert answer.status_code == 201
    assert (await manager.as_key(answer.json()["secret"]).get("/v1/account")).json()["id"] == client["account_ids"][0]


async def test_only_keys_of_the_organisations_own_accounts_manage_keys(services: Services, world: World) -> None:
    scope = replace(world.ours_test.scope, account_id=world.ours_test.client_account_id)
    with pytest.raises(KeyRightInvalid):
        await issue(services, scope, "api_keys:read")


async def test_a_monthly_limit_counts_a_key_and_its_rotations_as_one(
    services: Services, api: ApiClient, manager: ApiClient, world: World
) -> None:
    key_id, secret = await issue(services, world.ours_test.scope, "orders:write")
    price = (await api.post("/v1/orders/by-mass/quote", ONE_TONNE)).json()["total_cost"]
    minor = round(float(price) * 150)
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE api_keys SET monthly_limit_minor = $2 WHERE id = $1", key_id, minor)
    await api.as_key(secret).order()
    rotated = (await manager.post(f"/v1/api-keys/{key_id}/rotate", {})).json()
    answer = await api.as_key(rotated["secret"]).post("/v1/orders/by-mass", ONE_TONNE)
    assert codes(answer) == ["spending_limit_reached"]
