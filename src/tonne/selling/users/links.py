"""Links in mails to users: invitations and new passwords. Only the hash of a link's token is stored."""

from datetime import datetime, timedelta

from tonne.platform.db.database import Connection
from tonne.platform.documents.mail.layout import button_lines, join_blocks, one_line
from tonne.platform.documents.mail.outbox import enqueue
from tonne.platform.documents.mail.send_mail import compose_mail
from tonne.platform.events.audit import record as audit
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Actor, is_id, new_id, new_secret_id
from tonne.platform.web.wording import wording_in
from tonne.selling.accounts.lookup import find_language
from tonne.selling.users import link_store
from tonne.selling.users.errors import LinkExpired
from tonne.selling.users.link_store import INVITATION, PASSWORD_RESET, UserLink
from tonne.selling.users.model import Role, User
from tonne.selling.users.sessions import hash_token

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
    await enqueue(tx, organisation_id, [link.email], mail, subject_id=link.id)
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
    await enqueue(tx, _NO_ORGANISATION, [link.email], mail, subject_id=link.id)


async def create_password_link(tx: Connection, settings: Settings, user: User, *, actor: Actor, now: datetime) -> str:
    """The URL of a page to choose a password, for the operator to pass on."""
    link, token = _new_link(PASSWORD_RESET, user.email, created_by=str(actor), now=now, lasts=HANDED_OVER_LASTS)
    await link_store.insert_link(tx, link, hash_token(token))
    await audit.record(tx, None, "user.password_link_created", actor=actor, at=now, subject_id=user.id)
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
        email=email.lower(),
        organisation_id=organisation_id,
        role=role,
        created_by=created_by,
        created_at=now,
        expires_at=now + lasts,
    )
    return link, new_secret_id(_PREFIX)
