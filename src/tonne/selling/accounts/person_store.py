"""Where an e-mail address is used by an organisation itself."""

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Mode, Scope


class AddressUse(Struct, frozen=True):
    """`what` is a sentence; `command` ends the use."""

    what: str
    command: str


LIST_USES = """
SELECT format('admin of %s', organisation_id) AS what,
       format('tonne org remove-admin %s %s', organisation_id, email) AS command
FROM organisation_admins WHERE ($1::text IS NULL OR organisation_id = $1) AND lower(email) = $2
UNION ALL
SELECT format('may get test mail of %s', organisation_id),
       format('tonne org forbid-test-mail %s %s', organisation_id, email)
FROM test_mail_addresses WHERE ($1::text IS NULL OR organisation_id = $1) AND lower(email) = $2
UNION ALL
SELECT format('gets the receipts of account %s', id), format('tonne account update %s --receipt-email ""', id)
FROM accounts WHERE ($1::text IS NULL OR organisation_id = $1) AND lower(receipt_email) = $2
UNION ALL
SELECT format('is mailed about the card of account %s', id), format('tonne account update %s --card-email ""', id)
FROM accounts WHERE ($1::text IS NULL OR organisation_id = $1) AND lower(card_email) = $2
ORDER BY what
"""


async def list_address_uses(connection: Connection, organisation_id: str | None, email: str) -> list[AddressUse]:
    """`email` is in lower case. Without an organisation, every organisation is searched."""
    return [AddressUse(**row) for row in await connection.fetch(LIST_USES, organisation_id, email)]


LIST_SCOPES = """
SELECT organisation_id, id, mode FROM accounts
WHERE ($1::text IS NULL OR organisation_id = $1) AND ($2::text IS NULL OR mode = $2) ORDER BY id
"""


async def list_scopes(connection: Connection, organisation_id: str | None, mode: Mode | None) -> list[Scope]:
    """All accounts. None: of every organisation, in both modes."""
    rows = await connection.fetch(LIST_SCOPES, organisation_id, mode)
    return [Scope(row["organisation_id"], row["id"], Mode(row["mode"])) for row in rows]


LIST_MENTIONS = """
SELECT id FROM audit_log
WHERE ($1::text IS NULL OR organisation_id = $1)
  AND strpos(lower(concat_ws(' ', subject_id, before::text, after::text, details::text)), $2) > 0
ORDER BY at, id
"""


async def list_audit_mentions(connection: Connection, organisation_id: str | None, term: str) -> list[str]:
    """The ids of the entries that contain a term, which is in lower case. None: of every organisation."""
    return [row["id"] for row in await connection.fetch(LIST_MENTIONS, organisation_id, term)]
