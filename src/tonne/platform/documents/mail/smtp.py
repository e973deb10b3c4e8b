"""Sends mail by SMTP, or writes files if no server is set."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import unquote

from tonne.platform.documents.mail.gateway import MAX_IDLE_S, FolderMail, MailGateway
from tonne.platform.settings.settings import SMTP_SCHEMES, Settings
from tonne.platform.values.urls import parse_url

if TYPE_CHECKING:
    from tonne.platform.documents.mail.smtp_connection import SmtpConnection

# A connection is used for so many mails.
MAX_MAILS = 100


class SmtpMail(MailGateway):
    """`smtp://` with STARTTLS where the server offers it, `smtps://` with TLS from the start.

    Connections are kept for the next mails. There are as many as mails that are sent at the same time.
    """

    def __init__(self, url: str, timeout_s: float = 30.0, monotonic: Callable[[], float] = time.monotonic) -> None:
        parts = parse_url(url, SMTP_SCHEMES, credentials=True)
        username, _, password = parts.userinfo.partition(":")
        self._host = parts.host.strip("[]")
        self._tls = parts.scheme == "smtps"
        self._port = parts.port or (465 if self._tls else 25)
        self._credentials = unquote(username) or None, unquote(password) or None
        self._timeout_s = timeout_s
        self._monotonic = monotonic
        # The one that was used last comes last.
        self._idle: list[SmtpConnection] = []

    async def send(self, sender: str, recipients: list[str], message: bytes) -> list[str]:
        from tonne.platform.documents.mail.smtp_connection import (  # noqa: PLC0415 - no command but the worker sends
            ClosedBeforeData,
        )

        if self._idle:
            # Servers close idle connections at any time, so one that is closed says nothing about the mail.
            try:
                return await self._send(self._idle.pop(), (sender, recipients, message))
            except ClosedBeforeData:
                pass
        return await self._send(await self._connect(), (sender, recipients, message))

    async def _send(self, connection: "SmtpConnection", mail: tuple[str, list[str], bytes]) -> list[str]:
        try:
            return await connection.send(*mail)
        finally:
            connection.idle_since = self._monotonic()
            if not connection.is_usable:
                connection.close()
            elif connection.mails < MAX_MAILS:
                self._idle.append(connection)
            else:
                await connection.quit()

    async def close_idle(self, longer_than_s: float = MAX_IDLE_S) -> None:
        while self._idle and self._monotonic() - self._idle[0].idle_since >= longer_than_s:
            await self._idle.pop(0).quit()

    async def check(self) -> None:
        """Connect and log in, without sending anything. Raises MailRefused."""
        await (await self._connect()).quit()

    async def _connect(self) -> "SmtpConnection":
        from tonne.platform.documents.mail.smtp_connection import SmtpConnection  # noqa: PLC0415 - as above

        return await SmtpConnection.connect(
            self._host, self._port, tls=self._tls, credentials=self._credentials, timeout_s=self._timeout_s
        )


def mail_from_settings(settings: Settings) -> MailGateway:
    return SmtpMail(settings.smtp_url) if settings.smtp_url else FolderMail(settings.data_path / "mail")
