"""Setting up and removing the authenticator app."""

from datetime import datetime

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.keys.secret_box import SecretBox
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Actor, Clock
from tonne.selling.users import session_store, store
from tonne.selling.users.errors import CodeRefused, SecondFactorNeeded
from tonne.selling.users.model import User
from tonne.selling.users.second_factor import passkey_store, totp


class TotpSetup(Struct, frozen=True):
    secret: str
    qr_svg: str


class SecondFactor:
    def __init__(self, box: SecretBox, settings: Settings, clock: Clock) -> None:
        self._box = box
        self._issuer = settings.seller_name
        self._clock = clock

    async def prepare(self, tx: Connection, user: User) -> TotpSetup:
        """The secret to scan: the one that waits for its first code, or a new one."""
        row = await store.lock_totp(tx, user.id)
        if row["totp_box"] is None:
            secret = totp.new_totp_secret()
            await store.set_totp(tx, user.id, self._box.seal(secret, user.id), enabled=False, step=0)
        else:
            secret = self._box.open(row["totp_box"], user.id)
        return TotpSetup(secret, totp.qr_code(totp.provisioning_uri(secret, user.email, self._issuer)))

    async def enable(self, tx: Connection, user: User, code: str, *, but_session: str, actor: Actor) -> list[str]:
        """Confirm the app with its first code. Returns the recovery codes, which are shown once. Raises CodeRefused.

        All other sessions end: they were begun without the second factor.
        """
        now, row = self._clock(), await store.lock_totp(tx, user.id)
        if row["totp_box"] is None or row["totp_enabled"]:
            raise CodeRefused("Start again: there is no app to confirm.")
        step = totp.accepted_step(self._box.open(row["totp_box"], user.id), code, now, row["totp_step"])
        if step is None:
            raise CodeRefused("This code is wrong. Enter the current code that your app shows for this account.")
        await store.set_totp(tx, user.id, row["totp_box"], enabled=True, step=step)
        codes = await new_codes(tx, user.id)
        await session_store.revoke_sessions(tx, user.id, now, but=but_session)
        await session_store.note_strong(tx, but_session)
        await audit.record(tx, None, "user.second_factor_enabled", actor=actor, at=now, subject_id=user.id)
        return codes

    async def renew_codes(self, tx: Connection, user: User, *, actor: Actor) -> list[str]:
        """New recovery codes. The old ones stop working."""
        codes = await new_codes(tx, user.id)
        await audit.record(tx, None, "user.recovery_codes_renewed", actor=actor, at=self._clock(), subject_id=user.id)
        return codes


async def turn_off_app(tx: Connection, user: User, *, actor: Actor, now: datetime) -> None:
    """Raises SecondFactorNeeded for an operator without a passkey."""
    await _remove_app(tx, user)
    await require_other_factor(tx, user)
    await drop_unused_codes(tx, user.id)
    await audit.record(tx, None, "user.second_factor_disabled", actor=actor, at=now, subject_id=user.id)


async def reset_second_factors(tx: Connection, user: User, *, actor: Actor, now: datetime) -> None:
    """For somebody who has lost their devices: removes the app, all passkeys and all sessions."""
    await _remove_app(tx, user)
    removed = await passkey_store.delete_passkeys(tx, user.id)
    await drop_unused_codes(tx, user.id)
    await session_store.revoke_sessions(tx, user.id, now)
    await audit.record(
        tx, None, "user.second_factor_disabled", actor=actor, at=now, subject_id=user.id, passkey_ids=removed
    )


async def new_codes(tx: Connection, user_id: str) -> list[str]:
    """Recovery codes, which replace all others."""
    codes = totp.new_recovery_codes()
    await store.delete_recovery_codes(tx, user_id)
    await store.insert_recovery_codes(tx, user_id, [totp.hash_recovery_code(code) for code in codes])
    return codes


async def require_other_factor(tx: Connection, user: User) -> None:
    """After one was removed. Raises SecondFactorNeeded if an operator has no second factor left."""
    if user.is_operator and not await store.has_second_factor(tx, user.id):
        raise SecondFactorNeeded


async def drop_unused_codes(tx: Connection, user_id: str) -> None:
    """Recovery codes replace a second factor: without one there is nothing to replace."""
    if not await store.has_second_factor(tx, user_id):
        await store.delete_recovery_codes(tx, user_id)


async def _remove_app(tx: Connection, user: User) -> None:
    await store.lock_totp(tx, user.id)
    await store.set_totp(tx, user.id, None, enabled=False, step=0)
