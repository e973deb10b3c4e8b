"""Issuing and revoking keys."""

from datetime import datetime

from tonne.accounts import audit, store
from tonne.accounts.errors import KeyNotFound
from tonne.accounts.model import ApiKey, new_secret
from tonne.accounts.open_organisation import check_name
from tonne.base.ids import new_id
from tonne.base.scope import Scope
from tonne.db.pool import Connection
from tonne.http.authenticator import hash_key


async def issue_key(tx: Connection, scope: Scope, name: str, *, actor: str, now: datetime) -> tuple[ApiKey, str]:
    """A key for the organisation and mode of `scope`, with its account as default. The secret is returned only here."""
    secret = new_secret(scope.mode)
    key = ApiKey(new_id("key"), scope, check_name(name), secret[-4:], now, None, None)
    await store.insert_key(tx, key, hash_key(secret.encode()))
    await audit.record(
        tx,
        scope.organisation_id,
        actor=actor,
        action="api_key.issued",
        subject_id=key.id,
        at=now,
        last_four=key.last_four,
    )
    return key, secret


async def revoke_key(tx: Connection, key_id: str, *, actor: str, now: datetime) -> ApiKey:
    """The key stops working within seconds: every process looks its keys up again that often."""
    key = await store.revoke_key_any_account(tx, key_id, now)
    if key is None:
        raise KeyNotFound
    await audit.record(
        tx,
        key.scope.organisation_id,
        actor=actor,
        action="api_key.revoked",
        subject_id=key.id,
        at=now,
        last_four=key.last_four,
    )
    return key
