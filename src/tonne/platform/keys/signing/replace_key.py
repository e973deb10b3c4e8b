"""Replace the current key of a purpose: by a new one, or by one that the operator keeps elsewhere."""

from datetime import datetime, timedelta

from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.keys.secret_box import SecretBox
from tonne.platform.keys.signing import key_store
from tonne.platform.keys.signing.document_key import KeyUnusable
from tonne.platform.keys.signing.errors import SigningKeyNotFound
from tonne.platform.keys.signing.make_key import make_key
from tonne.platform.keys.signing.model import KeyPurpose, KeyRecord
from tonne.platform.values.context import Actor, new_id

# Other processes notice that a key was replaced a few seconds later. What they sign until then is valid.
NOTICED_AFTER = timedelta(minutes=1)
# Processes with the previous settings use the previous key until they are restarted.
RESTARTED_AFTER = timedelta(hours=1)


def new_record(purpose: KeyPurpose, public: str, now: datetime) -> KeyRecord:
    return KeyRecord(
        id=new_id("sgk"), purpose=purpose, created_at=now, retired_at=None, revoked_from=None, public=public
    )


async def use_outside_key(tx: Connection, public: str, *, actor: Actor, now: datetime) -> KeyRecord:
    """Make a key for documents that is not in the database the current one. Raises KeyUnusable if it was revoked.

    `public` is its certificate. A key that was used before becomes the current one again.
    """
    purpose = KeyPurpose.DOCUMENT
    await key_store.lock_purpose(tx, purpose)
    known = await key_store.find_key_by_public(tx, public)
    if known is not None and known.revoked_from is not None:
        raise KeyUnusable(f"The key {known.id} was revoked. Set another key and certificate.")
    if known is not None and known.retired_at is None:
        return known
    replaced = await key_store.retire_current_key(tx, purpose, now + RESTARTED_AFTER)
    record = known or new_record(purpose, public, now)
    if known is None:
        await key_store.insert_signing_key(tx, record, None)
    else:
        await key_store.reinstate_key(tx, known.id)
    await audit.record(
        tx, None, "signing_key.set", actor=actor, at=now, subject_id=record.id, purpose=purpose, replaced=replaced
    )
    return record


async def rotate_key(
    tx: Connection, purpose: KeyPurpose, box: SecretBox, seller: str, *, actor: Actor, now: datetime
) -> tuple[KeyRecord, str | None]:
    """Create a key in the database and retire the current one. Returns the new key and the id of the old one."""
    made = make_key(purpose, seller, now)
    await key_store.lock_purpose(tx, purpose)
    replaced = await key_store.retire_current_key(tx, purpose, now + NOTICED_AFTER)
    record = new_record(purpose, made.public, now)
    await key_store.insert_signing_key(tx, record, box.seal(made.private, record.id))
    await audit.record(
        tx, None, "signing_key.rotated", actor=actor, at=now, subject_id=record.id, purpose=purpose, replaced=replaced
    )
    return record, replaced


async def retire_key(tx: Connection, key_id: str, *, actor: Actor, now: datetime) -> KeyRecord:
    """The next signature creates a new key. Raises SigningKeyNotFound."""
    record = await _lock(tx, key_id)
    if record.retired_at is None:
        await key_store.retire_current_key(tx, record.purpose, now + NOTICED_AFTER)
        await audit.record(
            tx, None, "signing_key.retired", actor=actor, at=now, subject_id=key_id, purpose=record.purpose
        )
    return record


async def revoke_key(tx: Connection, key_id: str, from_: datetime, *, actor: Actor, now: datetime) -> KeyRecord:
    """It leaked: signatures dated `from_` or later no longer count. Raises SigningKeyNotFound."""
    record = await _lock(tx, key_id)
    await key_store.revoke_signing_key(tx, key_id, from_, now)
    await audit.record(
        tx,
        None,
        "signing_key.revoked",
        actor=actor,
        at=now,
        subject_id=key_id,
        purpose=record.purpose,
        revoked_from=from_.isoformat(),
    )
    return record


async def _lock(tx: Connection, key_id: str) -> KeyRecord:
    record = await key_store.find_signing_key(tx, key_id)
    if record is None:
        raise SigningKeyNotFound
    await key_store.lock_purpose(tx, record.purpose)
    return await key_store.find_signing_key(tx, key_id) or record
