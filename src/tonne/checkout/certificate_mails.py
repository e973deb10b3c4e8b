"""The mails about a certificate: the first one, one that replaces it, and its withdrawal."""

from email.message import EmailMessage

from tonne.base.settings import Settings
from tonne.gateways.mail import TEST_SUBJECT, Attachment, compose_mail
from tonne.gateways.mail_layout import one_line
from tonne.retirements.certificate_record import CertificateRecord


def compose_certificate_mail(
    settings: Settings, recipient: str, record: CertificateRecord, pdf: bytes, *, order_url: str | None
) -> EmailMessage:
    text = (
        "Thank you.\n\n"
        f"Carbon credits for {record.total_quantity} tonnes of CO2 equivalent were retired on behalf of"
        f" {one_line(record.beneficiary)}. Your certificate {record.number} is attached.\n\n"
        "Anyone can verify it here:\n"
        f"{record.verification_url}\n\n"
        f"{_order_link(order_url)}"
    )
    subject = f"Your certificate {record.number}: {record.total_quantity} t retired"
    return _compose(settings, recipient, subject, text, record=record, pdf=pdf)


def compose_replacement(
    settings: Settings, recipient: str, record: CertificateRecord, pdf: bytes, *, order_url: str | None
) -> EmailMessage:
    old = "" if record.replaces is None else record.replaces.number
    reason = "" if record.replaces is None else one_line(record.replaces.reason)
    text = (
        f"Your certificate {old} was replaced. {_sentence(reason)}\n\n"
        f"The new certificate {record.number} is attached: {record.total_quantity} tonnes of CO2 equivalent, on behalf"
        f" of {one_line(record.beneficiary)}. Please use it instead of the old one. You have nothing to pay.\n\n"
        "Anyone can verify it here:\n"
        f"{record.verification_url}\n\n"
        f"{_order_link(order_url)}"
    )
    return _compose(settings, recipient, f"Your new certificate {record.number}", text, record=record, pdf=pdf)


def compose_withdrawal(
    settings: Settings, recipient: str, record: CertificateRecord, reason: str, *, order_url: str | None
) -> EmailMessage:
    text = (
        f"Your certificate {record.number} over {record.total_quantity} tonnes of CO2 equivalent was withdrawn."
        f" {_sentence(one_line(reason))}\n\n"
        "Its page shows its state, and a new certificate as soon as there is one:\n"
        f"{record.verification_url}\n\n"
        f"{_order_link(order_url)}"
    )
    return _compose(settings, recipient, f"Your certificate {record.number} was withdrawn", text, record=record)


def _compose(
    settings: Settings,
    recipient: str,
    subject: str,
    text: str,
    *,
    record: CertificateRecord,
    pdf: bytes | None = None,
) -> EmailMessage:
    is_test = record.mode == "test"
    questions = f"Questions? Write to {settings.seller_email}\n" if settings.seller_email else ""
    return compose_mail(
        settings,
        [recipient],
        f"{TEST_SUBJECT if is_test else ''}{subject}",
        text,
        notice="This is a test. No money was charged and no credits were retired." if is_test else None,
        closing=f"{one_line(record.issuer)}\n{questions}",
        attachment=None if pdf is None else Attachment(f"certificate-{record.number}.pdf", pdf),
    )


def _order_link(url: str | None) -> str:
    return "" if url is None else f"See your order:\n{url}\n"


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
