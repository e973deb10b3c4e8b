"""Passkeys: registering, using, renaming and removing them.

A challenge works once, in the browser that asked for it. The origin, the domain, the signature, the sign count and that
the device verified the user (by fingerprint, face or PIN) are checked by the library `webauthn`.
"""

import hashlib
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

import structlog

from tonne.platform.db.database import Connection, Database
from tonne.platform.documents.mail.layout import one_line
from tonne.platform.events.audit import record as audit
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Actor, Clock, new_id
from tonne.selling.users import store
from tonne.selling.users.errors import PasskeyInvalid, PasskeyNotFound, PasskeyRefused, PasskeysUnavailable
from tonne.selling.users.model import User, UserSession
from tonne.selling.users.second_factor import passkey_store
from tonne.selling.users.second_factor.passkey_domain import passkey_domain
from tonne.selling.users.second_factor.passkey_store import Passkey
from tonne.selling.users.second_factor.second_factor import drop_unused_codes, new_codes, require_other_factor
from tonne.selling.users.security_mails import PASSKEY_ADDED, PASSKEY_REMOVED, send_security_mail

# Elsewhere `webauthn` is imported where it is used: the library takes time and memory in every process.
if TYPE_CHECKING:
    from webauthn.helpers.structs import AuthenticationCredential

CHALLENGE_LASTS = timedelta(minutes=5)
MAX_PASSKEYS = 20
# The answers of authenticators have about one kilobyte.
MAX_ANSWER = 20_000

_QUOTE = '"'
_log = structlog.get_logger()


class Purpose(StrEnum):
    """A challenge for one purpose is worth nothing for another."""

    REGISTER = "register"
    SIGN_IN = "sign_in"
    SECOND_FACTOR = "second_factor"


class Passkeys:
    def __init__(self, database: Database, settings: Settings, clock: Clock) -> None:
        self._database = database
        self._settings = settings
        self._clock = clock
        self.domain = passkey_domain(settings)

    async def registration_options(self, session: UserSession) -> str:
        """JSON for the browser. Raises PasskeysUnavailable or PasskeyInvalid."""
        import webauthn  # noqa: PLC0415
        from webauthn.helpers.structs import (  # noqa: PLC0415
            AuthenticatorSelectionCriteria,
            PublicKeyCredentialDescriptor,
            ResidentKeyRequirement,
            UserVerificationRequirement,
        )

        self._require_available()
        user = session.user
        known = await self._database.run(passkey_store.list_passkeys, user.id)
        if len(known) >= MAX_PASSKEYS:
            raise PasskeyInvalid(f"You have {MAX_PASSKEYS} passkeys. Remove one that you no longer use.")
        options = webauthn.generate_registration_options(
            rp_id=self.domain.name,
            rp_name=self._settings.seller_name,
            user_id=user.id.encode(),
            user_name=user.email,
            user_display_name=user.name,
            authenticator_selection=AuthenticatorSelectionCriteria(
                resident_key=ResidentKeyRequirement.REQUIRED, user_verification=UserVerificationRequirement.REQUIRED
            ),
            exclude_credentials=[PublicKeyCredentialDescriptor(id=each.credential_id) for each in known],
        )
        await self._store_challenge(Purpose.REGISTER, session.id, options.challenge)
        return webauthn.options_to_json(options)

    async def register(self, session: UserSession, answer: str, name: str, *, actor: Actor) -> list[str]:
        """Returns the recovery codes if this is the first second factor: they are shown once. Raises PasskeyInvalid.

        All other sessions then end: they were begun without the second factor.
        """
        import webauthn  # noqa: PLC0415

        self._require_available()
        challenge = await self._use_challenge(Purpose.REGISTER, session.id)
        if challenge is None:
            raise PasskeyInvalid("This page has expired. Try again.")
        try:
            verified = webauthn.verify_registration_response(
                credential=answer[:MAX_ANSWER],
                expected_challenge=challenge,
                expected_rp_id=self.domain.name,
                expected_origin=self.domain.origin,
                require_user_verification=True,
            )
        except Exception as error:
            # The library has no common exception for malformed answers.
            _log.warning("passkey_not_registered", user_id=session.user.id, reason=_reason(error))
            raise PasskeyInvalid from error
        now, user = self._clock(), session.user
        passkey = Passkey(
            id=new_id("pky"),
            user_id=user.id,
            credential_id=verified.credential_id,
            public_key=verified.credential_public_key,
            sign_count=verified.sign_count,
            domain=self.domain.name,
            name=name,
            is_synced=verified.credential_backed_up,
            created_at=now,
        )
        async with self._database.transaction() as tx:
            # Serialises changes of the user's second factors.
            await store.lock_totp(tx, user.id)
            is_first = not await store.has_second_factor(tx, user.id)
            if not await passkey_store.insert_passkey(tx, passkey):
                raise PasskeyInvalid("This passkey is registered already. Choose another device.")
            codes = await new_codes(tx, user.id) if is_first else []
            if is_first:
                await store.revoke_sessions(tx, user.id, now, but=session.id)
            await store.note_strong(tx, session.id)
            await audit.record(
                tx, None, "user.passkey_added", by=actor.at(now), subject_id=user.id, passkey_id=passkey.id
            )
            await send_security_mail(tx, self._settings, user, PASSKEY_ADDED, name=one_line(name))
        return codes

    async def sign_in_options(self, purpose: Purpose, browser: str, user: User | None = None) -> str:
        """JSON for the browser. With `user`, only their passkeys are accepted. Raises PasskeysUnavailable."""
        import webauthn  # noqa: PLC0415
        from webauthn.helpers.structs import PublicKeyCredentialDescriptor, UserVerificationRequirement  # noqa: PLC0415

        self._require_available()
        allowed: list[PublicKeyCredentialDescriptor] = []
        if user is not None:
            known = await self._database.run(passkey_store.list_passkeys, user.id)
            allowed = [PublicKeyCredentialDescriptor(id=each.credential_id) for each in known]
        options = webauthn.generate_authentication_options(
            rp_id=self.domain.name, allow_credentials=allowed, user_verification=UserVerificationRequirement.REQUIRED
        )
        await self._store_challenge(purpose, browser, options.challenge)
        return webauthn.options_to_json(options)

    async def use_sign_in_challenge(self, purpose: Purpose, browser: str) -> bytes:
        """Consumes the challenge, whatever comes of it. Raises PasskeyRefused if there is none."""
        self._require_available()
        challenge = await self._use_challenge(purpose, browser)
        if challenge is None:
            raise PasskeyRefused("This page has expired. Try again.")
        return challenge

    async def verify(self, tx: Connection, challenge: bytes, answer: str, *, user: User | None = None) -> User:
        """The user whose passkey signed the challenge. With `user`, it must be theirs. Raises PasskeyRefused."""
        from webauthn.helpers import parse_authentication_credential_json  # noqa: PLC0415

        try:
            credential = parse_authentication_credential_json(answer[:MAX_ANSWER])
        except Exception as error:
            # Also what the library does not expect, such as text that is no base64.
            raise PasskeyRefused from error
        passkey = await passkey_store.lock_passkey(tx, credential.raw_id)
        owner = None if passkey is None else await store.find_user_by_id(tx, passkey.user_id)
        if passkey is None or owner is None:
            raise PasskeyRefused("This passkey is not registered here. Sign in with your password.")
        handle = credential.response.user_handle
        # Only a second factor may come without the name of its user.
        names_owner = handle == owner.id.encode() or (handle is None and user is not None)
        if not names_owner or (user is not None and user.id != owner.id) or owner.disabled_at is not None:
            raise PasskeyRefused
        await self._verify_signature(tx, passkey, credential, challenge)
        return owner

    async def rename(self, user: User, passkey_id: str, name: str, *, actor: Actor) -> None:
        """Raises PasskeyNotFound. The same name again is not recorded."""
        async with self._database.transaction() as tx:
            await store.lock_totp(tx, user.id)
            passkey = await find_passkey(tx, user, passkey_id)
            if passkey.name == name:
                return
            await passkey_store.rename_passkey(tx, user.id, passkey_id, name)
            await audit.record(
                tx,
                None,
                "user.passkey_renamed",
                by=actor.at(self._clock()),
                subject_id=user.id,
                passkey_id=passkey_id,
            )

    async def remove(self, user: User, passkey_id: str, *, actor: Actor) -> None:
        """Raises PasskeyNotFound or SecondFactorNeeded."""
        now = self._clock()
        async with self._database.transaction() as tx:
            await store.lock_totp(tx, user.id)
            passkey = await find_passkey(tx, user, passkey_id)
            await passkey_store.delete_passkey(tx, user.id, passkey_id)
            await require_other_factor(tx, user)
            await drop_unused_codes(tx, user.id)
            await audit.record(
                tx, None, "user.passkey_removed", by=actor.at(now), subject_id=user.id, passkey_id=passkey_id
            )
            await send_security_mail(tx, self._settings, user, PASSKEY_REMOVED, name=one_line(passkey.name))

    async def _verify_signature(
        self, tx: Connection, passkey: Passkey, credential: "AuthenticationCredential", challenge: bytes
    ) -> None:
        import webauthn  # noqa: PLC0415

        try:
            verified = webauthn.verify_authentication_response(
                credential=credential,
                expected_challenge=challenge,
                expected_rp_id=self.domain.name,
                expected_origin=self.domain.origin,
                credential_public_key=passkey.public_key,
                credential_current_sign_count=passkey.sign_count,
                require_user_verification=True,
            )
        except Exception as error:
            _log.warning("passkey_refused", passkey_id=passkey.id, user_id=passkey.user_id, reason=_reason(error))
            raise PasskeyRefused from error
        synced = verified.credential_backed_up
        await passkey_store.note_passkey_used(tx, passkey.id, verified.new_sign_count, self._clock(), is_synced=synced)

    async def _store_challenge(self, purpose: Purpose, browser: str, challenge: bytes) -> None:
        async with self._database.connection() as connection:
            expires_at = self._clock() + CHALLENGE_LASTS
            await passkey_store.store_challenge(connection, _binding(purpose, browser), challenge, expires_at)

    async def _use_challenge(self, purpose: Purpose, browser: str) -> bytes | None:
        return await self._database.run(passkey_store.use_challenge, _binding(purpose, browser), self._clock())

    def _require_available(self) -> None:
        if self.domain.unavailable:
            raise PasskeysUnavailable(self.domain.unavailable)


async def find_passkey(connection: Connection, user: User, passkey_id: str) -> Passkey:
    """Raises PasskeyNotFound."""
    for passkey in await passkey_store.list_passkeys(connection, user.id):
        if passkey.id == passkey_id:
            return passkey
    raise PasskeyNotFound


def _binding(purpose: Purpose, browser: str) -> bytes:
    return hashlib.sha256(f"{purpose}:{browser}".encode()).digest()


def _reason(error: Exception) -> str:
    """The library's message up to what it quotes: that was sent by the browser, and does not belong in the log."""
    return f"{type(error).__name__}: {str(error).partition(_QUOTE)[0].strip()[:100]}"
