"""Signing in by OpenID Connect.

Only existing users and invited people can: the verified e-mail address leads to the user once, and from then on the
account at the provider does. A second factor of the user is still asked for.
"""

from datetime import datetime

from tonne.platform.db.database import Connection, Database, optional
from tonne.platform.documents.mail.send_mail import is_mail_address
from tonne.platform.events.audit import record as audit
from tonne.platform.http.route import Request
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Actor, ActorKind, By, Clock
from tonne.selling.users import store
from tonne.selling.users.links import accept_open_invitations
from tonne.selling.users.model import User, UserSession
from tonne.selling.users.oidc.oidc_provider import OidcIdentity, OidcRefused
from tonne.selling.users.security_mails import IDENTITY_LINKED, send_security_mail
from tonne.selling.users.sign_in import Sessions, record_sign_in, require_demo_is_local


class OidcSignIn:
    def __init__(self, database: Database, sessions: Sessions, *, clock: Clock, settings: Settings) -> None:
        self._database = database
        self._sessions = sessions
        self._clock = clock
        self._settings = settings

    async def begin(self, request: Request, identity: OidcIdentity) -> tuple[UserSession, list[str]]:
        """A complete session, or one that waits for the second factor. Raises OidcRefused or SignInRefused."""
        self._require_domain(identity)
        now = self._clock()
        async with self._database.transaction() as tx:
            user_id = await use_identity(tx, identity.issuer, identity.subject, now)
            if user_id is None:
                user = await self._link(tx, request, identity, now)
            else:
                user = await store.find_user_by_id(tx, user_id)
            if user is None or user.disabled_at is not None:
                raise OidcRefused("Your user is disabled. Ask an owner of your organisation or the operator.")
            require_demo_is_local(user, request)
            session, cookies = await self._sessions.begin(
                tx, user, request, is_complete=not user.has_second_factor, is_strong=False
            )
            if session.is_complete:
                await record_sign_in(tx, session, request, now)
        return session, cookies

    def _require_domain(self, identity: OidcIdentity) -> None:
        domains = self._settings.oidc_domains
        if domains and identity.verified_email.rpartition("@")[2] not in domains:
            raise OidcRefused(
                f"Only people with a verified address at {' or '.join(domains)} can sign in this way. Use your "
                "password."
            )

    async def _link(self, tx: Connection, request: Request, identity: OidcIdentity, now: datetime) -> User | None:
        """The first sign-in of this account: the verified address decides to whom it belongs."""
        email = identity.verified_email
        if not is_mail_address(email):
            raise OidcRefused(
                "The sign-in provider did not send a verified e-mail address. Sign in with your password, or ask the "
                "operator to let the provider send the claims email and email_verified."
            )
        found = await store.find_user_by_email(tx, email)
        if found is None:
            user = await accept_open_invitations(
                tx, email, identity.name or email.partition("@")[0], address=request.client, now=now
            )
        else:
            user = found[0]
        if user is None:
            raise OidcRefused(
                f"There is no user for {email}. Ask an owner or an admin of your organisation for an invitation."
            )
        if not await link_identity(tx, identity.issuer, identity.subject, user.id, now):
            raise OidcRefused(
                f"{email} is linked to another account at the provider. Ask the operator to run `tonne user unlink`."
            )
        actor = Actor(ActorKind.USER, user.id, request.client)
        await audit.record(
            tx, None, "user.identity_linked", by=actor.at(now), subject_id=user.id, issuer=identity.issuer
        )
        await send_security_mail(tx, self._settings, user, IDENTITY_LINKED, name=self._settings.oidc_name)
        return user


async def unlink_user(tx: Connection, user: User, *, by: By) -> int:
    """Forget the user's accounts at providers. The next sign-in with the verified address links one again."""
    count = await unlink_identities(tx, user.id)
    if count:
        await audit.record(tx, None, "user.identity_unlinked", by=by, subject_id=user.id)
    return count


USE_IDENTITY = """
UPDATE user_identities SET last_used_at = $3 WHERE issuer = $1 AND subject = $2 RETURNING user_id
"""


async def use_identity(tx: Connection, issuer: str, subject: str, now: datetime) -> str | None:
    """The id of the user to whom it belongs."""
    return optional(str, await tx.fetchval(USE_IDENTITY, issuer, subject, now))


LINK_IDENTITY = """
INSERT INTO user_identities (issuer, subject, user_id, created_at, last_used_at) VALUES ($1, $2, $3, $4, $4)
ON CONFLICT DO NOTHING RETURNING true
"""


async def link_identity(tx: Connection, issuer: str, subject: str, user_id: str, now: datetime) -> bool:
    """False if the user has another account at this provider."""
    return await tx.fetchval(LINK_IDENTITY, issuer, subject, user_id, now) is True


UNLINK_IDENTITIES = "DELETE FROM user_identities WHERE user_id = $1 RETURNING issuer"


async def unlink_identities(tx: Connection, user_id: str) -> int:
    return len(await tx.fetch(UNLINK_IDENTITIES, user_id))
