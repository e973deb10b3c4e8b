"""The demo data."""

import asyncio
import stat
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from tests.support.clock import START
from tests.support.world import TESTER
from tonne.apps.cli.demo.demo import Demo, ensure_demo
from tonne.apps.cli.operations.doctor import examine
from tonne.platform.db.database import Database
from tonne.platform.http.authenticator import hash_key
from tonne.platform.keys.secret_box import SecretBox
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import utc_now
from tonne.selling.accounts import store
from tonne.selling.accounts.keys import store as key_store
from tonne.selling.accounts.organisations.change_organisation import open_organisation


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """`tonne serve` has checked the key before it creates the demo."""
    return Settings(data_dir=str(tmp_path / "data"), port=8123, secret_key="A" * 43)


async def _ensure(db: Database, settings: Settings) -> Demo | None:
    async with db.connection() as connection:
        return await ensure_demo(connection, settings)


def _written(settings: Settings) -> Demo:
    return msgspec.json.decode((settings.data_path / "demo.json").read_bytes(), type=Demo)


async def test_the_demo_is_created_once_in_an_empty_database(db: Database, settings: Settings) -> None:
    demo = await _ensure(db, settings)
    assert demo is not None
    assert await _ensure(db, settings) == demo == _written(settings)
    assert demo.base_url == "http://localhost:8123/v1"
    async with db.connection() as connection:
        assert len(await store.list_organisations_any_account(connection)) == 1
        assert len(await key_store.list_keys(connection, demo.organisation_id)) == 2
        estimates = await connection.fetchval("SELECT count(*) FROM estimates")
        siblings = await connection.fetch("SELECT id, sibling_id FROM accounts WHERE sibling_id IS NOT NULL")
        enabled = await connection.fetch("SELECT id FROM bundles WHERE enabled AND mode = 'test'")
    assert estimates == len(demo.test.estimate_ids) + len(demo.live.estimate_ids)
    pair = (demo.test.account_id, demo.live.account_id)
    assert {tuple(row) for row in siblings} == {pair, pair[::-1]}
    assert {row["id"] for row in enabled} == set(demo.test.bundle_ids)
    assert len(demo.test.bundle_ids) >= 5
    async with db.transaction() as tx:
        assert await examine(tx) == {}


async def test_a_changed_public_url_updates_the_file_and_keeps_the_keys(db: Database, settings: Settings) -> None:
    demo = await _ensure(db, settings)
    moved = await _ensure(db, msgspec.structs.replace(settings, public_url="https://offsets.example.com"))
    assert demo is not None
    assert moved is not None
    assert moved.base_url == "https://offsets.example.com/v1"
    assert (moved.test, moved.live) == (demo.test, demo.live)


@pytest.mark.parametrize("content", [None, b"", b"{", b'{"base_url": 1}'], ids=["lost", "empty", "torn", "wrong"])
async def test_a_lost_or_damaged_demo_file_gets_new_keys_for_the_same_accounts(
    db: Database, settings: Settings, content: bytes | None
) -> None:
    demo = await _ensure(db, settings)
    path = settings.data_path / "demo.json"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    again = await _ensure(db, settings)
    assert demo is not None
    assert again is not None
    assert again.organisation_id == demo.organisation_id
    assert again.test.account_id == demo.test.account_id
    assert again.test.api_key != demo.test.api_key
    assert again == _written(settings)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    async with db.connection() as connection:
        for key in (demo.test.api_key, again.test.api_key, again.live.api_key):
            assert await key_store.find_valid_key(connection, hash_key(key.encode()), utc_now()) is not None


async def test_a_revoked_demo_key_is_replaced(db: Database, settings: Settings) -> None:
    demo = await _ensure(db, settings)
    assert demo is not None
    async with db.transaction() as tx:
        await tx.execute("UPDATE api_keys SET revoked_at = now() WHERE mode = 'test'")
    again = await _ensure(db, settings)
    assert again is not None
    assert again.test.api_key != demo.test.api_key


async def test_a_database_with_other_organisations_is_not_changed(db: Database, settings: Settings) -> None:
    async with db.transaction() as tx:
        await open_organisation(tx, "A real client", Decimal("0.1"), by=TESTER.at(START))
    assert await _ensure(db, settings) is None
    assert not (settings.data_path / "demo.json").exists()
    async with db.connection() as connection:
        assert [found.name for found in await store.list_organisations_any_account(connection)] == ["A real client"]
        assert await connection.fetchval("SELECT count(*) FROM catalogues") == 0


async def test_concurrent_starts_create_one_demo(db: Database, settings: Settings) -> None:
    first, second = await asyncio.gather(_ensure(db, settings), _ensure(db, settings))
    assert first is not None
    assert second is not None
    assert first.organisation_id == second.organisation_id
    async with db.connection() as connection:
        assert len(await store.list_organisations_any_account(connection)) == 1
        # The keys in the file work, whichever process wrote it last.
        for key in (_written(settings).test.api_key, _written(settings).live.api_key):
            assert await key_store.find_valid_key(connection, hash_key(key.encode()), utc_now()) is not None


async def test_the_demo_has_an_owner_and_an_operator_with_a_second_factor(db: Database, settings: Settings) -> None:
    demo = await _ensure(db, settings)
    assert demo is not None
    async with db.connection() as connection:
        users = await connection.fetch("SELECT email, is_operator, is_demo, totp_enabled, totp_box, id FROM users")
        roles = await connection.fetch("SELECT role FROM memberships")
    assert {(row["email"], row["is_operator"], row["is_demo"], row["totp_enabled"]) for row in users} == {
        (demo.sign_in.email, False, True, False),
        (demo.operator.email, True, True, True),
    }
    assert [row["role"] for row in roles] == ["owner"]
    [sealed] = [row for row in users if row["totp_enabled"]]
    assert SecretBox.from_settings(settings).open(sealed["totp_box"], sealed["id"]) == demo.operator.totp_secret
    assert demo.sign_in.password != demo.operator.password
