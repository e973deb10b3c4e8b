"""Mails that tell users about changes of how they sign in and what they may do: somebody else may have made them."""

from tonne.platform.db.database import Connection
from tonne.platform.documents.mail.layout import button_lines, join_blocks
from tonne.platform.documents.mail.outbox import Urgency, enqueue
from tonne.platform.documents.mail.send_mail import compose_mail
from tonne.platform.settings.settings import Settings
from tonne.platform.values.language import DEFAULT_LANGUAGE, N_
from tonne.platform.web.wording import wording_in
from tonne.selling.accounts.lookup import find_language
from tonne.selling.users.model import User
from tonne.selling.users.store import list_memberships

PASSWORD_CHANGED = N_("Your password for the dashboard was changed, and all other sessions were signed out.")
PASSKEY_ADDED = N_("The passkey “%(name)s” was added to your sign-in to the dashboard. It works without your password.")
PASSKEY_REMOVED = N_("The passkey “%(name)s” was removed from your sign-in to the dashboard. It no longer works.")
IDENTITY_LINKED = N_("You can now sign in to the dashboard with %(name)s.")
# Mails to users belong to no organisation.
_NO_ORGANISATION = ""


async def send_security_mail(tx: Connection, settings: Settings, user: User, message: str, *, name: str = "") -> None:
    """In the language of the user's first organisation. `message` is marked with `N_`."""
    memberships = await list_memberships(tx, user.id)
    language = await find_language(tx, memberships[0].organisation_id) if memberships else DEFAULT_LANGUAGE
    wording = wording_in(language)
    _ = wording.translate
    blocks = [
        _(message, name=name) if name else _(message),
        _("If this was not you, choose a new password at once: this ends all sessions. Then tell your operator."),
        button_lines(_("Choose a new password"), f"{settings.base_url}/dashboard/password"),
    ]
    mail = compose_mail(
        settings, [user.email], _("Your sign-in was used for a change"), join_blocks(blocks), wording=wording
    )
    await enqueue(tx, _NO_ORGANISATION, [user.email], mail, urgency=Urgency.SIGN_IN)
