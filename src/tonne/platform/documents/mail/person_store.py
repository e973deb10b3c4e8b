"""Finds the mails to a person or about their orders, and erases them."""

from collections.abc import Collection, Sequence
from datetime import datetime

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.values.erased import ERASED

# What is left of a mail.
MESSAGE = f"Subject: {ERASED}\r\n\r\nThis mail was erased with the data of a person.\r\n".encode()


class PersonMail(Struct, frozen=True):
    id: str
    organisation_id: str
    recipients: list[str]
    message: bytes
    created_at: datetime
    sent_at: datetime | None
    # A worker will send it.
    is_waiting: bool

    @property
    def is_erased(self) -> bool:
        return self.message == MESSAGE


_MAIL = """id, organisation_id, recipients, message, created_at, sent_at,
       sent_at IS NULL AND next_attempt_at IS NOT NULL AS is_waiting"""
LIST_TO_ADDRESS = f"""
SELECT {_MAIL} FROM mails
WHERE ($1::text IS NULL OR organisation_id = $1)
  AND EXISTS (SELECT FROM unnest(recipients) AS recipient WHERE lower(recipient) = $2)
ORDER BY created_at, id
"""  # noqa: S608 - columns above


async def list_mails_to(connection: Connection, organisation_id: str | None, email: str) -> list[PersonMail]:
    """Mails to an address, which is in lower case. None: of every organisation."""
    return [PersonMail(**row) for row in await connection.fetch(LIST_TO_ADDRESS, organisation_id, email)]


LIST_ABOUT = f"""
SELECT {_MAIL} FROM mails WHERE organisation_id = $1 AND subject_id = ANY ($2::text[]) ORDER BY created_at, id
"""  # noqa: S608 - columns above


async def list_mails_about(
    connection: Connection, organisation_id: str, subject_ids: Sequence[str]
) -> list[PersonMail]:
    """Mails about orders, checkouts and refunds."""
    return [PersonMail(**row) for row in await connection.fetch(LIST_ABOUT, organisation_id, subject_ids)]


# A mail that was given up is discarded, so that nobody sends what is left of it. The token stops a worker that is
# sending it from writing back the recipients.
ERASE_MAIL = """
UPDATE mails SET recipients = $3, message = $4, last_error = NULL, lease_token = lease_token + 1,
                 discarded_at = CASE WHEN sent_at IS NULL AND held_reason IS NULL
                                     THEN coalesce(discarded_at, clock_timestamp()) ELSE discarded_at END
WHERE id = $1 AND created_at = $2 AND organisation_id = $5 AND (sent_at IS NOT NULL OR next_attempt_at IS NULL)
  AND (message <> $4 OR recipients <> $3)
"""


async def erase_mail(tx: Connection, mail: PersonMail, addresses: Collection[str]) -> bool:
    """False if it was erased before, or waits to be sent. `addresses`, in lower case, are removed as recipients."""
    left = [ERASED if recipient.lower() in addresses else recipient for recipient in mail.recipients]
    return await tx.execute(ERASE_MAIL, mail.id, mail.created_at, left, MESSAGE, mail.organisation_id) == "UPDATE 1"
