"""Invoices through a real mail server, on good days and bad ones; names that want to be more than names."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from tests.invoices.billing import ADA, Clock, Office, parse, pdf_of, text_of
from tests.support.command import output_of
from tests.support.mail_server import DROP, Mailbox, mail_server
from tests.support.world import World
from tonne.base.settings import Settings
from tonne.db.pool import Database
from tonne.gateways.mail import SmtpMail
from tonne.gateways.outbox import SendMails
from tonne.invoices.cancel_order import cancel_order

HEADERS = {"From", "To", "Subject", "Message-ID", "Date", "MIME-Version", "Content-Type"}


@pytest.fixture
async def office(furnished_db: Database, settings: Settings, world: World) -> Office:
    office = Office(furnished_db, settings, Clock())
    await office.add_admins(world.ours_live.scope.organisation_id, ADA)
    return office


@pytest.fixture
async def box() -> AsyncIterator[Mailbox]:
    async with mail_server() as box:
        yield box


async def _send_all(office: Office, box: Mailbox) -> None:
    """Let all the time pass in which mails are tried again."""
    mails = SendMails(office.database, SmtpMail(box.url), office.settings)
    for _ in range(3):
        while await mails.run_once():
            pass
        async with office.database.connection() as connection:
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
async def test_an_invoice_arrives_once_in_the_end(
    office: Office, world: World, box: Mailbox, where: str, answers: list[str]
) -> None:
    getattr(box, where).extend(answers)
    await office.place(world.ours_live.scope)
    await office.work()
    await _send_all(office, box)
    _check_the_one_mail(box)


async def test_an_invoice_that_is_refused_is_on_record_and_can_be_sent_again(
    office: Office, world: World, box: Mailbox
) -> None:
    box.at_recipient.append("550 no such user")
    await office.place(world.ours_live.scope)
    await office.work()
    await _send_all(office, box)
    assert box.mails == []
    [row] = await office.fetch("SELECT last_error, next_attempt_at FROM mails")
    assert row["next_attempt_at"] is None
    assert "550" in row["last_error"]
    said = output_of("invoice", "resend", "TN-LIVE-000001", database_url=office.database._url)
    assert said == f"TN-LIVE-000001 will be mailed to {ADA}."
    await _send_all(office, box)
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
async def test_a_hostile_name_is_a_name_in_mail_and_pdf(office: Office, world: World, box: Mailbox, name: str) -> None:
    async with office.database.transaction() as tx:
        await tx.execute("UPDATE organisations SET name = $1, address = $2", name[:200], f"{name}\n{name}"[:1000])
        await tx.execute("UPDATE bundles SET name = $1", name[:200])
    await office.place(world.ours_live.scope, metadata='{"name":"\\r\\nBcc: victim@elsewhere.test"}')
    await office.work()
    await _send_all(office, box)
    [envelope] = box.mails
    assert isinstance(envelope.content, bytes)
    mail = parse(envelope.content)
    assert set(mail.keys()) <= HEADERS
    assert len(mail.keys()) == len(set(mail.keys()))
    assert (mail["To"], envelope.rcpt_tos) == (ADA, [ADA])
    assert "victim" not in mail["Subject"]
    greeting, *_ = text_of(mail).splitlines()
    assert greeting.startswith("To ")
    assert not any(line.startswith("Bcc") for line in text_of(mail).splitlines())
    assert "13.95" in pdf_of(mail)


async def test_a_reason_that_was_typed_in_stays_one_line(office: Office, world: World) -> None:
    order = await office.place(world.ours_live.scope)
    await office.work()
    async with office.database.transaction() as tx:
        reason = "Twice.\n\nPlease pay to XX00 instead"
        await cancel_order(tx, order, settings=office.settings, actor="test", reason=reason, now=office.clock())
    *_, mail = await office.mails()
    assert "\nReason: Twice. Please pay to XX00 instead\n" in text_of(mail)
    assert list(mail.iter_attachments()) == []


async def test_who_was_never_mailed_an_invoice_is_not_told_of_its_end(office: Office, world: World) -> None:
    order = await office.place(world.ours_live.scope)
    await office.issue.run_once()
    async with office.database.transaction() as tx:
        await cancel_order(tx, order, settings=office.settings, actor="test", reason=None, now=office.clock())
    assert await office.mails() == []


async def test_without_a_bank_account_customers_are_told_to_ask(office: Office, world: World) -> None:
    await office.place(world.ours_live.scope)
    await office.work()
    [mail] = await office.mails()
    assert "Ask Tonne for the bank details." in text_of(mail)


async def test_a_mail_without_an_usable_address_goes_to_nobody(office: Office, world: World) -> None:
    scope = replace(world.theirs_test.scope)
    await office.add_admins(scope.organisation_id, "ada@ours.test\r\nBcc: victim@elsewhere.test")
    await office.place(scope)
    await office.work()
    assert await office.mails() == []
