"""Issuing and revoking API keys."""

from datetime import datetime

from tonne.accounts import audit, store
from tonne.accounts.errors import KeyNotFound
from tonne.accounts.model import ApiKey, new_secret
from tonne.accounts.open_organisation import check_name
from tonne.base.actor import Actor
from tonne.base.ids import new_id
from tonne.base.scope import Scope
from tonne.db.pool import Connection
from tonne.http.authenticator import hash_key


async def issue_key(tx: Connection, scope: Scope, name: str, *, actor: Actor, now: datetime) -> tuple[ApiKey, str]:
    """Create a key for the organisation and mode of `scope`, whose account is the key's default account.

    Returns the key and its secret. Only a hash of the secret is stored, so it cannot be shown again.
    """
    secret = new_secret(scope.mode)
    key = ApiKey(new_id("key"), scope, check_name(name), secret[-4:], now, None, None)
    await store.insert_key(tx, key, hash_key(secret.encode()))
    await audit.record(
        tx,
        scope.organisation_id,
        "api_key.issued",
        actor=actor,
        at=now,
        subject_id=key.id,
        mode=scope.mode,
        after={"name": key.name, "default_account_id": scope.account_id},
        last_four=key.last_four,
    )
    return key, secret


async def revoke_key(tx: Connection, key_id: str, *, actor: Actor, now: datetime) -> ApiKey:
    """The key stops working within seconds, once every process has looked it up again."""
    key = await store.revoke_key_any_account(tx, key_id, now)
    if key is None:
        raise KeyNotFound
    await audit.record(
        tx,
        key.scope.organisation_id,
        "api_key.revoked",
        actor=actor,
        at=now,
        subject_id=key.id,
        mode=key.scope.mode,
        # A repeated command changes nothing.
        before={"revoked_at": None if key.revoked_at == now else key.revoked_at},
        after={"revoked_at": key.revoked_at},
        last_four=key.last_four,
    )
    return key
