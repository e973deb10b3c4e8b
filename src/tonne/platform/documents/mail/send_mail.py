"""Sends mail by SMTP, or writes `.eml` files to the data folder if no server is set."""

import re
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

from tonne.platform.documents.mail.layout import Frame, one_line, render_mail
from tonne.platform.process.private_files import create_private_folder, narrow_folder, write_private_file
from tonne.platform.settings.settings import SMTP_SCHEMES, Settings
from tonne.platform.values.context import new_id
from tonne.platform.values.urls import parse_url
from tonne.platform.web.render import legal_links
from tonne.platform.web.translate import Translator
from tonne.platform.web.wording import ENGLISH, LocalWording

# Starts the subjects of mails in test mode.
TEST_SUBJECT = "[TEST] "
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+", re.ASCII)


class MailRefused(Exception):
    """The mail was not accepted. `final`: a retry is pointless."""

    def __init__(self, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.final = final


class MailGateway(Protocol):
    async def send(self, sender: str, recipients: list[str], message: bytes) -> list[str]:
        """Send the message, or raise MailRefused. Returns the recipients that were refused for now, to be retried."""


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
        import aiosmtplib  # noqa: PLC0415 - many commands import this module, and none of them sends

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

    async def check(self) -> None:
        """Connect and log in, without sending anything. Raises MailRefused."""
        import aiosmtplib  # noqa: PLC0415 - as above

        client = aiosmtplib.SMTP(
            hostname=self._host,
            port=self._port,
            use_tls=self._tls,
            username=self._username,
            password=self._password,
            timeout=self._timeout_s,
        )
        try:
            async with client:
                await client.noop()
        except aiosmtplib.SMTPResponseException as error:
            raise MailRefused(f"{error.code} {error.message}") from error
        except (aiosmtplib.SMTPException, OSError) as error:
            raise MailRefused(str(error) or type(error).__name__) from error


class FolderMail:
    """For development without a mail server: writes each mail to a file that mail programs can open.

    Only our own user can read the files: they contain addresses and certificates of buyers.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def send(self, sender: str, recipients: list[str], message: bytes) -> list[str]:  # noqa: ARG002 - in the message
        create_private_folder(self._folder)
        narrow_folder(self._folder)
        write_private_file(self._folder / f"{new_id('mail')}.eml", message)
        return []


def mail_from_settings(settings: Settings) -> MailGateway:
    return SmtpMail(settings.smtp_url) if settings.smtp_url else FolderMail(settings.data_path / "mail")


def is_mail_address(text: str) -> bool:
    """Whether `text` is a plain address. Catches typing errors and header injection, not unknown mailboxes."""
    return len(text) <= 254 and _ADDRESS.fullmatch(text) is not None


class Attachment(NamedTuple):
    """A PDF file. `name` becomes part of a header: it must not contain user input."""

    name: str
    pdf: bytes


def compose_mail(
    settings: Settings,
    recipients: list[str],
    subject: str,
    text: str,
    *,
    wording: LocalWording = ENGLISH,
    merchant: str | None = None,
    is_test: bool = False,
    notice: str | None = None,
    closing: str | None = None,
    attachment: Attachment | None = None,
) -> EmailMessage:
    """A mail in two versions, text and HTML. `mail_layout.py` describes how the text becomes HTML.

    `merchant` is who the customer bought from, `notice` comes first and stands out, `closing` is the signature instead
    of the seller's. Subjects contain names chosen by users: neither line breaks nor encoded words may reach the header.
    """
    _ = wording.translate
    seller = one_line(settings.seller_name)
    frame = Frame(
        title=one_line(subject),
        heading=one_line(merchant) if merchant else seller,
        subheading=_("Sold by %(seller)s", seller=seller) if merchant and one_line(merchant) != seller else None,
        notice=notice,
        closing=(closing or _signature(settings, _)).strip("\n").split("\n"),
        legal_links=[(_(label), url) for label, url in legal_links(settings)],
        language=wording.code,
        direction=wording.locale.text_direction,
    )
    message = EmailMessage(policy=SMTP)
    message["From"] = settings.mail_from
    message["To"] = ", ".join(filter(is_mail_address, recipients)) or "undisclosed-recipients:;"
    # Not translated: mail filters of testers look for it.
    title = f"{TEST_SUBJECT if is_test else ''}{frame.title}"
    message["Subject"] = " ".join(title.replace("=?", "= ?").split())
    message["Message-ID"] = f"<{new_id('mail')}@{urlsplit(settings.base_url).hostname or 'localhost'}>"
    # Out-of-office replies to receipts would only annoy.
    message["Auto-Submitted"] = "auto-generated"
    below = [*frame.closing, *(f"{label}: {url}" for label, url in frame.legal_links)]
    message.set_content("\n".join([*([f"{notice}\n"] if notice else []), text, *below, ""]))
    message.add_alternative(render_mail(text, frame, base_url=settings.base_url), subtype="html")
    if attachment is not None:
        message.add_attachment(attachment.pdf, maintype="application", subtype="pdf", filename=attachment.name)
    # Last: adding a part moves all headers that start with `Content-` to the first one.
    message["Content-Language"] = wording.code
    return message


def _signature(settings: Settings, _: Translator) -> str:
    questions = _("Questions? Write to %(email)s", email=settings.seller_email) if settings.seller_email else ""
    return f"{one_line(settings.seller_name)}\n{questions}"
