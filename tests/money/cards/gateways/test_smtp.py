"""Mail through a real SMTP server: accepted, rejected permanently or temporarily."""

import asyncio
import email
import email.policy
import os
import ssl
import stat
from pathlib import Path

import pytest
import trustme

from tests.support.mail_server import DROP, mail_server
from tests.support.processes import free_port
from tests.support.receivers import hang, listening
from tonne.platform.documents.mail.gateway import FolderMail, MailRefused
from tonne.platform.documents.mail.send_mail import compose_mail
from tonne.platform.documents.mail.smtp import SmtpMail, mail_from_settings
from tonne.platform.settings.settings import Settings

SENDER = "Tonne <tonne@ours.test>"


async def send(url: str, *recipients: str, timeout_s: float = 20.0) -> None:
    message = compose_mail(
        Settings(mail_from=SENDER), list(recipients) or ["ada@ours.test"], "Größe", "1 t für €5\n.\n"
    )
    await SmtpMail(url, timeout_s).send(SENDER, list(recipients) or ["ada@ours.test"], message.as_bytes())


async def test_a_mail_reaches_all_recipients_unchanged() -> None:
    async with mail_server() as box:
        await send(box.url, "ada@ours.test", "grace@ours.test")
    [mail] = box.mails
    assert mail.rcpt_tos == ["ada@ours.test", "grace@ours.test"]
    assert mail.mail_from == "tonne@ours.test"
    assert isinstance(mail.content, bytes)
    parsed = email.message_from_bytes(mail.content, policy=email.policy.default)
    assert parsed["Subject"] == "Größe"
    text, html = parsed.get_body(("plain",)), parsed.get_body(("html",))
    assert text is not None
    assert text.get_content().replace("\r\n", "\n") == "1 t für €5\n.\n\nTonne\n"
    assert html is not None
    assert "1 t für €5<br>.</p>" in html.get_content()


@pytest.mark.parametrize("answer", ["550 no such user", "554 no", "501 bad address"])
async def test_a_5xx_for_every_recipient_is_final(answer: str) -> None:
    async with mail_server() as box:
        box.at_recipient.extend([answer, answer])
        with pytest.raises(MailRefused, match=answer[:3]) as refused:
            await send(box.url, "ada@ours.test", "grace@ours.test")
    assert refused.value.final
    assert box.mails == []


@pytest.mark.parametrize("where", ["at_recipient", "at_data"])
async def test_a_4xx_is_not_final(where: str) -> None:
    async with mail_server() as box:
        getattr(box, where).append("451 greylisted, come back")
        with pytest.raises(MailRefused, match="451") as refused:
            await send(box.url)
        assert not refused.value.final
        await send(box.url)
    assert len(box.mails) == 1


async def test_a_5xx_for_the_message_is_final() -> None:
    async with mail_server() as box:
        box.at_data.append("552 too large")
        with pytest.raises(MailRefused, match="552") as refused:
            await send(box.url)
    assert refused.value.final


async def test_a_mail_is_not_final_while_one_recipient_may_be_retried() -> None:
    async with mail_server() as box:
        box.at_recipient.extend(["550 no such user", "451 greylisted"])
        with pytest.raises(MailRefused) as refused:
            await send(box.url, "gone@ours.test", "ada@ours.test")
    assert not refused.value.final


@pytest.mark.parametrize("where", ["at_recipient", "at_data"])
async def test_a_dropped_connection_is_not_final(where: str) -> None:
    async with mail_server() as box:
        getattr(box, where).append(DROP)
        with pytest.raises(MailRefused) as refused:
            await send(box.url)
    assert not refused.value.final
    assert box.mails == []


async def test_a_server_that_closes_the_connection_is_not_final() -> None:
    async def take(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with listening(take) as port:
        with pytest.raises(MailRefused) as refused:
            await send(f"smtp://127.0.0.1:{port}")
    assert not refused.value.final


async def test_a_server_that_never_greets_times_out_and_is_not_final() -> None:
    async with listening(lambda _, writer: hang(writer)) as port:
        with pytest.raises(MailRefused) as refused:
            await send(f"smtp://127.0.0.1:{port}", timeout_s=0.3)
    assert not refused.value.final
    assert str(refused.value)


async def test_an_unreachable_server_is_not_final() -> None:
    with pytest.raises(MailRefused) as refused:
        await send(f"smtp://127.0.0.1:{free_port()}")
    assert not refused.value.final


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, ssl.SSLContext]:
    """The file of a certificate authority, and the context of a server with its certificate."""
    authority = trustme.CA()
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    return path, context


async def test_starttls_is_used_if_offered_and_required_for_a_login(
    certificate: tuple[Path, ssl.SSLContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, context = certificate
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    async with mail_server(context, login=True) as box:
        await send(f"smtp://ops%40ours:p%3Aw%40@localhost:{box.port}")
    assert box.logins == [("ops@ours", "p:w@")]
    assert box.encrypted == [True]


async def test_a_server_with_an_invalid_certificate_gets_no_mail(
    certificate: tuple[Path, ssl.SSLContext],
) -> None:
    async with mail_server(certificate[1]) as box:
        with pytest.raises(MailRefused) as refused:
            await send(box.url)
    assert not refused.value.final
    assert box.mails == []


HOSTILE = [
    "Hello\r\nBcc: victim@elsewhere.test",
    "Hello\nX-Evil: 1",
    "Hello\r\n\r\n<script>alert(1)</script>",
    "Hello\u2028Bcc: x\u0085Cc: y\x0bTo: z",
    "é" * 500,
    "=?utf-8?q?=0ABcc:_victim?=",
]


@pytest.mark.parametrize("subject", HOSTILE)
async def test_hostile_text_in_a_subject_stays_in_the_subject(subject: str) -> None:
    message = compose_mail(Settings(mail_from=SENDER), ["ada@ours.test"], subject, "text")
    async with mail_server() as box:
        await SmtpMail(box.url).send(SENDER, ["ada@ours.test"], message.as_bytes())
    content = box.mails[0].content
    assert isinstance(content, bytes)
    head = content.split(b"\r\n\r\n")[0]
    names = [line.split(b":")[0] for line in head.split(b"\r\n") if not line.startswith((b" ", b"\t"))]
    assert len(names) == len(set(names))
    assert set(names) <= {
        b"From", b"To", b"Subject", b"Message-ID", b"MIME-Version", b"Content-Type", b"Content-Transfer-Encoding",
        b"Auto-Submitted", b"Content-Language",
    }  # fmt: skip


@pytest.mark.parametrize(
    "recipient",
    [
        "ada@ours.test\r\nBcc: victim@elsewhere.test",
        "a\nb@ours.test",
        "=?utf-8?q?=0D=0ABcc=3A_victim=40elsewhere=2Etest?= <ada@ours.test>",
    ],
)
def test_hostile_text_in_a_recipient_is_ignored(recipient: str) -> None:
    message = compose_mail(Settings(mail_from=SENDER), [recipient, "grace@ours.test"], "Subject", "text")
    assert b"\nBcc" not in message.as_bytes()
    assert "grace@ours.test" in message["To"]


async def test_without_a_mail_server_each_mail_is_a_file(tmp_path: Path) -> None:
    gateway = mail_from_settings(Settings(data_dir=str(tmp_path)))
    assert isinstance(gateway, FolderMail)
    for text in (b"one", b"two"):
        await gateway.send(SENDER, ["ada@ours.test"], text)
    assert sorted(file.read_bytes() for file in (tmp_path / "mail").glob("*.eml")) == [b"one", b"two"]


async def test_security_12_mails_in_files_are_private(tmp_path: Path) -> None:
    data, umask = tmp_path / "data", os.umask(0o022)
    try:
        await FolderMail(data / "mail").send(SENDER, ["ada@ours.test"], b"one")
    finally:
        os.umask(umask)
    [file] = (data / "mail").iterdir()
    assert [stat.S_IMODE(path.stat().st_mode) for path in (data, data / "mail", file)] == [0o700, 0o700, 0o600]


async def test_security_12_an_open_mail_folder_is_narrowed_and_no_folder_is_widened(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "mail").mkdir(parents=True)
    data.chmod(0o750)
    (data / "mail").chmod(0o755)
    await FolderMail(data / "mail").send(SENDER, ["ada@ours.test"], b"one")
    assert [stat.S_IMODE(path.stat().st_mode) for path in (data, data / "mail")] == [0o750, 0o700]
    (data / "mail").chmod(0o300)
    await FolderMail(data / "mail").send(SENDER, ["ada@ours.test"], b"two")
    assert stat.S_IMODE((data / "mail").stat().st_mode) == 0o300


def test_with_a_mail_server_mail_is_sent_to_it() -> None:
    assert isinstance(mail_from_settings(Settings(smtp_url="smtp://localhost:2525")), SmtpMail)
