"""Requests that create something once per idempotency key: what a repeat gets, when, and who gets it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.support.api_client import ApiClient, codes, fields
from tests.support.clock import ManualClock
from tests.support.world import TESTER, World
from tonne.apps.wiring.app import Services
from tonne.platform.keys.replays.respond_once import PruneResponses
from tonne.platform.keys.replays.sealed import SEALED
from tonne.platform.keys.sealed import reseal_secrets
from tonne.platform.keys.secret_box import SecretBox
from tonne.platform.settings.secret_keys import parse_key
from tonne.selling.accounts.keys.api_keys import issue_key

LINK = {"title": "Offset your flight"}
LINKS = "/v1/offset-links"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def hooks(api: ApiClient, services: Services) -> AsyncIterator[ApiClient]:
    yield api
    await services.webhooks.close()


async def create(api: ApiClient, body: Any = LINK, key: str = "one", **headers: str) -> httpx.Response:
    return await api.post(LINKS, body, Idempotency_Key=key, **headers)


async def count(services: Services, table: str = "offset_links") -> int:
    async with services.database.connection() as connection:
        found: int = await connection.fetchval(f"SELECT count(*) FROM {table}")  # noqa: S608 - of a test
    return found


async def other_key(services: Services, world: World) -> str:
    async with services.database.transaction() as tx:
        _, secret = await issue_key(tx, world.ours_test.scope, "another", by=TESTER.at(services.clock()))
    return secret


async def test_a_repeat_gets_the_first_response_with_its_secret(api: ApiClient, services: Services) -> None:
    first, repeated = await create(api), await create(api)
    assert (first.status_code, repeated.status_code) == (201, 200)
    assert repeated.content == first.content
    assert first.json()["secret"].startswith("lsec_")
    assert (repeated.headers["Idempotent-Replayed"], "Idempotent-Replayed" in first.headers) == ("true", False)
    assert await count(services) == 1


async def test_requests_at_once_create_one_object(hooks: ApiClient, services: Services) -> None:
    body = {"url": "https://1.1.1.1/hook"}
    answers = await asyncio.gather(*(hooks.post("/v1/webhooks", body, Idempotency_Key="one") for _ in range(6)))
    assert sorted(answer.status_code for answer in answers) == [200] * 5 + [201]
    assert len({answer.json()["secret"] for answer in answers}) == 1
    assert await count(services, "webhooks") == 1


async def test_a_refused_request_does_not_use_the_key(api: ApiClient, services: Services) -> None:
    refused = await create(api, {"title": "Offset", "preset_quantity": "-1"})
    assert refused.status_code == 400
    assert await count(services, "idempotent_responses") == 0
    assert (await create(api)).status_code == 201


async def test_if_the_response_cannot_be_stored_nothing_is_created(api: ApiClient, services: Services) -> None:
    """As after a crash between the two: the repeat must create it, and only then."""
    async with services.database.transaction() as tx:
        await tx.execute(
            "ALTER TABLE idempotent_responses ADD CONSTRAINT crash CHECK (response_box IS NULL) NOT VALID",
        )
    assert (await create(api)).status_code == 500
    assert (await count(services), await count(services, "idempotent_responses")) == (0, 0)
    async with services.database.transaction() as tx:
        await tx.execute("ALTER TABLE idempotent_responses DROP CONSTRAINT crash")
    assert (await create(api)).status_code == 201


async def test_another_body_gets_the_original_without_its_secret(api: ApiClient) -> None:
    first, other = await create(api), await create(api, {"title": "Another"})
    assert (other.status_code, other.headers["Idempotency-Mismatch"]) == (200, "true")
    assert other.json() == {**first.json(), "secret": None}


async def test_another_api_key_gets_the_original_without_its_secret(
    api: ApiClient, services: Services, world: World
) -> None:
    first = await create(api)
    other = await create(api.as_key(await other_key(services, world)))
    assert "Idempotency-Mismatch" not in other.headers
    assert other.json() == {**first.json(), "secret": None}


async def test_after_a_day_a_repeat_gets_the_current_state_without_the_secret(
    api: ApiClient, clock: ManualClock
) -> None:
    first = (await create(api)).json()
    changed = {"title": "Changed"}
    await api.http.put(f"{LINKS}/{first['id']}", json=changed, headers=api._headers({}))
    clock.advance(hours=23, minutes=59)
    assert (await create(api)).json() == first
    clock.advance(minutes=1)
    repeated = await create(api)
    assert repeated.headers["Idempotent-Replayed"] == "true"
    assert repeated.json() == {**first, **changed, "secret": None}


async def test_the_job_removes_responses_after_a_day_and_keeps_the_keys(
    api: ApiClient, services: Services, clock: ManualClock
) -> None:
    await create(api)
    clock.advance(hours=20)
    await create(api, key="two")
    clock.advance(hours=5)
    assert not await PruneResponses(services.database, clock).run_once()
    async with services.database.connection() as connection:
        rows = await connection.fetch("SELECT response_box FROM idempotent_responses ORDER BY created_at")
    assert [row["response_box"] is None for row in rows] == [True, False]
    assert (await create(api)).json()["secret"] is None
    assert (await create(api, key="two")).json()["secret"] is not None
    assert await count(services) == 2


async def test_a_repeat_after_the_object_was_deleted_is_not_found(
    hooks: ApiClient, services: Services, clock: ManualClock
) -> None:
    """It must not create another one: the client has deleted what it asked for."""
    path, body = "/v1/webhooks", {"url": "https://1.1.1.1/hook"}
    first = (await hooks.post(path, body, Idempotency_Key="one")).json()
    await hooks.http.delete(f"{path}/{first['id']}", headers=hooks._headers({}))
    clock.advance(hours=25)
    assert codes(await hooks.post(path, body, Idempotency_Key="one")) == ["webhook_not_found"]
    assert await count(services, "webhooks WHERE deleted_at IS NULL") == 0


async def test_keys_are_unique_per_account_and_route(api: ApiClient, services: Services, world: World) -> None:
    client = {"Service_Account": world.ours_test.client_account_id}
    answers = [await create(api), await create(api, **client), await create(api.as_key(world.theirs_test.key))]
    assert [answer.status_code for answer in answers] == [201] * 3
    rotated = await api.post(f"{LINKS}/{answers[0].json()['id']}/rotate-secret", {}, Idempotency_Key="one")
    assert "Idempotent-Replayed" not in rotated.headers
    assert await count(services) == 3


async def test_keys_of_what_belongs_to_the_organisation_are_unique_in_its_mode(
    hooks: ApiClient, services: Services, world: World
) -> None:
    path, body = "/v1/webhooks", {"url": "https://1.1.1.1/hook"}
    first = await hooks.post(path, body, Idempotency_Key="one")
    client = world.ours_test.client_account_id
    repeated = await hooks.post(path, body, Idempotency_Key="one", Service_Account=client)
    assert (repeated.status_code, repeated.json()["id"]) == (200, first.json()["id"])
    # The account is part of the request.
    assert (repeated.headers["Idempotency-Mismatch"], repeated.json()["secret"]) == ("true", None)
    live = await hooks.as_key(world.ours_live.key).post(path, body, Idempotency_Key="one")
    assert live.status_code == 201
    assert await count(services, "webhooks") == 2


async def test_the_path_is_part_of_the_request(api: ApiClient) -> None:
    ids = [(await create(api, key=key)).json()["id"] for key in ("one", "two")]
    rotations = [
        await api.post(f"{LINKS}/{link_id}/rotate-secret", {"overlap_s": 60}, Idempotency_Key="rotate")
        for link_id in (*ids, ids[0])
    ]
    assert [answer.json()["id"] for answer in rotations] == [ids[0]] * 3
    assert [answer.headers.get("Idempotency-Mismatch") for answer in rotations] == [None, "true", None]
    assert rotations[2].json()["secret"] == rotations[0].json()["secret"]


async def test_a_key_that_is_too_long_is_refused(api: ApiClient, services: Services) -> None:
    for key in ("x" * 256, ".."):
        refused = await create(api, key=key)
        assert (codes(refused), fields(refused)) == (["validation_error"], ["Idempotency-Key"])
    assert await count(services) == 0


async def test_neither_secrets_nor_keys_are_stored_in_clear(api: ApiClient, services: Services) -> None:
    first = await create(api, key="ann@example.com")
    async with services.database.connection() as connection:
        row = await connection.fetchrow("SELECT * FROM idempotent_responses")
    assert row is not None
    stored = b" ".join(value if isinstance(value, bytes) else str(value).encode() for value in row.values())
    for secret in (first.json()["secret"], "ann@example.com", "Offset your flight"):
        assert secret.encode() not in stored


async def test_responses_are_sealed_again_with_a_new_key(api: ApiClient, services: Services) -> None:
    first = await create(api)
    new = b"2" * 32
    box = SecretBox(new, parse_key(services.settings.secret_key))
    async with services.database.connection() as connection:
        resealed = await reseal_secrets(
            connection, [SEALED], box, actor=TESTER, clock=services.clock, advance=lambda _: None
        )
        row = await connection.fetchrow("SELECT id, response_box FROM idempotent_responses")
    assert (resealed.count, resealed.unreadable) == (1, [])
    assert row is not None
    assert SecretBox(new).open(row["response_box"], row["id"]) == first.text
    # The old key is all that this process has: it sends the original without the secret.
    assert (await create(api)).json() == {**first.json(), "secret": None}
