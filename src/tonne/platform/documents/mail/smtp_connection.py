"""One connection to the mail server, for one mail after another. Only what sends imports this module."""

import aiosmtplib

from tonne.platform.documents.mail.gateway import MailRefused, MailServerAway

# How long a server may take to say goodbye.
QUIT_S = 2.0
_CLOSING = 421


class ClosedBeforeData(MailRefused):
    """The server closed the connection before it was given the message: another connection may be tried at once."""


class SmtpConnection:
    def __init__(self, client: aiosmtplib.SMTP) -> None:
        self._client = client
        self.mails = 0
        self.idle_since = 0.0
        # False after an error that leaves open what the next answer of the server is about.
        self.is_usable = True

    @classmethod
    async def connect(
        cls, host: str, port: int, *, tls: bool, credentials: tuple[str | None, str | None], timeout_s: float
    ) -> "SmtpConnection":
        """Connect and log in. Raises MailServerAway."""
        username, password = credentials
        client = aiosmtplib.SMTP(
            hostname=host, port=port, use_tls=tls, username=username, password=password, timeout=timeout_s
        )
        try:
            await client.connect()
        except (aiosmtplib.SMTPException, OSError) as error:
            raise MailServerAway(_text(error)) from error
        return cls(client)

    async def send(self, sender: str, recipients: list[str], message: bytes) -> list[str]:
        """As `MailGateway.send`. Raises ClosedBeforeData, too."""
        self.mails += 1
        self.is_usable, has_begun_data = False, False
        try:
            size = [f"size={len(message)}"] if self._client.supports_extension("size") else []
            await self._client.mail(sender, options=size)
            refused = [error for recipient in recipients if (error := await self._name(recipient)) is not None]
            has_begun_data = len(refused) < len(recipients)
            if has_begun_data:
                await self._client.data(message)
        except aiosmtplib.SMTPResponseException as error:
            if error.code == _CLOSING and not has_begun_data:
                raise ClosedBeforeData(_text(error)) from error
            await self._reset()
            raise MailRefused(_text(error), final=_is_final(error)) from error
        except aiosmtplib.SMTPServerDisconnected as error:
            raise (MailRefused if has_begun_data else ClosedBeforeData)(_text(error)) from error
        except (aiosmtplib.SMTPException, OSError) as error:
            raise MailRefused(_text(error)) from error
        if not has_begun_data:
            await self._reset()
            raise MailRefused("; ".join(map(_text, refused)), final=all(map(_is_final, refused)))
        self.is_usable = True
        return [error.recipient for error in refused if not _is_final(error)]

    async def _name(self, recipient: str) -> aiosmtplib.SMTPRecipientRefused | None:
        try:
            await self._client.rcpt(recipient)
        except aiosmtplib.SMTPRecipientRefused as error:
            if error.code == _CLOSING:
                raise
            return error
        return None

    async def _reset(self) -> None:
        """Make the server forget a refused mail. After one that it took it has nothing to forget: no RSET is needed."""
        try:
            await self._client.rset()
        except (aiosmtplib.SMTPException, OSError):
            return
        self.is_usable = True

    async def quit(self) -> None:
        try:
            await self._client.quit(timeout=QUIT_S)
        except (aiosmtplib.SMTPException, OSError):
            self.close()

    def close(self) -> None:
        self._client.close()


def _is_final(error: aiosmtplib.SMTPResponseException) -> bool:
    """5xx answers are permanent."""
    return error.code >= 500


def _text(error: Exception) -> str:
    if isinstance(error, aiosmtplib.SMTPResponseException):
        return f"{error.code} {error.message}"
    return str(error) or type(error).__name__
