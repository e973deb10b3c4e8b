"""The authenticator app: setting it up and removing it, its codes (RFC 6238), and recovery codes for a lost phone."""

import hashlib
import hmac
import secrets
from datetime import datetime

import pyotp
from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.keys.secret_box import SecretBox
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Actor, By, Clock
from tonne.selling.users import store
from tonne.selling.users.errors import CodeRefused, SecondFactorNeeded
from tonne.selling.users.model import User
from tonne.selling.users.second_factor import passkey_store

STEP_S = 30
# Codes of the previous and the next step are accepted: clocks of phones differ.
TOLERANCE_STEPS = 1
RECOVERY_CODES = 10
_ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"


def new_totp_secret() -> str:
    return pyotp.random_base32()


def provisioning_uri(secret: str, email: str, issuer: str) -> str:
    """What the app reads from the QR code."""
    return pyotp.TOTP(secret).provisioning_uri(name=email, issuer_name=issuer)


def qr_code(uri: str) -> str:
    """The QR code as an SVG image, black on white in both colour schemes."""
    import segno  # noqa: PLC0415 - only the page that sets up a second factor draws a code

    return segno.make(uri, error="m").svg_inline(scale=4, border=2, light="#fff", dark="#000")


def accepted_step(secret: str, code: str, now: datetime, last_step: int) -> int | None:
    """The time step of a valid code that was not used before; None for any other code."""
    digits = "".join(code.split())
    if not (digits.isascii() and digits.isdigit() and len(digits) == 6):
        return None
    current = int(now.timestamp()) // STEP_S
    totp = pyotp.TOTP(secret)
    for step in range(current - TOLERANCE_STEPS, current + TOLERANCE_STEPS + 1):
        if step > last_step and hmac.compare_digest(totp.at(step * STEP_S), digits):
            return step
    return None


def current_code(secret: str, now: datetime, last_step: int) -> str:
    """What the app shows, or the next code if this one was used already."""
    step = max(int(now.timestamp()) // STEP_S, last_step + 1)
    return pyotp.TOTP(secret).at(step * STEP_S)


def new_recovery_codes() -> list[str]:
    """Each has 79 random bits, too many to guess from a stolen hash, and works once."""
    return ["-".join(_random(4) for _ in range(4)) for _ in range(RECOVERY_CODES)]


def hash_recovery_code(code: str) -> bytes:
    plain = "".join(letter for letter in code.lower() if letter in _ALPHABET)
    return hashlib.sha256(plain.encode()).digest()


def _random(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))


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
            secret = new_totp_secret()
            await store.set_totp(tx, user.id, self._box.seal(secret, user.id), enabled=False, step=0)
        else:
            secret = self._box.open(row["totp_box"], user.id)
        return TotpSetup(secret, qr_code(provisioning_uri(secret, user.email, self._issuer)))

    async def enable(self, tx: Connection, user: User, code: str, *, but_session: str, actor: Actor) -> list[str]:
        """Confirm the app with its first code. Returns the recovery codes, which are shown once. Raises CodeRefused.

        All other sessions end: they were begun without the second factor.
        """
        now, row = self._clock(), await store.lock_totp(tx, user.id)
        if row["totp_box"] is None or row["totp_enabled"]:
            raise CodeRefused("Start again: there is no app to confirm.")
        step = accepted_step(self._box.open(row["totp_box"], user.id), code, now, row["totp_step"])
        if step is None:
            raise CodeRefused("This code is wrong. Enter the current code that your app shows for this account.")
        await store.set_totp(tx, user.id, row["totp_box"], enabled=True, step=step)
        codes = await new_codes(tx, user.id)
        await store.revoke_sessions(tx, user.id, now, but=but_session)
        await store.note_strong(tx, but_session)
        await audit.record(tx, None, "user.second_factor_enabled", by=actor.at(now), subject_id=user.id)
        return codes

    async def renew_codes(self, tx: Connection, user: User, *, actor: Actor) -> list[str]:
        """New recovery codes. The old ones stop working."""
        codes = await new_codes(tx, user.id)
        await audit.record(tx, None, "user.recovery_codes_renewed", by=actor.at(self._clock()), subject_id=user.id)
        return codes


async def turn_off_app(tx: Connection, user: User, *, by: By) -> None:
    """Raises SecondFactorNeeded for an operator without a passkey."""
    await _remove_app(tx, user)
    await require_other_factor(tx, user)
    await drop_unused_codes(tx, user.id)
    await audit.record(tx, None, "user.second_factor_disabled", by=by, subject_id=user.id)


async def reset_second_factors(tx: Connection, user: User, *, by: By) -> None:
    """For somebody who has lost their devices: removes the app, all passkeys and all sessions."""
    await _remove_app(tx, user)
    removed = await passkey_store.delete_passkeys(tx, user.id)
    await drop_unused_codes(tx, user.id)
    await store.revoke_sessions(tx, user.id, by.at)
    await audit.record(tx, None, "user.second_factor_disabled", by=by, subject_id=user.id, passkey_ids=removed)


async def new_codes(tx: Connection, user_id: str) -> list[str]:
    """Recovery codes, which replace all others."""
    codes = new_recovery_codes()
    await store.delete_recovery_codes(tx, user_id)
    await store.insert_recovery_codes(tx, user_id, [hash_recovery_code(code) for code in codes])
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
