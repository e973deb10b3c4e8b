"""What the outbox keeps of a mail after it was sent."""

import hashlib
from email import message_from_bytes
from email.policy import SMTP

import structlog

_log = structlog.get_logger()


def without_attachments(message: bytes) -> bytes:
    """The mail with a note instead of each attachment, which says what was sent.

    A PDF takes ten times the space of everything else that is stored for an order, and can be made again.
    """
    try:
        return _without_attachments(message)
    except Exception:  # noqa: BLE001 - the mail is sent: an error must not lead to a second one
        _log.exception("mail_attachments_not_removed")
        return message


def _without_attachments(message: bytes) -> bytes:
    mail = message_from_bytes(message, policy=SMTP)
    attachments = list(mail.iter_attachments())
    for part in attachments:
        name, content = part.get_filename() or part.get_content_type(), part.get_payload(decode=True)
        if not isinstance(content, bytes):
            return message
        note = (
            f"{name} ({len(content)} bytes) was attached to this mail. It was removed from the outbox after sending.\n"
            f"SHA-256: {hashlib.sha256(content).hexdigest()}\n"
        )
        part.clear()
        part.set_content(note, disposition="attachment", filename=f"{name}.txt")
    return mail.as_bytes() if attachments else message
