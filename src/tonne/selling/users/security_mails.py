"""Mails that tell users about changes of how they sign in: somebody else may have made them."""

from tonne.platform.db.database import Connection
from tonne.platform.documents.mail.layout import one_line
from tonne.platform.documents.mail.outbox import Urgency, enqueue
from tonne.platform.documents.mail.send_mail import compose_mail
from tonne.platform.settings.settings import Settings

# Mails to users belong to no organisation.
_NO_ORGANISATION = ""


async def send_password_changed(tx: Connection, settings: Settings, email: str) -> None:
    text = (
        "Your password for the dashboard was changed, and all other sessions were signed out.\n\n"
        f"If this was not you, choose a new password at once:\n{settings.base_url}/dashboard/password\n"
    )
    await _send(tx, settings, email, "Your password was changed", text)


async def send_passkey_added(tx: Connection, settings: Settings, email: str, name: str) -> None:
    text = (
        f"The passkey “{one_line(name)}” was added to your sign-in to the dashboard. It works without your password."
        "\n\n"
        f"If this was not you, remove it at once, and change your password:\n{settings.base_url}/dashboard/you\n"
    )
    await _send(tx, settings, email, "A passkey was added", text)


async def send_passkey_removed(tx: Connection, settings: Settings, email: str, name: str) -> None:
    text = (
        f"The passkey “{one_line(name)}” was removed from your sign-in to the dashboard. It no longer works.\n\n"
        f"If this was not you, choose a new password at once:\n{settings.base_url}/dashboard/password\n"
    )
    await _send(tx, settings, email, "A passkey was removed", text)


async def send_identity_linked(tx: Connection, settings: Settings, email: str) -> None:
    text = (
        f"You can now sign in to the dashboard with {settings.oidc_name}.\n\n"
        "If this was not you, tell your operator, and change your password:\n"
        f"{settings.base_url}/dashboard/you\n"
    )
    await _send(tx, settings, email, "A new way to sign in", text)


async def _send(tx: Connection, settings: Settings, email: str, subject: str, text: str) -> None:
    mail = compose_mail(settings, [email], subject, text)
    await enqueue(tx, _NO_ORGANISATION, [email], mail, urgency=Urgency.SIGN_IN)
