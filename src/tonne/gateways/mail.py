"""Mail: through SMTP when it is set, else as `.eml` files in the data folder."""

import re
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

import aiosmtplib

from tonne.base.ids import new_id
from tonne.base.settings import SMTP_SCHEMES, Settings
from tonne.base.urls import parse_url

_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+", re.ASCII)


class MailRefused(Exception):
    """This mail did not get away; the message says why, and whether it makes sense to try again."""

    def __init__(self, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.final = final


class MailGateway(Protocol):
    async def send(self, sender: str, recipients: list[str], message: bytes) -> list[str]:
        """Hand the message over, or raise MailRefused. Returns the recipients to try again: not all may be taken."""


class SmtpMail:
    """`smtp://` with STARTTLS where the server offers it, `smtps://` with TLS from the start."""

    def __init__(self, url: str, timeout_s: float = 30.0) -> None:
        parts = parse_url(url, SMTP_SCHEMES, credentials=True)
        username, _, password = parts.userinfo.partition(":")
        self._host = parts.host.strip("[]")
        self._tls = parts.scheme == "smtps"
        self._port = parts.port or (465 if self._tls else 25)
        self._username = unquote(username) or None
        self._password = unquote(password) or None
        self._timeout_s = timeout_s

    async def send(self, sender: str, recipients: list[str], message: bytes) -> list[str]:
        try:
            refused, _ = await aiosmtplib.send(
                message,
                sender=sender,
                recipients=recipients,
                hostname=self._host,
                port=self._port,
                use_tls=self._tls,
                username=self._username,
                password=self._password,
                timeout=self._timeout_s,
            )
        except aiosmtplib.SMTPRecipientsRefused as error:
            codes = [refusal.code for refusal in error.recipients]
            raise MailRefused(str(error), final=all(code >= 500 for code in codes)) from error
        except aiosmtplib.SMTPResponseException as error:
            raise MailRefused(f"{error.code} {error.message}", final=error.code >= 500) from error
        except (aiosmtplib.SMTPException, OSError) as error:
            raise MailRefused(str(error) or type(error).__name__) from error
        return [recipient for recipient, answer in refused.items() if answer[0] < 500]


class FolderMail:
    """For a newcomer without a mail server: every mail is a file that mail programs open."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def send(self, sender: str, recipients: list[str], message: bytes) -> list[str]:  # noqa: ARG002 - in the message
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / f"{new_id('mail')}.eml").write_bytes(message)
        return []


def mail_from_settings(settings: Settings) -> MailGateway:
    return SmtpMail(settings.smtp_url) if settings.smtp_url else FolderMail(settings.data_path / "mail")


def is_mail_address(text: str) -> bool:
    """A plain address: enough to catch a slip and to keep headers clean. Whether mail arrives only sending it tells."""
    return len(text) <= 254 and _ADDRESS.fullmatch(text) is not None


class Attachment(NamedTuple):
    """A PDF file. `name` is ours, such as `TN-LIVE-000123.pdf`: it becomes a header."""

    name: str
    pdf: bytes


def compose_mail(
    settings: Settings, recipients: list[str], subject: str, text: str, *, attachment: Attachment | None = None
) -> EmailMessage:
    """Names come from strangers: nothing in them may become a header of its own, or be read as an encoded word."""
    message = EmailMessage(policy=SMTP)
    message["From"] = settings.mail_from
    message["To"] = ", ".join(filter(is_mail_address, recipients)) or "undisclosed-recipients:;"
    plain = "".join(character if character.isprintable() else " " for character in subject)
    message["Subject"] = " ".join(plain.replace("=?", "= ?").split())
    message["Message-ID"] = f"<{new_id('mail')}@{urlsplit(settings.base_url).hostname or 'localhost'}>"
    message.set_content(text)
    if attachment is not None:
        message.add_attachment(attachment.pdf, maintype="application", subtype="pdf", filename=attachment.name)
    return message
