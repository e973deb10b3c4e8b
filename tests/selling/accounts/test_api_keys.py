"""API keys."""

import hashlib
from datetime import datetime, timedelta

import pytest

from tests.support.clock import START, ManualClock
from tests.support.world import TESTER, World
from tonne.platform.db.database import Database
from tonne.platform.http.authenticator import KeyHolder, hash_key
from tonne.platform.values.context import Scope
from tonne.selling.accounts.directory import AccountDirectory
from tonne.selling.accounts.errors import KeyNotFound, NameInvalid
from tonne.selling.accounts.keys import store as key_store
from tonne.selling.accounts.keys.api_keys import issue_key, revoke_key
from tonne.selling.accounts.model import ApiKey

DUMP = """
SELECT concat_ws(E'\n', (SELECT string_agg(api_keys::text, E'\n') FROM api_keys),
                 (SELECT string_agg(audit_log::text, E'\n') FROM audit_log))
"""


async def _issue(db: Database, scope: Scope, name: str = "key") -> tuple[ApiKey, str]:
    async with db.transaction() as tx:
        return await issue_key(tx, scope, name, by=TESTER.at(START))


async def test_a_key_contains_its_mode_and_256_random_bits(populated_db: Database, world: World) -> None:
    for tenant, prefix in ((world.ours_test, "tonne_test_"), (world.ours_live, "tonne_live_")):
        secrets = {(await _issue(populated_db, tenant.scope))[1] for _ in range(20)}
        assert len(secrets) == 20
        assert all(secret.startswith(prefix) and len(secret) == len(prefix) + 43 for secret in secrets)


async def test_only_a_hash_of_a_key_is_stored(populated_db: Database, world: World) -> None:
    key, secret = await _issue(populated_db, world.ours_test.scope)
    async with populated_db.connection() as connection:
        stored = await connection.fetchval("SELECT secret_hash FROM api_keys WHERE id = $1", key.id)
        everything = await connection.fetchval(DUMP)
    assert stored == hashlib.sha256(secret.encode()).digest()
    assert key.last_four == secret[-4:]
    opaque = secret.removeprefix("tonne_test_")
    # No part of it longer than the four characters that are listed.
    assert not any(opaque[i : i + 8] in everything for i in range(len(opaque) - 7))


async def test_a_key_is_found_by_its_hash_alone(populated_db: Database, world: World) -> None:
    key, secret = await _issue(populated_db, world.ours_test.scope)
    async with populated_db.connection() as connection:
        assert await key_store.find_valid_key(connection, hash_key(secret.encode()), START) == KeyHolder(
            key.id, world.ours_test.scope
        )
        for wrong in (secret[:-1], secret + "x", secret.swapcase(), "", key.id):
            assert await key_store.find_valid_key(connection, hash_key(wrong.encode()), START) is None


async def test_a_revoked_key_is_invalid_and_keeps_its_first_revocation_time(
    populated_db: Database, world: World
) -> None:
    key, secret = await _issue(populated_db, world.ours_test.scope)
    async with populated_db.transaction() as tx:
        first = await revoke_key(tx, key.id, by=TESTER.at(START + timedelta(hours=1)))
        again = await revoke_key(tx, key.id, by=TESTER.at(START + timedelta(hours=2)))
    assert first.revoked_at == again.revoked_at == START + timedelta(hours=1)
    async with populated_db.connection() as connection:
        assert await key_store.find_valid_key(connection, hash_key(secret.encode()), START) is None
        listed = {k.id: k for k in await key_store.list_keys(connection, key.scope.organisation_id)}
        assert listed[key.id] == first
        assert listed[world.ours_test.key_id].revoked_at is None


async def test_revoking_an_unknown_key_fails(populated_db: Database) -> None:
    with pytest.raises(KeyNotFound):
        async with populated_db.transaction() as tx:
            await revoke_key(tx, "key_gone", by=TESTER.at(START))


async def test_a_key_needs_a_printable_name(populated_db: Database, world: World) -> None:
    for name in ("", "x" * 201, "a\nb"):
        with pytest.raises(NameInvalid):
            await _issue(populated_db, world.ours_test.scope, name)


async def test_keys_are_listed_per_organisation(populated_db: Database, world: World) -> None:
    async with populated_db.connection() as connection:
        theirs = await key_store.list_keys(connection, world.theirs_test.scope.organisation_id)
    assert [key.id for key in theirs] == [world.theirs_test.key_id]


async def test_issuing_and_revoking_are_audited_with_the_last_four_characters_only(
    populated_db: Database, world: World
) -> None:
    key, secret = await _issue(populated_db, world.ours_test.scope)
    async with populated_db.transaction() as tx:
        await revoke_key(tx, key.id, by=TESTER.at(START))
        rows = await tx.fetch(
            "SELECT actor, action, details::text FROM audit_log WHERE subject_id = $1 ORDER BY id", key.id
        )
    details = f'{{"last_four": "{secret[-4:]}"}}'
    assert [tuple(row) for row in rows] == [
        (str(TESTER), "api_key.issued", details),
        (str(TESTER), "api_key.revoked", details),
    ]


async def test_terms_are_cached_for_the_configured_time(populated_db: Database, world: World) -> None:
    clock, scope = ManualClock(), world.ours_test.scope
    directory = AccountDirectory(populated_db, clock, 2.0, clock.monotonic)
    before = await directory.terms_of(scope)
    async with populated_db.transaction() as tx:
        await tx.execute("UPDATE organisations SET fee_rate = 0.2 WHERE id = $1", scope.organisation_id)
    clock.advance(seconds=1.9)
    assert await directory.terms_of(scope) == before
    clock.advance(seconds=0.1)
    assert (await directory.terms_of(scope)).fee_rate * 5 == 1


async def test_last_used_times_are_written_in_one_batch_and_never_decrease(
    populated_db: Database, world: World
) -> None:
    clock = ManualClock()
    directory = AccountDirectory(populated_db, clock, 2.0, clock.monotonic)
    holders = [KeyHolder(tenant.key_id, tenant.scope) for tenant in (world.ours_test, world.theirs_test)]
    for holder in (*holders, holders[0]):
        clock.advance(seconds=1)
        directory.note_use(holder)
    await directory.write_uses()
    await directory.write_uses()
    assert await _last_used(populated_db, holders[0]) == clock()
    assert await _last_used(populated_db, holders[1]) == clock() - timedelta(seconds=1)
    clock.advance(seconds=-3)
    directory.note_use(holders[0])
    await directory.write_uses()
    assert await _last_used(populated_db, holders[0]) == clock() + timedelta(seconds=3)
    assert await _last_used(populated_db, KeyHolder(world.ours_live.key_id, world.ours_live.scope)) is None


async def _last_used(db: Database, holder: KeyHolder) -> datetime | None:
    async with db.connection() as connection:
        keys = await key_store.list_keys(connection, holder.scope.organisation_id)
    return next(key.last_used_at for key in keys if key.id == holder.key_id)
