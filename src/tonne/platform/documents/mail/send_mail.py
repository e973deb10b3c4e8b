"""Composes mails, each as text and as HTML."""

import re
from collections.abc import Sequence
from email.message import EmailMessage
from email.policy import SMTP
from typing import NamedTuple
from urllib.parse import urlsplit

from tonne.platform.documents.mail.layout import Frame, one_line, render_mail
from tonne.platform.documents.mail.stored_files import StoredFile, attach_stored
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import new_id
from tonne.platform.web.render import legal_links
from tonne.platform.web.translate import Translator
from tonne.platform.web.wording import ENGLISH, LocalWording

# Starts the subjects of mails in test mode.
TEST_SUBJECT = "[TEST] "
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+", re.ASCII)


def is_mail_address(text: str) -> bool:
    """Whether `text` is a plain address. Catches typing errors and header injection, not unknown mailboxes."""
    return len(text) <= 254 and _ADDRESS.fullmatch(text) is not None


class Attachment(NamedTuple):
    """A PDF file that is stored nowhere else. `name` becomes part of a header: it must not contain user input."""

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
    attachments: Sequence[Attachment | StoredFile] = (),
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
    for each in attachments:
        if isinstance(each, StoredFile):
            attach_stored(message, each)
        else:
            message.add_attachment(each.pdf, maintype="application", subtype="pdf", filename=each.name)
    # Last: adding a part moves all headers that start with `Content-` to the first one.
    message["Content-Language"] = wording.code
    return message


def _signature(settings: Settings, _: Translator) -> str:
    questions = _("Questions? Write to %(email)s", email=settings.seller_email) if settings.seller_email else ""
    return f"{one_line(settings.seller_name)}\n{questions}"
