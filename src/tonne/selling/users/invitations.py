"""Inviting people to an organisation."""

from datetime import datetime

from tonne.platform.db.database import Connection
from tonne.platform.documents.mail.layout import one_line
from tonne.platform.events.audit import record as audit
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Actor, ActorKind
from tonne.selling.accounts.lookup import require_organisation
from tonne.selling.users import link_store, store
from tonne.selling.users.create_user import create_user, grant_role
from tonne.selling.users.errors import AlreadyMember, LinkExpired, RoleRefused
from tonne.selling.users.link_store import INVITATION, UserLink
from tonne.selling.users.links import require_link, send_invitation
from tonne.selling.users.model import Role, User, may_grant


async def invite(
    tx: Connection,
    settings: Settings,
    organisation_id: str,
    email: str,
    role: Role,
    *,
    granter: Role | None,
    invited_by: str,
    actor: Actor,
    now: datetime,
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
        actor_name=str(actor),
        now=now,
    )
    await audit.record(
        tx, organisation_id, "member.invited", actor=actor, at=now, subject_id=link.id, after={"role": role}
    )
    return link


async def revoke_invitation(tx: Connection, organisation_id: str, link_id: str, *, actor: Actor, now: datetime) -> None:
    """Raises LinkExpired if it was accepted or revoked before."""
    if not await link_store.revoke_invitation(tx, organisation_id, link_id, now):
        raise LinkExpired("This invitation was accepted, revoked or has expired.")
    await audit.record(tx, organisation_id, "member.invitation_revoked", actor=actor, at=now, subject_id=link_id)


async def accept_as_new_user(
    tx: Connection, token: str, name: str, password_hash: str, *, address: str, now: datetime
) -> tuple[User, UserLink]:
    """The person who has the mail creates a user for its address. Raises LinkExpired or UserExists."""
    link = await require_link(tx, token, INVITATION, now)
    invited = Actor(ActorKind.USER, link.id, address)
    user = await create_user(tx, link.email, name, password_hash=password_hash, actor=invited, now=now)
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
    user = await create_user(tx, email, one_line(name)[:200], password_hash=None, actor=invited, now=now)
    for link in {each.organisation_id: each for each in links}.values():
        await _join(tx, link, user, address=address, now=now)
    return user


async def _join(tx: Connection, link: UserLink, user: User, *, address: str, now: datetime) -> None:
    if link.organisation_id is None or link.role is None:
        raise LookupError(f"the invitation {link.id} has no organisation")
    await link_store.use_links(tx, link, now)
    actor = Actor(ActorKind.USER, user.id, address)
    await grant_role(tx, link.organisation_id, user.id, link.role, actor=actor, now=now)
