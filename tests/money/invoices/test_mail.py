"""Invoices through a real mail server, with failures and with hostile names."""

from collections.abc import AsyncIterator

import msgspec
import pytest

from tests.money.invoices.billing import ADA, Billing, parse, pdf_of, text_of
from tests.support.command import output_of
from tests.support.mail_server import DROP, Mailbox, mail_server
from tests.support.world import TESTER, World
from tonne.money.invoices.cancel_order import cancel_order
from tonne.money.invoices.issuing.issue_invoices import IssueInvoices
from tonne.platform.documents.mail.outbox import Urgency
from tonne.platform.documents.mail.send_outbox import SendMails
from tonne.platform.documents.mail.smtp import SmtpMail
from tonne.platform.values.context import replace

HEADERS = {
    *("From", "To", "Subject", "Message-ID", "Date", "MIME-Version", "Content-Type"),
    *("Content-Language", "Auto-Submitted"),
}


@pytest.fixture
async def box() -> AsyncIterator[Mailbox]:
    async with mail_server() as box:
        yield box


async def _send_all(billing: Billing, box: Mailbox) -> None:
    """Send all mails, including retries."""
    mails = SendMails(billing.database, SmtpMail(box.url), billing.settings)
    mails.read_file = billing.services.originals.read
    for _ in range(3):
        while await mails.run_once():
            pass
        async with billing.database.connection() as connection:
            await connection.execute("UPDATE mails SET next_attempt_at = now() WHERE next_attempt_at IS NOT NULL")


def _check_the_one_mail(box: Mailbox, total: str = "13.95") -> None:
    [envelope] = box.mails
    assert isinstance(envelope.content, bytes)
    mail = parse(envelope.content)
    assert envelope.rcpt_tos == [ADA]
    assert total in text_of(mail)
    assert total in pdf_of(mail)
    [attached] = mail.iter_attachments()
    assert attached.get_filename() == "TN-LIVE-000001.pdf"


@pytest.mark.parametrize(
    ("where", "answers"),
    [
        ("at_recipient", []),
        ("at_recipient", ["451 greylisted, come back"]),
        ("at_data", ["451 greylisted, come back", "452 disk full"]),
        ("at_recipient", [DROP]),
        ("at_data", [DROP, DROP]),
    ],
    ids=["taken", "greylisted", "greylisted twice", "dropped", "dropped twice"],
)
async def test_an_invoice_is_delivered_once_despite_mail_failures(
    billing: Billing, world: World, box: Mailbox, where: str, answers: list[str]
) -> None:
    getattr(box, where).extend(answers)
    await billing.place_order(world.ours_live.scope)
    await billing.work()
    await _send_all(billing, box)
    _check_the_one_mail(box)


async def test_a_rejected_mail_is_recorded_and_can_be_resent(billing: Billing, world: World, box: Mailbox) -> None:
    box.at_recipient.append("550 no such user")
    await billing.place_order(world.ours_live.scope)
    await billing.work()
    await _send_all(billing, box)
    assert box.mails == []
    [row] = await billing.fetch("SELECT last_error, next_attempt_at, urgency FROM mails")
    assert (row["next_attempt_at"], row["urgency"]) == (None, Urgency.BULK)
    assert "550" in row["last_error"]
    said = output_of("invoice", "resend", "TN-LIVE-000001", database_url=billing.database._url)
    assert said == f"TN-LIVE-000001 will be mailed to {ADA}."
    await billing.run_jobs(billing.mail_orders)
    await _send_all(billing, box)
    _check_the_one_mail(box)


HOSTILE = [
    "Ours\r\nBcc: victim@elsewhere.test",
    "=?utf-8?q?=0D=0ABcc:_victim?=",
    '#eval("1") *bold* $x$ @ref <script>alert(1)</script>',
    "\u202eevil\u2066 Ours \u2028 next",
    "株式会社オフセット・مؤسسة الكربون",
    "x" * 200,
    "'; DROP TABLE invoices; --",
]


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_name_has_no_effect_in_mail_and_pdf(
    billing: Billing, world: World, box: Mailbox, name: str
) -> None:
    async with billing.database.transaction() as tx:
        await tx.execute("UPDATE organisations SET name = $1, address = $2", name[:200], f"{name}\n{name}"[:1000])
        await tx.execute("UPDATE bundles SET name = $1", name[:200])
    await billing.place_order(world.ours_live.scope, metadata='{"name":"\\r\\nBcc: victim@elsewhere.test"}')
    await billing.work()
    await _send_all(billing, box)
    [envelope] = box.mails
    assert isinstance(envelope.content, bytes)
    mail = parse(envelope.content)
    assert set(mail.keys()) <= HEADERS
    assert len(mail.keys()) == len(set(mail.keys()))
    assert (mail["To"], envelope.rcpt_tos) == (ADA, [ADA])
    assert "victim" not in mail["Subject"]
    greeting, *_ = text_of(mail).splitlines()
    assert greeting.startswith("Hello ")
    assert not any(line.startswith("Bcc") for line in text_of(mail).splitlines())
    assert "13.95" in pdf_of(mail)


async def test_a_reason_is_quoted_on_one_line(billing: Billing, world: World) -> None:
    order = await billing.place_order(world.ours_live.scope)
    await billing.work()
    async with billing.database.transaction() as tx:
        reason = "Twice.\n\nPlease pay to XX00 instead"
        await cancel_order(tx, order, by=TESTER.at(billing.clock()), reason=reason)
    await billing.work()
    *_, mail = await billing.mails()
    assert "\nReason: Twice. Please pay to XX00 instead\n" in text_of(mail)
    assert "Credit note CN-LIVE-000001" in pdf_of(mail).replace("\xa0", " ")


async def test_no_cancellation_is_mailed_for_an_invoice_that_was_not_mailed(billing: Billing, world: World) -> None:
    order = await billing.place_order(world.ours_live.scope)
    await billing.issue.run_once()
    async with billing.database.transaction() as tx:
        await cancel_order(tx, order, by=TESTER.at(billing.clock()), reason=None)
    await billing.work()
    assert await billing.mails() == []


async def test_without_a_bank_account_the_mail_tells_customers_to_ask(billing: Billing, world: World) -> None:
    """In test mode only: live invoices wait for a bank account."""
    settings = msgspec.structs.replace(billing.settings, bank_iban="")
    billing.issue = IssueInvoices(billing.database, billing.clock, settings)
    await billing.place_order(world.ours_test.scope)
    await billing.work()
    [mail] = await billing.mails()
    assert "Ask Offsets Ltd for the bank details." in text_of(mail)


async def test_an_invalid_address_gets_no_mail(billing: Billing, world: World) -> None:
    scope = replace(world.theirs_test.scope)
    await billing.add_admins(scope.organisation_id, "ada@ours.test\r\nBcc: victim@elsewhere.test")
    await billing.place_order(scope)
    await billing.work()
    assert await billing.mails() == []
