"""The outbox: mails are retried, dropped only if a retry is pointless, and sent by one worker."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from email import message_from_bytes, policy
from email.message import EmailMessage

import asyncpg
import pytest

from tests.support.mail_server import DROP, Mailbox, mail_server
from tests.support.samples import parse_samples, total
from tests.support.spans import exporting_spans
from tonne.platform.db.database import Database
from tonne.platform.documents.mail.outbox import enqueue, without_attachments
from tonne.platform.documents.mail.send_mail import Attachment, compose_mail
from tonne.platform.documents.mail.send_outbox import PAUSES_MIN, SendMails
from tonne.platform.documents.mail.smtp import SmtpMail
from tonne.platform.process.telemetry.metrics_text import render
from tonne.platform.settings.settings import Settings


@pytest.fixture
async def box() -> AsyncIterator[Mailbox]:
    async with mail_server() as box:
        yield box


@pytest.fixture
def mails(db: Database, settings: Settings, box: Mailbox) -> SendMails:
    return SendMails(db, SmtpMail(box.url), settings)


async def queue(db: Database, settings: Settings, *recipients: str) -> None:
    to = list(recipients) or ["ada@ours.test"]
    async with db.transaction() as tx:
        await enqueue(tx, "org_a", to, compose_mail(settings, to, "Subject", "text"))


async def row(db: Database) -> asyncpg.Record:
    async with db.connection() as connection:
        found = await connection.fetchrow(
            "SELECT attempts, last_error, sent_at, next_attempt_at, lease_token, "
            "extract(epoch FROM next_attempt_at - clock_timestamp())::float8 AS pause_s FROM mails"
        )
    assert found is not None
    return found


async def pass_time(db: Database) -> None:
    """Make all waiting mails due."""
    async with db.connection() as connection:
        await connection.execute(
            "UPDATE mails SET next_attempt_at = clock_timestamp() WHERE next_attempt_at IS NOT NULL"
        )


async def test_a_mail_is_sent_once(db: Database, settings: Settings, mails: SendMails, box: Mailbox) -> None:
    await queue(db, settings)
    assert [await mails.run_once() for _ in range(3)] == [True, False, False]
    assert box.recipients == [["ada@ours.test"]]
    assert (await row(db))["sent_at"] is not None


async def stored(db: Database) -> EmailMessage:
    async with db.connection() as connection:
        return message_from_bytes(await connection.fetchval("SELECT message FROM mails"), policy=policy.default)


async def test_attachments_leave_the_outbox_after_sending(
    db: Database, settings: Settings, mails: SendMails, box: Mailbox
) -> None:
    """operations 16: sent mails kept their PDFs for ever."""
    pdf = bytes(range(256)) * 200
    to, attachment = ["ada@ours.test"], Attachment("certificate-7XKD.pdf", pdf)
    mail = compose_mail(settings, to, "Ihr Zertifikat für Ärzte", "Vielen Dank.\n", attachments=[attachment])
    async with db.transaction() as tx:
        await enqueue(tx, "org_a", to, mail)
    box.at_recipient.append("451 later")
    await mails.run_once()
    [waiting] = (await stored(db)).iter_attachments()
    assert waiting.get_content() == pdf, "a mail that is not sent yet keeps it"

    await pass_time(db)
    await mails.run_once()
    [received] = box.messages[-1].iter_attachments()
    assert (received.get_filename(), received.get_content()) == ("certificate-7XKD.pdf", pdf)
    kept = await stored(db)
    [note] = kept.iter_attachments()
    assert note.get_filename() == "certificate-7XKD.pdf.txt"
    assert hashlib.sha256(pdf).hexdigest() in note.get_content()
    assert "51200 bytes" in note.get_content()
    assert len(kept.as_bytes()) < 10_000
    assert {name: kept[name] for name in ("Subject", "To", "Date", "Message-ID")} == {
        name: mail[name] for name in ("Subject", "To", "Date", "Message-ID")
    }
    for kind in ("plain", "html"):
        body, sent = kept.get_body((kind,)), mail.get_body((kind,))
        assert body is not None
        assert sent is not None
        assert body.get_content().splitlines() == sent.get_content().splitlines()


def test_a_mail_that_cannot_be_read_is_kept_as_it_is() -> None:
    for message in (b"", b"no mail", b"Content-Type: multipart/mixed\r\n\r\n", b"\xff\x00"):
        assert without_attachments(message) == message


async def test_a_mail_of_a_rolled_back_transaction_is_not_sent(
    db: Database, settings: Settings, mails: SendMails
) -> None:
    async def fail() -> None:
        async with db.transaction() as tx:
            await enqueue(tx, "org_a", ["ada@ours.test"], compose_mail(settings, ["ada@ours.test"], "Subject", "text"))
            await tx.execute("SELECT 1 / 0")

    with pytest.raises(asyncpg.DivisionByZeroError):
        await fail()
    assert not await mails.run_once()


async def test_a_550_ends_the_retries_and_is_recorded(
    db: Database, settings: Settings, mails: SendMails, box: Mailbox
) -> None:
    box.at_recipient.append("550 no such user")
    await queue(db, settings)
    assert [await mails.run_once() for _ in range(2)] == [True, False]
    found = await row(db)
    assert (found["sent_at"], found["next_attempt_at"], found["attempts"]) == (None, None, 1)
    assert "550" in found["last_error"]


async def test_a_greylisted_mail_is_retried_after_a_minute(
    db: Database, settings: Settings, mails: SendMails, box: Mailbox
) -> None:
    box.at_recipient.append("451 greylisted, come back")
    await queue(db, settings)
    assert [await mails.run_once() for _ in range(2)] == [True, False]
    found = await row(db)
    assert "451" in found["last_error"]
    assert 50 < found["pause_s"] <= 60
    await pass_time(db)
    assert await mails.run_once()
    assert box.recipients == [["ada@ours.test"]]
    found = await row(db)
    assert (found["attempts"], found["last_error"], found["sent_at"] is None) == (2, None, False)


async def test_only_the_greylisted_recipient_gets_the_retry(
    db: Database, settings: Settings, mails: SendMails, box: Mailbox
) -> None:
    box.at_recipient.append("451 greylisted, come back")
    await queue(db, settings, "ada@ours.test", "grace@ours.test")
    assert await mails.run_once()
    assert box.recipients == [["grace@ours.test"]]
    await pass_time(db)
    await mails.run_once()
    assert [recipients.count("ada@ours.test") for recipients in box.recipients] == [0, 1]
    assert sum(recipients.count("grace@ours.test") for recipients in box.recipients) == 1


async def test_a_dropped_connection_is_retried(
    db: Database, settings: Settings, mails: SendMails, box: Mailbox
) -> None:
    box.at_data.append(DROP)
    await queue(db, settings)
    await mails.run_once()
    assert (await row(db))["sent_at"] is None
    await pass_time(db)
    await mails.run_once()
    assert (await row(db))["sent_at"] is not None
    assert len(box.mails) == 1


async def test_a_mail_that_is_refused_for_now_is_retried_for_two_days(
    db: Database, settings: Settings, mails: SendMails, box: Mailbox
) -> None:
    await queue(db, settings)
    waited_min = 0
    for pause_min in PAUSES_MIN:
        box.at_recipient.append("451 greylisted, come back")
        assert await mails.run_once()
        assert 0 <= pause_min * 60 - (await row(db))["pause_s"] < 30
        await pass_time(db)
        waited_min += pause_min
    assert waited_min > 45 * 60
    box.at_recipient.append("451 greylisted, come back")
    assert await mails.run_once()
    found = await row(db)
    assert (found["next_attempt_at"], found["attempts"]) == (None, len(PAUSES_MIN) + 1)


async def test_a_mail_is_sent_after_the_lease_of_a_dead_worker(
    db: Database, settings: Settings, mails: SendMails, box: Mailbox
) -> None:
    box.release.clear()
    await queue(db, settings)
    dying = asyncio.create_task(mails.run_once())
    await box.holding.wait()
    dying.cancel()
    box.release.set()
    await asyncio.gather(dying, return_exceptions=True)
    assert (await row(db))["sent_at"] is None
    assert not await mails.run_once()
    await pass_time(db)
    assert await mails.run_once()
    assert (await row(db))["sent_at"] is not None


async def test_two_workers_do_not_send_the_same_mail(
    db: Database, settings: Settings, mails: SendMails, box: Mailbox
) -> None:
    box.release.clear()
    await queue(db, settings)
    first = asyncio.create_task(mails.run_once())
    await box.holding.wait()
    assert not await SendMails(db, SmtpMail(box.url), settings).run_once()
    box.release.set()
    assert await first
    assert len(box.mails) == 1


async def test_a_worker_whose_lease_expired_settles_nothing(
    db: Database, settings: Settings, mails: SendMails, box: Mailbox
) -> None:
    box.release.clear()
    box.at_data.append("550 too late")
    await queue(db, settings)
    slow = asyncio.create_task(mails.run_once())
    await box.holding.wait()
    await pass_time(db)
    async with mail_server() as other:
        assert await SendMails(db, SmtpMail(other.url), settings).run_once()
        assert len(other.mails) == 1
    box.release.set()
    assert await slow
    found = await row(db)
    assert (found["sent_at"] is None, found["last_error"], found["lease_token"]) == (False, None, 2)


async def test_operations_12_outcomes_are_counted(
    db: Database, settings: Settings, mails: SendMails, box: Mailbox
) -> None:
    box.at_recipient.extend(["451 greylisted, come back", "550 no such user"])
    for _ in range(3):
        await queue(db, settings)
        await mails.run_once()
    samples = parse_samples(render(metric.snapshot() for metric in mails.metrics).decode())
    counted = [total(samples, "tonne_mails_total", outcome=outcome) for outcome in ("retried", "failed", "sent")]
    assert counted == [1, 1, 1]


async def test_sending_a_mail_is_a_span_without_its_recipients(
    db: Database, settings: Settings, mails: SendMails, monkeypatch: pytest.MonkeyPatch
) -> None:
    await queue(db, settings)
    with exporting_spans(monkeypatch) as exporter:
        assert await mails.run_once()
    (sent,) = [span for span in exporter.get_finished_spans() if span.name == "send mail"]
    assert sent.attributes is not None
    assert set(sent.attributes) == {"tonne.mail_id", "tonne.attempt", "tonne.outcome"}
    assert sent.attributes["tonne.outcome"] == "sent"
    assert "ada@" not in repr([span.to_json() for span in exporter.get_finished_spans()])
