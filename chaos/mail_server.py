"""A mail server that takes every mail, and lets a scenario do something instead."""

import asyncio
import email
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from email.message import EmailMessage
from email.policy import default
from typing import Self

from aiosmtpd.smtp import SMTP, Envelope, Session

from chaos.certificates import HOST

_INVOICE = re.compile(r"Invoice (TN-TEST-\d+):")


class Mailbox:
    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        # Called when a mail is in and its sender waits to hear of it: that mail counts as lost, which a server may do
        # with what it has not acknowledged.
        self.instead_of_answer: Callable[[], Awaitable[None]] | None = None
        self.url = ""
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: SMTP(self, loop=loop, hostname="mail.test"), HOST, 0)
        self.url = f"smtp://{HOST}:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()

    async def handle_DATA(self, _: SMTP, __: Session, envelope: Envelope) -> str:  # noqa: N802 - aiosmtpd's name
        if self.instead_of_answer is not None:
            await self.instead_of_answer()
            return "451 not today"
        content = envelope.content if isinstance(envelope.content, bytes) else b""
        mail = email.message_from_bytes(content, policy=default)
        assert isinstance(mail, EmailMessage)
        self.mails.append(mail)
        return "250 taken"

    def invoices(self) -> Counter[str]:
        """How often each invoice has arrived, with its PDF, by its reference."""
        found: Counter[str] = Counter()
        for mail in self.mails:
            names = [part.get_filename() for part in mail.iter_attachments()]
            if (match := _INVOICE.search(mail["Subject"])) and f"{match[1]}.pdf" in names:
                found[match[1]] += 1
        return found
