"""Links in mails to users: invitations and new passwords. Only the hash of a link's token is stored.

A signed-in user also chooses a new password with the old one.
"""

from datetime import datetime, timedelta

from tonne.platform.db.database import Connection, Database
from tonne.platform.documents.mail.layout import button_lines, join_blocks, one_line
from tonne.platform.documents.mail.outbox import Urgency, enqueue
from tonne.platform.documents.mail.send_mail import compose_mail
from tonne.platform.events.audit import record as audit
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Actor, ActorKind, By, Clock, is_id, new_id, new_secret_id
from tonne.platform.web.wording import wording_in
from tonne.selling.accounts.lookup import find_language, require_organisation
from tonne.selling.users import link_store, store
from tonne.selling.users.create_user import create_user, grant_role
from tonne.selling.users.errors import AlreadyMember, LinkExpired, RoleRefused, SignInRefused
from tonne.selling.users.link_store import INVITATION, PASSWORD_RESET, UserLink
from tonne.selling.users.model import Role, User, may_grant, normal_email
from tonne.selling.users.passwords import Passwords, check_new_password
from tonne.selling.users.security_mails import PASSWORD_CHANGED, send_security_mail
from tonne.selling.users.sign_in import hash_token

INVITATION_LASTS = timedelta(days=7)
RESET_LASTS = timedelta(hours=1)
# Links that the operator passes on.
HANDED_OVER_LASTS = timedelta(days=2)
_PREFIX = "go"
# Mails to users without an organisation, such as operators.
_NO_ORGANISATION = ""


async def send_invitation(
    tx: Connection,
    settings: Settings,
    email: str,
    role: Role,
    *,
    organisation_id: str,
    organisation_name: str,
    invited_by: str,
    actor_name: str,
    now: datetime,
) -> UserLink:
    """`invited_by` is the name of the person, `actor_name` the actor of the audit log."""
    link, token = _new_link(
        INVITATION,
        email,
        created_by=actor_name,
        now=now,
        lasts=INVITATION_LASTS,
        organisation_id=organisation_id,
        role=role,
    )
    await link_store.insert_link(tx, link, hash_token(token))
    organisation, person = one_line(organisation_name), one_line(invited_by)
    wording = wording_in(await find_language(tx, organisation_id))
    _ = wording.translate
    blocks = [
        _(
            "%(person)s invites you to the dashboard of %(organisation)s, with the role %(role)s.",
            person=person,
            organisation=organisation,
            role=role.label,
        ),
        button_lines(_("Accept the invitation"), f"{settings.base_url}/dashboard/invitations/{token}"),
        _(
            "The link works once, for 7 days. If you don't know %(organisation)s, ignore this mail.",
            organisation=organisation,
        ),
    ]
    subject = _("Invitation to %(organisation)s", organisation=organisation)
    mail = compose_mail(settings, [link.email], subject, join_blocks(blocks), wording=wording)
    await enqueue(tx, organisation_id, [link.email], mail, subject_id=link.id, urgency=Urgency.SIGN_IN)
    return link


async def send_password_reset(
    tx: Connection, settings: Settings, email: str, *, actor_name: str, now: datetime
) -> None:
    link, token = _new_link(PASSWORD_RESET, email, created_by=actor_name, now=now, lasts=RESET_LASTS)
    await link_store.insert_link(tx, link, hash_token(token))
    text = (
        "Someone asked for a new password for your sign-in to the dashboard.\n\n"
        f"Choose a new password:\n{settings.base_url}/dashboard/password/{token}\n\n"
        "The link works once, for one hour. If you did not ask for it, ignore it: your password does not change.\n"
    )
    mail = compose_mail(settings, [link.email], "Choose a new password", text)
    await enqueue(tx, _NO_ORGANISATION, [link.email], mail, subject_id=link.id, urgency=Urgency.SIGN_IN)


async def create_password_link(tx: Connection, settings: Settings, user: User, *, by: By) -> str:
    """The URL of a page to choose a password, for the operator to pass on."""
    link, token = _new_link(PASSWORD_RESET, user.email, created_by=str(by.actor), now=by.at, lasts=HANDED_OVER_LASTS)
    await link_store.insert_link(tx, link, hash_token(token))
    await audit.record(tx, None, "user.password_link_created", by=by, subject_id=user.id)
    return f"{settings.base_url}/dashboard/password/{token}"


async def require_link(tx: Connection, token: str, kind: str, now: datetime) -> UserLink:
    """Locks the link. Raises LinkExpired."""
    link = await link_store.lock_link(tx, hash_token(token), kind, now) if is_id(_PREFIX, token) else None
    if link is None:
        raise LinkExpired
    return link


def _new_link(
    kind: str,
    email: str,
    *,
    created_by: str,
    now: datetime,
    lasts: timedelta,
    organisation_id: str | None = None,
    role: Role | None = None,
) -> tuple[UserLink, str]:
    link = UserLink(
        id=new_id("uln"),
        kind=kind,
        email=normal_email(email),
        organisation_id=organisation_id,
        role=role,
        created_by=created_by,
        created_at=now,
        expires_at=now + lasts,
    )
    return link, new_secret_id(_PREFIX)


class ChangePassword:
    def __init__(self, database: Database, passwords: Passwords, *, clock: Clock, settings: Settings) -> None:
        self._database = database
        self._passwords = passwords
        self._clock = clock
        self._settings = settings

    async def by_link(self, token: str, password: str, *, actor: Actor) -> User:
        """Raises LinkExpired or PasswordInvalid. A second factor is still asked for at the next sign-in."""
        now = self._clock()
        link = await self._database.commit(require_link, token, PASSWORD_RESET, now)
        check_new_password(password, link.email)
        # Outside of a transaction: hashing takes long.
        password_hash = await self._passwords.hash(password, link.email)
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
        if found is None or not await self._passwords.is_right(found[1], old, user.id):
            raise SignInRefused("Your current password is wrong.", field="old_password")
        check_new_password(new, user.email)
        password_hash = await self._passwords.hash(new, user.id)
        await self._database.commit(self._store, user, password_hash, but_session=but_session, actor=actor)

    async def _store(self, tx: Connection, user: User, password_hash: str, *, but_session: str, actor: Actor) -> None:
        now = self._clock()
        await store.set_password_hash(tx, user.id, password_hash)
        await store.revoke_sessions(tx, user.id, now, but=but_session)
        await link_store.revoke_password_links(tx, user.id, now)
        await send_security_mail(tx, self._settings, user, PASSWORD_CHANGED)
        await audit.record(tx, None, "user.password_changed", by=actor.at(now), subject_id=user.id)


async def invite(
    tx: Connection,
    settings: Settings,
    organisation_id: str,
    email: str,
    role: Role,
    *,
    granter: Role | None,
    invited_by: str,
    by: By,
) -> UserLink:
    """Send a link by mail. `granter` is the role of the member who invites; None: the operator.

    Raises RoleRefused or AlreadyMember.
    """
    if granter is not None and not may_grant(granter, role):
        raise RoleRefused
    details = await require_organisation(tx, organisation_id)
    found = await store.find_user_by_email(tx, email)
    if found is not None and await store.find_role(tx, organisation_id, found[0].id) is not None:
        raise AlreadyMember(f"{email} is already a member of the organisation.")
    link = await send_invitation(
        tx,
        settings,
        email,
        role,
        organisation_id=organisation_id,
        organisation_name=details.organisation.name,
        invited_by=invited_by,
        actor_name=str(by.actor),
        now=by.at,
    )
    await audit.record(tx, organisation_id, "member.invited", by=by, subject_id=link.id, after={"role": role})
    return link


async def revoke_invitation(tx: Connection, organisation_id: str, link_id: str, *, by: By) -> None:
    """Raises LinkExpired if it was accepted or revoked before."""
    if not await link_store.revoke_invitation(tx, organisation_id, link_id, by.at):
        raise LinkExpired("This invitation was accepted, revoked or has expired.")
    await audit.record(tx, organisation_id, "member.invitation_revoked", by=by, subject_id=link_id)


async def accept_as_new_user(
    tx: Connection, token: str, name: str, password_hash: str, *, address: str, now: datetime
) -> tuple[User, UserLink]:
    """The person who has the mail creates a user for its address. Raises LinkExpired or UserExists."""
    link = await require_link(tx, token, INVITATION, now)
    invited = Actor(ActorKind.USER, link.id, address)
    user = await create_user(tx, link.email, name, password_hash=password_hash, by=invited.at(now))
    await _join(tx, link, user, address=address, now=now)
    return user, link


async def accept_as_user(tx: Connection, token: str, user: User, *, address: str, now: datetime) -> UserLink:
    """A signed-in user accepts an invitation to another organisation. Raises LinkExpired."""
    link = await require_link(tx, token, INVITATION, now)
    if link.email != user.email:
        raise LinkExpired(f"This invitation is for {link.email}. Sign in with that address to accept it.")
    await _join(tx, link, user, address=address, now=now)
    return link


async def accept_open_invitations(tx: Connection, email: str, name: str, *, address: str, now: datetime) -> User | None:
    """A new user, whose address a sign-in provider has verified, joins all organisations that invited it.

    None if nobody has invited the address.
    """
    links = await link_store.lock_invitations_any_account(tx, email, now)
    if not links:
        return None
    invited = Actor(ActorKind.USER, links[0].id, address)
    user = await create_user(tx, email, one_line(name)[:200], password_hash=None, by=invited.at(now))
    for link in {each.organisation_id: each for each in links}.values():
        await _join(tx, link, user, address=address, now=now)
    return user


async def _join(tx: Connection, link: UserLink, user: User, *, address: str, now: datetime) -> None:
    if link.organisation_id is None or link.role is None:
        raise LookupError(f"the invitation {link.id} has no organisation")
    await link_store.use_links(tx, link, now)
    actor = Actor(ActorKind.USER, user.id, address)
    await grant_role(tx, link.organisation_id, user.id, link.role, by=actor.at(now))
