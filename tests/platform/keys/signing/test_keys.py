"""The operator's keys: created once, sealed, and encrypted again when the secret key changes."""

import asyncio
import base64

import pytest

from tests.support.clock import START
from tests.support.command import output_of
from tonne.platform.db.database import Database
from tonne.platform.keys.secret_box import SecretBox, SecretUnreadable
from tonne.platform.keys.signing.keys import SigningKeys
from tonne.platform.keys.signing.model import KeyPurpose
from tonne.platform.settings.settings import Settings

NEW = base64.b64encode(bytes([1]) * 32).decode()


def keys_of(database: Database, settings: Settings) -> SigningKeys:
    """As another process has them."""
    return SigningKeys(database, SecretBox.from_settings(settings), settings, lambda: START)


async def test_processes_that_start_at_once_use_the_same_key(db: Database, settings: Settings) -> None:
    first, second = (keys_of(db, settings) for _ in range(2))
    for purpose in (KeyPurpose.CREDENTIAL, KeyPurpose.LOG):
        found = await asyncio.gather(*(keys.current(purpose) for keys in (first, second) for _ in range(3)))
        assert len({key.id for key in found}) == 1
        [record] = await first.all(purpose)
        assert record == found[0].record
        record.public_key.verify(found[0].private_key.sign(b"text"), b"text")
    async with db.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM audit_log WHERE action = 'signing_key.created'") == 2


async def test_a_sealed_key_belongs_to_its_row_and_is_resealed_with_the_secret_key(
    db: Database, settings: Settings
) -> None:
    before = await keys_of(db, settings).current(KeyPurpose.LOG)
    async with db.connection() as connection:
        sealed = await connection.fetchval("SELECT private_box FROM signing_keys")
    with pytest.raises(SecretUnreadable):
        SecretBox.from_settings(settings).open(sealed, "sgk_another")
    changed = {"secret_key": NEW, "secret_keys_old": settings.secret_key}
    said = await asyncio.to_thread(output_of, "secrets", "rotate", database_url=db._url, **changed)
    assert "1 secret(s) encrypted again" in said
    after = await keys_of(db, Settings(secret_key=NEW)).current(KeyPurpose.LOG)
    assert after.private_key.private_bytes_raw() == before.private_key.private_bytes_raw()
