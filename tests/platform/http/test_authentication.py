"""API keys: their scope, acting for other accounts, and revocation."""

from datetime import datetime, timedelta

import msgspec
import pytest

from tests.platform.http.test_error_shape import sameness
from tests.support.api_client import ApiClient, codes
from tests.support.world import TESTER, World
from tonne.apps.wiring.app import Services
from tonne.platform.db.database import Database
from tonne.platform.http.authenticator import Authenticator
from tonne.platform.http.errors import Unauthorised
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import utc_now
from tonne.selling.accounts.directory import AccountDirectory
from tonne.selling.accounts.keys.api_keys import revoke_key

ONE_TONNE = {"mass": {"amount": "1", "unit": "t"}}


async def test_the_scheme_bearer_is_case_insensitive(api: ApiClient) -> None:
    for scheme in ("Bearer", "bearer", "BEARER"):
        answer = await api.http.get("/v1/orders", headers={"Authorization": f"{scheme} {api.key}"})
        assert answer.status_code == 200


async def test_a_key_acts_for_its_default_account(api: ApiClient, world: World, populated_db: Database) -> None:
    order = await api.order()
    async with populated_db.connection() as connection:
        owner = await connection.fetchrow("SELECT organisation_id, account_id, mode FROM orders")
    scope = world.ours_test.scope
    assert owner is not None
    assert tuple(owner) == (scope.organisation_id, scope.account_id, scope.mode)
    answer = await api.get(f"/v1/orders/{order['id']}", Service_Account=scope.account_id)
    assert answer.status_code == 200


async def test_service_account_acts_for_a_client_account(api: ApiClient, world: World) -> None:
    client = world.ours_test.client_account_id
    answer = await api.post("/v1/orders/by-mass", ONE_TONNE | {"idempotency_key": "k"}, Service_Account=client)
    assert answer.status_code == 201
    order_id = answer.json()["id"]
    for path in (f"/v1/orders/{order_id}", "/v1/orders/by-idempotency-key/k"):
        assert (await api.get(path, Service_Account=client)).content == answer.content
        assert (await api.get(path)).status_code == 404
    listed = (await api.get("/v1/orders", Service_Account=client)).json()["data"]
    assert [order["id"] for order in listed] == [order_id]
    assert (await api.get("/v1/orders")).json()["data"] == []


async def test_an_account_of_another_organisation_or_mode_is_unknown(
    api: ApiClient, world: World, populated_db: Database
) -> None:
    requested = [
        "acc_" + "0" * 26,
        world.theirs_test.scope.account_id,
        world.theirs_test.client_account_id,
        world.ours_live.scope.account_id,
        world.ours_live.client_account_id,
        world.ours_test.scope.organisation_id,
        world.ours_test.scope.account_id.upper(),
        world.ours_test.scope.account_id + "0",
        "",
        "x",
        "acc_" + "é" * 26,
        "' OR 1=1 --",
        "a" * 4000,
    ]
    answers = [
        await api.http.request(
            method,
            path,
            headers={b"authorization": f"Bearer {api.key}".encode(), b"service-account": account.encode("latin-1")},
            json=ONE_TONNE,
        )
        for account in requested
        for method, path in (("GET", "/v1/orders"), ("POST", "/v1/orders/by-mass"), ("GET", "/v1/bundles"))
    ]
    assert {(answer.status_code, *codes(answer)) for answer in answers} == {(404, "account_not_found")}
    assert len({sameness(answer) for answer in answers}) == 1
    async with populated_db.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM orders") == 0


async def test_a_wrong_key_learns_nothing_about_accounts(api: ApiClient, world: World) -> None:
    wrong = api.as_key("tonne_test_" + "A" * 43)
    for account in (world.ours_test.scope.account_id, "acc_" + "0" * 26):
        answer = await wrong.get("/v1/orders", Service_Account=account)
        assert (answer.status_code, codes(answer)) == (401, ["unauthorised"])


class TestBrand:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return msgspec.structs.replace(settings, brand="Acme")

    async def test_the_brand_names_the_header(self, api: ApiClient, world: World) -> None:
        client = world.ours_test.client_account_id
        order = (await api.post("/v1/orders/by-mass", ONE_TONNE, Acme_Account=client)).json()
        assert (await api.get(f"/v1/orders/{order['id']}", Acme_Account=client)).status_code == 200
        assert (await api.get(f"/v1/orders/{order['id']}", Service_Account=client)).status_code == 404
        assert (await api.get("/v1/orders", Service_Account="anything")).status_code == 200

    async def test_the_brand_is_in_the_openapi_document(self, api: ApiClient) -> None:
        document = (await api.http.get("/openapi.json")).text
        assert '"Acme-Account"' in document
        assert "Service-Account" not in document


async def test_a_revoked_key_is_refused(api: ApiClient, world: World, populated_db: Database) -> None:
    assert (await api.get("/v1/orders")).status_code == 200
    async with populated_db.transaction() as tx:
        await revoke_key(tx, world.ours_test.key_id, by=TESTER.now())
    answer = await api.get("/v1/orders")
    assert (answer.status_code, codes(answer)) == (401, ["unauthorised"])
    assert (await api.as_key(world.ours_live.key).get("/v1/orders")).status_code == 200


async def test_a_cached_key_is_refused_within_five_seconds_of_its_revocation(
    world: World, populated_db: Database
) -> None:
    moment = 1000.0

    def monotonic() -> float:
        return moment

    # With the default settings.
    settings = Settings()
    authenticator = Authenticator(AccountDirectory(populated_db, utc_now, settings.key_refresh_s), settings, monotonic)
    headers = {b"authorization": f"Bearer {world.ours_test.key}".encode()}
    await authenticator.identify(headers, "192.0.2.1")
    async with populated_db.transaction() as tx:
        await revoke_key(tx, world.ours_test.key_id, by=TESTER.now())
    moment += 5
    with pytest.raises(Unauthorised):
        await authenticator.identify(headers, "192.0.2.1")


async def test_the_last_use_of_a_key_is_recorded(api: ApiClient, services: Services, world: World) -> None:
    async def last_used(key_id: str) -> datetime | None:
        async with services.database.connection() as connection:
            moment: datetime | None = await connection.fetchval(
                "SELECT last_used_at FROM api_keys WHERE id = $1", key_id
            )
        return moment

    assert await last_used(world.ours_test.key_id) is None
    before = utc_now()
    await api.get("/v1/orders")
    await api.get("/v1/orders/unknown")
    await services.directory.write_uses()
    used = await last_used(world.ours_test.key_id)
    assert used is not None
    assert before <= used <= utc_now() + timedelta(milliseconds=1)
    assert await last_used(world.ours_live.key_id) is None
    await services.directory.write_uses()
    assert await last_used(world.ours_test.key_id) == used


async def test_a_key_is_stored_only_as_a_hash(api: ApiClient, world: World, populated_db: Database) -> None:
    await api.order()
    async with populated_db.connection() as connection:
        for table in ("api_keys", "audit_log", "orders", "events"):
            rows = await connection.fetch(f"SELECT t::text FROM {table} t")  # noqa: S608 - names of ours
            assert rows
            assert not any(world.ours_test.key[11:] in row[0] for row in rows)
        listed = await connection.fetchval("SELECT last_four FROM api_keys WHERE id = $1", world.ours_test.key_id)
    assert listed == world.ours_test.key[-4:]
