"""Choosing a new password: with the old one, or by the link in a mail."""

from tonne.platform.db.database import Connection, Database
from tonne.platform.events.audit import record as audit
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Actor, Clock
from tonne.selling.users import link_store, session_store, store
from tonne.selling.users.errors import LinkExpired, SignInRefused
from tonne.selling.users.link_store import PASSWORD_RESET
from tonne.selling.users.links import require_link, send_password_reset
from tonne.selling.users.model import User
from tonne.selling.users.passwords import Passwords, check_new_password
from tonne.selling.users.security_mails import send_password_changed


class ChangePassword:
    def __init__(self, database: Database, passwords: Passwords, *, clock: Clock, settings: Settings) -> None:
        self._database = database
        self._passwords = passwords
        self._clock = clock
        self._settings = settings

    async def ask_for_link(self, email: str, *, actor: Actor) -> None:
        """Mail a link if there is such a user. The caller answers the same in both cases."""
        async with self._database.transaction() as tx:
            found = await store.find_user_by_email(tx, email)
            if found is not None and found[0].disabled_at is None:
                now = self._clock()
                await send_password_reset(tx, self._settings, found[0].email, actor_name=str(actor), now=now)

    async def by_link(self, token: str, password: str, *, actor: Actor) -> User:
        """Raises LinkExpired or PasswordInvalid. A second factor is still asked for at the next sign-in."""
        now = self._clock()
        async with self._database.transaction() as tx:
            link = await require_link(tx, token, PASSWORD_RESET, now)
        check_new_password(password, link.email)
        # Outside of a transaction: hashing takes long.
        password_hash = await self._passwords.hash(password)
        async with self._database.transaction() as tx:
            link = await require_link(tx, token, PASSWORD_RESET, now)
            found = await store.find_user_by_email(tx, link.email)
            if found is None or found[0].disabled_at is not None:
                raise LinkExpired
            await link_store.use_links(tx, link, now)
            await self._store(tx, found[0], password_hash, but_session="", actor=actor)
        return found[0]

    async def by_password(self, user: User, old: str, new: str, *, but_session: str, actor: Actor) -> None:
        """Raises SignInRefused or PasswordInvalid. All sessions except `but_session` end."""
        found = await self._database.run(store.find_user_by_email, user.email)
        if found is None or not await self._passwords.is_right(found[1], old):
            raise SignInRefused("Your current password is wrong.", field="old_password")
        check_new_password(new, user.email)
        password_hash = await self._passwords.hash(new)
        async with self._database.transaction() as tx:
            await self._store(tx, user, password_hash, but_session=but_session, actor=actor)

    async def _store(self, tx: Connection, user: User, password_hash: str, *, but_session: str, actor: Actor) -> None:
        now = self._clock()
        await store.set_password_hash(tx, user.id, password_hash)
        await session_store.revoke_sessions(tx, user.id, now, but=but_session)
        await send_password_changed(tx, self._settings, user.email)
        await audit.record(tx, None, "user.password_changed", actor=actor, at=now, subject_id=user.id)
