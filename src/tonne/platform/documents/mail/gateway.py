"""What a mail is given to, and the one for development: `.eml` files in the data folder."""

from pathlib import Path
from typing import Protocol

from tonne.platform.process.private_files import create_private_folder, narrow_folder, write_private_file
from tonne.platform.values.context import new_id

# Connections are closed after so many seconds without a mail.
MAX_IDLE_S = 30.0


class MailRefused(Exception):
    """The mail was not accepted. `final`: a retry is pointless."""

    def __init__(self, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.final = final


class MailServerAway(MailRefused):
    """There is no connection to the mail server, or no login. That says nothing about the mail."""


class MailGateway(Protocol):
    async def send(self, sender: str, recipients: list[str], message: bytes) -> list[str]:
        """Send the message, or raise MailRefused. Returns the recipients that were refused for now, to be retried."""

    async def close_idle(self, longer_than_s: float = MAX_IDLE_S) -> None:
        """Close the connections that have not been used for so long."""


class FolderMail(MailGateway):
    """For development without a mail server: writes each mail to a file that mail programs can open.

    Only our own user can read the files: they contain addresses and certificates of buyers.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def send(self, sender: str, recipients: list[str], message: bytes) -> list[str]:  # noqa: ARG002 - in the message
        create_private_folder(self._folder)
        narrow_folder(self._folder)
        write_private_file(self._folder / f"{new_id('mail')}.eml", message)
        return []

    async def close_idle(self, longer_than_s: float = MAX_IDLE_S) -> None:
        """There are no connections."""
