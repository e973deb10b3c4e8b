"""Connections to the mail server are kept, and what happens to one mail does not affect the next."""

import asyncio
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trustme

from tests.support.clock import ManualClock
from tests.support.mail_server import mail_server
from tests.support.receivers import listening
from tonne.platform.documents.mail.gateway import MAX_IDLE_S, MailRefused, MailServerAway
from tonne.platform.documents.mail.smtp import MAX_MAILS, SmtpMail

DROP = ""
STEPS_BEFORE_THE_MAIL = ("greeting", "EHLO")
STEPS_BEFORE_DATA = ("MAIL", "RCPT")
STEPS_OF_DATA = ("DATA", "message")


@dataclass
class ScriptedServer:
    """A mail server that gives one wrong answer, the next time that the step of `wrong` is reached, and closes."""

    port: int = 0
    wrong: dict[str, str] = field(default_factory=dict)
    steps: Counter[str] = field(default_factory=Counter)
    # The recipients of each mail that was taken.
    taken: list[list[str]] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        recipients: list[str] = []
        if not await self._answer(writer, "greeting", "220 ready"):
            return
        while line := (await reader.readline()).decode():
            verb = line[:4].strip().upper()
            if verb == "RCPT":
                recipients.append(line.partition("<")[2].partition(">")[0])
            elif verb in {"MAIL", "RSET"}:
                recipients = []
            if not await self._answer(writer, verb, "354 go on" if verb == "DATA" else "250 OK"):
                return
            if verb == "DATA":
                await reader.readuntil(b"\r\n.\r\n")
                self.taken.append(recipients)
                if not await self._answer(writer, "message", "250 OK"):
                    return

    async def _answer(self, writer: asyncio.StreamWriter, step: str, usual: str) -> bool:
        """False if the connection is closed."""
        self.steps[step] += 1
        answer = self.wrong.pop(step, usual)
        if answer:
            writer.write(f"{answer}\r\n".encode())
            await writer.drain()
        if answer == usual:
            return True
        writer.close()
        return False


@asynccontextmanager
async def scripted() -> AsyncIterator[tuple[ScriptedServer, SmtpMail]]:
    server = ScriptedServer()
    async with listening(server.serve) as server.port:
        gateway = SmtpMail(f"smtp://127.0.0.1:{server.port}", 20.0)
        yield server, gateway
        await gateway.close_idle(0)


async def send(gateway: SmtpMail, *recipients: str) -> list[str]:
    return await gateway.send("tonne@ours.test", list(recipients), b"Subject: one\r\n\r\ntext\r\n")


@pytest.mark.parametrize("answer", ["421 closing", DROP])
@pytest.mark.parametrize("step", STEPS_BEFORE_DATA)
async def test_a_kept_connection_that_the_server_closes_is_replaced_at_once(step: str, answer: str) -> None:
    async with scripted() as (server, gateway):
        await send(gateway, "a@ours.test")
        server.wrong[step] = answer
        await send(gateway, "b@ours.test")
        assert server.taken == [["a@ours.test"], ["b@ours.test"]]
        assert server.steps["greeting"] == 2


@pytest.mark.parametrize("answer", ["421 closing", DROP])
@pytest.mark.parametrize("step", STEPS_BEFORE_DATA)
async def test_only_one_connection_is_tried_in_its_place(step: str, answer: str) -> None:
    async with scripted() as (server, gateway):
        server.wrong[step] = answer
        with pytest.raises(MailRefused) as refused:
            await send(gateway, "a@ours.test")
        assert (refused.value.final, isinstance(refused.value, MailServerAway)) == (False, False)
        assert server.steps["greeting"] == 1
        await send(gateway, "a@ours.test")
        assert len(server.taken) == 1


@pytest.mark.parametrize("answer", ["421 closing", DROP])
@pytest.mark.parametrize("step", STEPS_OF_DATA)
async def test_from_data_on_the_outcome_is_unknown_and_nothing_is_sent_again_at_once(step: str, answer: str) -> None:
    async with scripted() as (server, gateway):
        await send(gateway, "a@ours.test")
        server.wrong[step] = answer
        with pytest.raises(MailRefused) as refused:
            await send(gateway, "b@ours.test")
        assert not refused.value.final
        assert server.steps["DATA"] == 2
        await send(gateway, "c@ours.test")
        assert server.taken[-1] == ["c@ours.test"]


@pytest.mark.parametrize("answer", ["421 too many connections", "554 go away", DROP])
@pytest.mark.parametrize("step", STEPS_BEFORE_THE_MAIL)
async def test_without_a_connection_the_server_is_away_whatever_it_says(step: str, answer: str) -> None:
    async with scripted() as (server, gateway):
        server.wrong |= {step: answer, "HELO": answer}
        with pytest.raises(MailServerAway) as refused:
            await send(gateway, "a@ours.test")
        assert not refused.value.final
        server.wrong.clear()
        await send(gateway, "a@ours.test")
        assert len(server.taken) == 1


@pytest.mark.parametrize("answer", ["421 closing", DROP])
async def test_a_server_that_closes_at_rset_or_quit_loses_no_mail(answer: str) -> None:
    async with scripted() as (server, gateway):
        server.wrong |= {"RCPT": "550 no such user", "RSET": answer}
        with pytest.raises(MailRefused):
            await send(gateway, "gone@ours.test")
        await send(gateway, "a@ours.test")
        server.wrong["QUIT"] = answer
        await gateway.close_idle(0)
        await send(gateway, "b@ours.test")
        assert server.taken == [["a@ours.test"], ["b@ours.test"]]


async def test_a_refused_recipient_does_not_affect_the_next_mail_of_the_connection() -> None:
    async with mail_server() as box:
        gateway = SmtpMail(box.url)
        await send(gateway, "a@ours.test")
        box.at_recipient.extend(["550 no such user", "451 later"])
        with pytest.raises(MailRefused) as gone:
            await send(gateway, "gone@ours.test")
        assert await send(gateway, "late@ours.test", "b@ours.test") == ["late@ours.test"]
        box.at_data.append("552 too large")
        with pytest.raises(MailRefused):
            await send(gateway, "c@ours.test")
        await send(gateway, "d@ours.test")
        assert gone.value.final
        assert box.recipients == [["a@ours.test"], ["b@ours.test"], ["d@ours.test"]]
        assert len(box.sessions) == 1


async def test_a_connection_is_kept_for_a_hundred_mails_and_half_a_minute() -> None:
    clock = ManualClock()
    async with mail_server() as box:
        gateway = SmtpMail(box.url, monotonic=clock.monotonic)
        for _ in range(MAX_MAILS + 1):
            await send(gateway, "a@ours.test")
        assert len(box.sessions) == 2
        clock.advance(seconds=MAX_IDLE_S - 1)
        await gateway.close_idle()
        await send(gateway, "a@ours.test")
        assert len(box.sessions) == 2
        clock.advance(seconds=MAX_IDLE_S)
        await gateway.close_idle()
        await send(gateway, "a@ours.test")
        assert len(box.sessions) == 3


async def test_a_connection_logs_in_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    async with mail_server(context, login=True) as box:
        gateway = SmtpMail(f"smtp://ops:secret@localhost:{box.port}")
        await send(gateway, "a@ours.test")
        await send(gateway, "b@ours.test")
        assert (box.logins, box.encrypted) == ([("ops", "secret")], [True, True])
