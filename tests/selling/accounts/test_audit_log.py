"""The audit log: writing entries, and reading them over HTTP."""

import json
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from tests.support.api_client import ApiClient, codes, fields
from tests.support.clock import START
from tests.support.world import TESTER, World
from tonne.platform.db.database import Database
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import Actor, ActorKind, Mode, Scope, to_wire
from tonne.selling.accounts.keys.api_keys import issue_key

LOG = "/v1/audit-log"
OPERATOR = Actor(ActorKind.CLI, "root@db-1", "SUDO_USER=ada")


async def read(api: ApiClient, query: str = "", **headers: str) -> list[dict[str, Any]]:
    answer = await api.get(f"{LOG}?limit=100{query}", **headers)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["data"]
    return found


async def record(db: Database, organisation_id: str | None, action: str, **values: Any) -> None:
    async with db.transaction() as tx:
        await audit.record(tx, organisation_id, action, **{"by": TESTER.at(START), **values})


async def stored(db: Database, action: str) -> list[asyncpg.Record]:
    async with db.connection() as connection:
        return await connection.fetch("SELECT before, after, details FROM audit_log WHERE action = $1", action)


async def test_security_7_a_change_by_api_names_key_address_and_values(api: ApiClient, world: World) -> None:
    link = (await api.post("/v1/offset-links", {"title": "First"})).json()
    changed = await api.http.put(f"/v1/offset-links/{link['id']}", json={"title": "Second"}, headers=api._headers({}))
    assert changed.status_code == 200
    entry, created = await read(api, f"&subject_id={link['id']}")
    assert created["action"] == "offset_link.created"
    assert created["before"] is None
    assert created["after"]["title"] == "First"
    assert entry == {
        "id": entry["id"],
        "created_at": entry["created_at"],
        "account_type": "test",
        "actor": {"type": "api_key", "id": world.ours_test.key_id, "address": "127.0.0.1"},
        "action": "offset_link.changed",
        "subject_id": link["id"],
        "before": {"title": "First"},
        "after": {"title": "Second"},
        "details": {},
    }


async def test_security_7_an_order_stores_the_key_that_placed_it(
    api: ApiClient, world: World, populated_db: Database
) -> None:
    order = await api.order(idempotency_key="k")
    async with populated_db.connection() as connection:
        row = await connection.fetchrow("SELECT id, placed_by_key FROM orders")
    assert row is not None
    assert tuple(row) == (order["id"], world.ours_test.key_id)


async def test_only_values_that_differ_are_stored_and_no_change_leaves_no_entry(db: Database) -> None:
    await record(db, "org_1", "thing.changed", before={"a": 1, "b": 2, "c": 3}, after={"a": 1, "b": 5, "d": 4})
    await record(db, "org_1", "thing.kept", before={"a": 1}, after={"a": 1})
    [row] = await stored(db, "thing.changed")
    assert json.loads(row["before"]) == {"b": 2, "c": 3, "d": None}
    assert json.loads(row["after"]) == {"b": 5, "c": None, "d": 4}
    assert await stored(db, "thing.kept") == []


async def test_an_organisation_reads_only_its_own_entries(api: ApiClient, world: World, populated_db: Database) -> None:
    await record(populated_db, world.theirs_test.scope.organisation_id, "thing.theirs", mode=Mode.TEST)
    await record(populated_db, None, "thing.operator", mode=Mode.TEST)
    await record(populated_db, world.ours_test.scope.organisation_id, "thing.ours", mode=Mode.TEST)
    assert [entry["action"] for entry in await read(api, "&action=thing")] == ["thing.ours"]
    theirs = await read(api.as_key(world.theirs_test.key), "&action=thing")
    assert [entry["action"] for entry in theirs] == ["thing.theirs"]


async def test_a_test_key_reads_only_test_mode(api: ApiClient, world: World, populated_db: Database) -> None:
    for mode in (Mode.LIVE, Mode.TEST, None):
        await record(populated_db, world.ours_test.scope.organisation_id, f"thing.{mode}", mode=mode)
    assert {entry["action"] for entry in await read(api, "&action=thing")} == {"thing.test"}
    live = await read(api.as_key(world.ours_live.key), "&action=thing")
    assert {entry["action"] for entry in live} == {"thing.live", "thing.None"}


async def test_keys_of_client_accounts_cannot_read_it(api: ApiClient, world: World, populated_db: Database) -> None:
    ours = world.ours_test
    async with populated_db.transaction() as tx:
        scope = Scope(ours.scope.organisation_id, ours.client_account_id, Mode.TEST)
        _, secret = await issue_key(tx, scope, "client", by=TESTER.at(START))
    client = api.as_key(secret)
    for headers in ({}, {"Service_Account": ours.scope.account_id}):
        answer = await client.get(LOG, **headers)
        assert (answer.status_code, codes(answer)) == (404, ["audit_log_not_available"])
    # The key decides, not the account that it acts for.
    assert await read(api, Service_Account=ours.client_account_id) == await read(api)


async def test_users_and_hosts_of_the_operator_are_not_shown(
    api: ApiClient, world: World, populated_db: Database
) -> None:
    organisation_id = world.ours_test.scope.organisation_id
    await record(populated_db, organisation_id, "thing.done", by=OPERATOR.at(START), mode=Mode.TEST)
    [entry] = await read(api, "&action=thing")
    assert entry["actor"] == {"type": "operator", "id": None, "address": None}
    assert "sudo" not in (await api.get(f"{LOG}?limit=100")).text


async def test_filters_combine(api: ApiClient, world: World, populated_db: Database) -> None:
    organisation_id = world.ours_test.scope.organisation_id
    for hours in range(4):
        values = {"mode": Mode.TEST, "subject_id": f"thing_{hours % 2}"}
        by = Actor(ActorKind.KEY, f"key_{hours}", "203.0.113.9").at(START + timedelta(hours=hours))
        await record(populated_db, organisation_id, f"thing.step_{hours}", by=by, **values)
    since, until = (to_wire(START + timedelta(hours=hours)) for hours in (1, 3))

    async def steps(query: str) -> list[int]:
        return [int(entry["action"][-1]) for entry in await read(api, f"&action=thing{query}")]

    assert await steps("") == [3, 2, 1, 0]
    assert await steps("&subject_id=thing_1") == [3, 1]
    assert await steps("&key_id=key_2") == [2]
    assert await steps("&key_id=key_") == []
    assert await steps(f"&since={since}&until={until}") == [2, 1]
    assert await steps(f"&since={since}&until={until}&subject_id=thing_0") == [2]
    assert await read(api, "&action=thing.step_3&subject_id=thing_0") == []


async def test_pages_are_complete_and_cursors_belong_to_their_filter(
    api: ApiClient, world: World, populated_db: Database
) -> None:
    organisation_id = world.ours_test.scope.organisation_id
    async with populated_db.transaction() as tx:
        entries = [
            audit.Entry(action="thing.done", subject_id=str(n), organisation_id=organisation_id, mode=Mode.TEST)
            for n in range(7)
        ]
        await audit.record_all(tx, entries, by=TESTER.at(START))
    seen, after = [], ""
    for _ in range(4):
        page = (await api.get(f"{LOG}?action=thing&limit=2{after}")).json()
        seen += [entry["subject_id"] for entry in page["data"]]
        after = f"&after={page['next_cursor']}"
    assert sorted(seen) == sorted(map(str, range(7)))
    assert page["has_more"] is False
    first = (await api.get(f"{LOG}?action=thing&limit=2")).json()["next_cursor"]
    answer = await api.get(f"{LOG}?action=other&after={first}")
    assert (answer.status_code, codes(answer)) == (400, ["pagination_cursor_invalid"])


@pytest.mark.parametrize(
    "text", ["yesterday", "2026-11-15", "2026-02-30T10:00:00Z", "2026-11-15T10:00:00", "0001-01-01T00:00:00%2B14:00"]
)
async def test_an_invalid_time_is_refused(text: str, api: ApiClient) -> None:
    answer = await api.get(f"{LOG}?since={text}")
    assert (answer.status_code, codes(answer), fields(answer)) == (400, ["validation_error"], ["since"])
