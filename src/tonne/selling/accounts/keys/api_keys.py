"""Issuing, rotating and revoking API keys."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.http.authenticator import hash_key
from tonne.platform.values.context import Actor, By, Mode, Scope, Tenant, new_id, replace
from tonne.selling.accounts import errors, store
from tonne.selling.accounts.keys import store as key_store
from tonne.selling.accounts.keys.restrictions import UNRESTRICTED, KeyRestrictions, KeyRight, excess
from tonne.selling.accounts.model import AccountKind, ApiKey, new_secret
from tonne.selling.accounts.organisations.change_organisation import check_name

# Working keys of one organisation in one mode.
MAX_KEYS = 200
MAX_OVERLAP = timedelta(days=7)


async def issue_key(
    tx: Connection,
    scope: Scope,
    name: str,
    *,
    by: By,
    rights: Sequence[KeyRight] = (),
    restrictions: KeyRestrictions = UNRESTRICTED,
    creator: ApiKey | None = None,
) -> tuple[ApiKey, str]:
    """Create a key for the organisation and mode of `scope`, whose account is the key's default account.

    Returns the key and its secret. Only a hash of the secret is stored, so it cannot be shown again. `creator` is the
    key that creates it, if any. Raises KeyRightInvalid for a right that the key cannot have, KeyRestrictionInvalid,
    KeyRightsExceeded and KeyLimitReached.
    """
    key = ApiKey(
        id=new_id("key"),
        scope=scope,
        name=check_name(name),
        # Set with the secret.
        last_four="",
        created_at=by.at,
        last_used_at=None,
        revoked_at=None,
        rights=tuple(dict.fromkeys([*rights, *restrictions.rights])),
        restrictions=restrictions,
        created_by=str(by.actor),
    )
    await _check_rights(tx, key)
    await _check_accounts(tx, key)
    if creator is not None:
        _require_no_excess(creator, key)
    if await key_store.count_working_keys(tx, scope.tenant, by.at) >= MAX_KEYS:
        raise errors.KeyLimitReached
    return await _insert(tx, key, by.actor)


async def rotate_key(
    tx: Connection, tenant: Tenant, key_id: str, *, overlap: timedelta, by: By, creator: ApiKey | None = None
) -> tuple[ApiKey, str]:
    """Create a key with the same name, rights, restrictions and limit. The old one works until the overlap ends.

    Raises KeyNotFound, KeyEnded and KeyRightsExceeded.
    """
    if not timedelta(0) <= overlap <= MAX_OVERLAP:
        hours = MAX_OVERLAP // timedelta(hours=1)
        raise errors.KeyRestrictionInvalid(f"The overlap must be 0 to {hours} hours.", field="overlap_hours")
    old = await key_store.lock_key(tx, tenant, key_id)
    if old is None:
        raise errors.KeyNotFound
    if old.has_ended(by.at) or old.replaced_by is not None:
        raise errors.KeyEnded
    new = replace(
        old,
        id=new_id("key"),
        created_at=by.at,
        last_used_at=None,
        created_by=str(by.actor),
        limit_key_id=old.limit_key_id or old.id,
    )
    if creator is not None:
        _require_no_excess(creator, new)
    rotated = await _insert(tx, new, by.actor, replaces=old.id)
    ends_at = min(filter(None, (old.restrictions.expires_at, by.at + overlap)))
    await key_store.set_key_replaced(tx, old, new.id, ends_at)
    await audit.record(
        tx,
        tenant,
        "api_key.rotated",
        by=by,
        subject_id=old.id,
        before={"expires_at": old.restrictions.expires_at, "replaced_by": None},
        after={"expires_at": ends_at, "replaced_by": new.id},
        last_four=old.last_four,
    )
    return rotated


async def revoke_key(
    tx: Connection, key_id: str, *, by: By, tenant: Tenant | None = None, revoker: ApiKey | None = None
) -> ApiKey:
    """The key stops working within seconds, once every process has looked it up again.

    The key must belong to `tenant`; None for the operator. `revoker` is the key that revokes it, if any. Raises
    KeyNotFound and KeyRightsExceeded.
    """
    tenant = tenant or await key_store.find_tenant_of_key_any_account(tx, key_id)
    key = None if tenant is None else await key_store.lock_key(tx, tenant, key_id)
    if key is None:
        raise errors.KeyNotFound
    # A repeated command changes nothing.
    if key.revoked_at is not None:
        return key
    if revoker is not None and revoker.id != key.id:
        _require_no_excess(revoker, key)
    await key_store.set_key_revoked(tx, key, by.at)
    await audit.record(
        tx,
        key.scope,
        "api_key.revoked",
        by=by,
        subject_id=key.id,
        before={"revoked_at": None},
        after={"revoked_at": by.at},
        last_four=key.last_four,
    )
    return replace(key, revoked_at=by.at)


async def _insert(tx: Connection, key: ApiKey, actor: Actor, **details: Any) -> tuple[ApiKey, str]:
    secret = new_secret(key.scope.mode)
    key = replace(key, last_four=secret[-4:])
    await key_store.insert_key(tx, key, hash_key(secret.encode()))
    await audit.record(
        tx,
        key.scope,
        "api_key.issued",
        by=actor.at(key.created_at),
        subject_id=key.id,
        after={
            "name": key.name,
            "default_account_id": key.scope.account_id,
            **({"rights": key.rights} if key.rights else {}),
            **key.restrictions.audited(),
        },
        last_four=key.last_four,
        **details,
    )
    return key, secret


async def _check_rights(tx: Connection, key: ApiKey) -> None:
    if KeyRight.PERSONS in key.rights and key.scope.mode is not Mode.LIVE:
        raise errors.KeyRightInvalid(field="permissions")
    if key.rights and await _kind(tx, key.scope) is not AccountKind.ACCOUNT:
        raise errors.KeyRightInvalid(field="permissions")


async def _check_accounts(tx: Connection, key: ApiKey) -> None:
    account_ids, scope = key.restrictions.account_ids, key.scope
    if account_ids is None:
        return
    if await key_store.count_accounts(tx, scope.tenant, account_ids) != len(account_ids):
        raise errors.KeyRestrictionInvalid(
            "Not all of these accounts exist in this mode. Check their ids.", field="account_ids"
        )
    if scope.account_id not in account_ids:
        raise errors.KeyRestrictionInvalid(
            "The default account is not one of the accounts of the key. Add it, or choose another default account.",
            field="account_ids",
        )


def _require_no_excess(creator: ApiKey, other: ApiKey) -> None:
    """No key creates or revokes a stronger one, or escapes its own spending limit."""
    if creator.monthly_limit_minor is not None:
        raise errors.KeyRightsExceeded(
            "A key with a monthly limit cannot manage other keys. Use a key without a limit."
        )
    found = excess(creator.restrictions, creator.rights, other.restrictions, other.rights)
    if found is not None:
        raise errors.KeyRightsExceeded(
            f"The other key has, or would have, {found}, which the key of this request does not have. Use a key with "
            "more rights, or restrict the new key further."
        )


async def _kind(tx: Connection, scope: Scope) -> AccountKind | None:
    account = await store.find_account(tx, scope)
    return None if account is None else account.kind
