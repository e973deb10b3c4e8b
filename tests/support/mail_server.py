"""A real SMTP server that accepts mail, or fails in the ways that mail servers fail."""

import asyncio
import email
import email.policy
import ssl
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

DROP = "drop the connection"


@dataclass
class Mailbox:
    """The received mail. Error replies are set for the next recipients or messages, in order."""

    port: int = 0
    mails: list[Envelope] = field(default_factory=list)
    logins: list[tuple[str, str]] = field(default_factory=list)
    at_recipient: deque[str] = field(default_factory=deque)
    at_data: deque[str] = field(default_factory=deque)
    # While cleared, a received message waits for its reply; `holding` is set as soon as one waits. With `slow`, only
    # those to these recipients do; with `takes_held`, they are in `mails` already.
    slow: frozenset[str] = frozenset()
    takes_held: bool = False
    release: asyncio.Event = field(default_factory=asyncio.Event)
    holding: asyncio.Event = field(default_factory=asyncio.Event)
    encrypted: list[bool] = field(default_factory=list)
    sessions: list[SMTP] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.release.set()

    @property
    def url(self) -> str:
        return f"smtp://localhost:{self.port}"

    @property
    def recipients(self) -> list[list[str]]:
        return [[str(address) for address in mail.rcpt_tos] for mail in self.mails]

    @property
    def messages(self) -> list[EmailMessage]:
        """The received mails, parsed."""
        found = []
        for mail in self.mails:
            assert isinstance(mail.content, bytes)
            message = email.message_from_bytes(mail.content, policy=email.policy.default)
            assert isinstance(message, EmailMessage)
            found.append(message)
        return found

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's name
        self, server: SMTP, _: Session, envelope: Envelope, address: str, __: list[str]
    ) -> str:
        if (bad := self._next(self.at_recipient, server)) is not None:
            return bad
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802 - the same
        is_held = not self.release.is_set() and (not self.slow or not self.slow.isdisjoint(envelope.rcpt_tos))
        if is_held and self.takes_held:
            self.mails.append(envelope)
        self.holding.set()
        if is_held:
            await self.release.wait()
        if (bad := self._next(self.at_data, server)) is not None:
            return bad
        self.encrypted.append(session.ssl is not None)
        if not (is_held and self.takes_held):
            self.mails.append(envelope)
        return "250 OK"

    def authenticate(self, _: SMTP, __: Session, ___: Envelope, ____: str, given: object) -> AuthResult:
        assert isinstance(given, LoginPassword)
        self.logins.append((given.login.decode(), given.password.decode()))
        return AuthResult(success=True)

    def drop_connections(self) -> None:
        """Close all connections. Messages that still wait for their reply are lost."""
        for session in self.sessions:
            if session.transport is not None:
                session.transport.abort()  # type: ignore[attr-defined]

    @staticmethod
    def _next(answers: deque[str], server: SMTP) -> str | None:
        answer = answers.popleft() if answers else None
        if answer == DROP:
            assert server.transport is not None
            server.transport.abort()  # type: ignore[attr-defined]
            return "421 Closing"
        return answer


@asynccontextmanager
async def mail_server(
    tls: ssl.SSLContext | None = None, *, login: bool = False, port: int = 0
) -> AsyncIterator[Mailbox]:
    """Listens on a port of its own, if none is given. With `tls` it offers STARTTLS and requires it."""
    mailbox = Mailbox()
    loop = asyncio.get_running_loop()

    def make() -> SMTP:
        session = SMTP(
            mailbox,
            loop=loop,
            hostname="mail.test",
            tls_context=tls,
            require_starttls=tls is not None,
            auth_required=login,
            authenticator=mailbox.authenticate if login else None,
        )
        mailbox.sessions.append(session)
        return session

    server = await loop.create_server(make, "127.0.0.1", port)
    mailbox.port = server.sockets[0].getsockname()[1]
    try:
        yield mailbox
    finally:
        server.close()
        mailbox.drop_connections()
