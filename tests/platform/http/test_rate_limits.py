"""Rate limits per key, and for wrong keys per network address: 429 with Retry-After."""

import httpx
import msgspec
import pytest

from tests.platform.http.writes import count_rows
from tests.support.api_client import ApiClient, codes
from tests.support.world import World
from tonne.apps.wiring.app import Services, build_app
from tonne.platform.db.database import Database
from tonne.platform.http.authenticator import ORGANISATION_KEYS
from tonne.platform.http.client_address import limit_name
from tonne.platform.http.errors import RateLimited
from tonne.platform.http.limits.rate_limit import SITE_NETWORKS, TokenBuckets
from tonne.platform.settings.settings import Settings

WRONG = {"Authorization": "Bearer wrong"}


def assert_too_many(answer: httpx.Response, at_most_s: int) -> None:
    assert (answer.status_code, codes(answer)) == (429, ["rate_limited"])
    assert 1 <= int(answer.headers["retry-after"]) <= at_most_s
    assert answer.headers["ratelimit-remaining"] == "0"


class TestPerKey:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return msgspec.structs.replace(settings, rate_limit_per_second=0.01, rate_limit_burst=3, catalogue_refresh_s=0)

    async def test_a_key_is_limited_after_its_burst(self, api: ApiClient, world: World, populated_db: Database) -> None:
        for remaining in ("2", "1", "0"):
            answer = await api.get("/v1/orders/unknown")
            assert answer.status_code == 404
            assert answer.headers["ratelimit-limit"] == "3"
            assert answer.headers["ratelimit-remaining"] == remaining
            assert 0 < int(answer.headers["ratelimit-reset"]) <= 300
        before = await count_rows(populated_db)
        refused = await api.post("/v1/orders/by-mass", {"mass": {"amount": "1", "unit": "t"}})
        assert_too_many(refused, 100)
        assert await count_rows(populated_db) == before
        # The limit is per key, for all accounts that it acts for.
        assert_too_many(await api.get("/v1/orders", Service_Account=world.ours_test.client_account_id), 100)
        assert (await api.as_key(world.theirs_test.key).get("/v1/orders")).status_code == 200
        assert (await api.http.get("/health/live")).status_code == 200

    async def test_wrong_keys_do_not_count_towards_the_limit_of_a_valid_one(self, api: ApiClient) -> None:
        for _ in range(5):
            assert (await api.as_key("wrong").get("/v1/orders")).status_code == 401
        assert (await api.get("/v1/orders")).headers["ratelimit-remaining"] == "2"


class TestPerKeyRefill:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return msgspec.structs.replace(settings, rate_limit_per_second=1000, rate_limit_burst=1, catalogue_refresh_s=0)

    async def test_a_limited_key_is_allowed_again_after_a_while(self, api: ApiClient) -> None:
        for _ in range(20):
            answer = await api.get("/v1/orders")
            if answer.status_code == 429:
                assert_too_many(answer, 1)
        await _until_allowed(api)


async def _until_allowed(api: ApiClient) -> None:
    for _ in range(1000):
        if (await api.get("/v1/orders")).status_code == 200:
            return
    pytest.fail("the bucket never filled again")


def _from_address(services: Services, address: str) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(build_app(services), client=(address, 1234))
    return httpx.AsyncClient(transport=transport, base_url="http://tonne.test")


class TestFailedAuthentication:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return msgspec.structs.replace(
            settings,
            failed_auth_per_minute=0.6,
            failed_auth_burst=3,
            trusted_proxies="10.0.0.0/8, fd00::/8",
            key_refresh_s=0,
        )

    async def test_wrong_keys_are_limited_per_address(self, services: Services) -> None:
        async with _from_address(services, "192.0.2.1") as client:
            for _ in range(3):
                assert (await client.get("/v1/orders", headers=WRONG)).status_code == 401
            assert_too_many(await client.get("/v1/orders", headers=WRONG), 100)
            assert_too_many(await client.get("/v1/orders"), 100)
        async with _from_address(services, "192.0.2.2") as client:
            assert (await client.get("/v1/orders", headers=WRONG)).status_code == 401

    async def test_a_forwarded_address_is_used_only_from_a_trusted_proxy(self, services: Services) -> None:
        async with _from_address(services, "192.0.2.1") as stranger:
            for i in range(3):
                headers = WRONG | {"X-Forwarded-For": f"203.0.113.{i}"}
                assert (await stranger.get("/v1/orders", headers=headers)).status_code == 401
            answer = await stranger.get("/v1/orders", headers=WRONG | {"X-Forwarded-For": "203.0.113.9"})
            assert_too_many(answer, 100)
        async with _from_address(services, "10.1.2.3") as proxy:
            # The last address that is not a trusted proxy counts: the client can forge everything before it.
            for invented in ("", "198.51.100.1, ", "10.9.9.9, ", "garbage, "):
                headers = WRONG | {"X-Forwarded-For": f"{invented}203.0.113.7, 10.1.1.1, fd00::1"}
                answer = await proxy.get("/v1/orders", headers=headers)
                assert answer.status_code == (429 if invented == "garbage, " else 401)
            fresh = WRONG | {"X-Forwarded-For": "203.0.113.8"}
            assert (await proxy.get("/v1/orders", headers=fresh)).status_code == 401

    async def test_a_proxy_may_add_a_header_line_of_its_own(self, services: Services) -> None:
        """HAProxy does not extend the line that is there already."""
        async with _from_address(services, "10.1.2.3") as proxy:
            for client in ("203.0.113.7", "203.0.113.8"):
                lines = [*WRONG.items(), ("X-Forwarded-For", client), ("X-Forwarded-For", "10.1.1.1")]
                statuses = [(await proxy.get("/v1/orders", headers=lines)).status_code for _ in range(4)]
                assert statuses == [401, 401, 401, 429]

    async def test_without_a_valid_forwarded_address_the_proxy_is_the_client(self, services: Services) -> None:
        async with _from_address(services, "10.1.2.3") as proxy:
            statuses = [(await proxy.get("/v1/orders", headers=WRONG)).status_code for _ in range(4)]
        assert statuses == [401, 401, 401, 429]

    async def test_a_key_in_use_is_not_locked_out_by_wrong_keys_from_its_address(
        self, services: Services, world: World
    ) -> None:
        """Clients may share an address: one that guesses keys must not lock out the others.

        Here nothing stays remembered, so that each use looks its key up again, as it otherwise does every few seconds.
        """
        right = {"Authorization": f"Bearer {world.ours_test.key}"}
        async with _from_address(services, "192.0.2.1") as client:
            assert (await client.get("/v1/orders", headers=right)).status_code == 200
            for _ in range(4):
                await client.get("/v1/orders", headers=WRONG)
            assert (await client.get("/v1/orders", headers=WRONG)).status_code == 429
            assert (await client.get("/v1/orders", headers=right)).status_code == 200


def test_a_site_of_ipv6_is_limited_beyond_its_networks() -> None:
    limit = TokenBuckets("one", 0.01, 3, lambda: 0.0)
    networks = [limit_name(f"2001:db8:1:{number:x}::1") for number in range(30)]
    allowed = sum(limit.consume(network).allowed for network in networks for _ in range(5))
    assert allowed == 3 * SITE_NETWORKS
    assert limit.consume(networks[-1]).retry_after_s > 0
    assert limit.consume(limit_name("2001:db8:2::1")).allowed
    assert limit.consume(limit_name("203.0.113.7")).remaining == 2
    # A name that only looks like a network.
    assert limit.consume("ann@ours.test/64").allowed


class TestOrganisations:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return msgspec.structs.replace(settings, rate_limit_per_second=0.01, rate_limit_burst=2)

    def test_the_keys_of_an_organisation_are_limited_together(self, services: Services, world: World) -> None:
        scope = world.ours_test.scope
        charge = services.authenticator.charge
        for number in range(ORGANISATION_KEYS):
            charge(f"key_{number}", scope, 2)
        with pytest.raises(RateLimited, match="keys of your organisation") as refused:
            charge("key_new", scope, 2)
        assert int(refused.value.headers["Retry-After"]) > 0
        charge("key_new_live", world.ours_live.scope, 2)
        charge("key_theirs", world.theirs_test.scope, 2)
