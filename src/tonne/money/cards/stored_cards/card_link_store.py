"""SQL of `card_links`, and of the orders that mails about a card list."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec import Struct

from tonne.platform.db.database import Connection, optional, scope_of, value_of
from tonne.platform.values.context import Scope

# At most one mail per account in this time, however many orders are declined.
MAIL_PAUSE = timedelta(hours=1)
# A link works for this time, or until a newer one is sent: old mails and copies of them do not open the page for ever.
LINK_LASTS = timedelta(days=90)
# Mails of this time have the same link, so that each works for a while.
LINK_RENEWED_AFTER = timedelta(days=30)

NOTE_PROBLEMS = """
INSERT INTO card_links (account_id, organisation_id, mode, created_at, next_mail_at)
SELECT account_id, organisation_id, mode, $1, $1
FROM unnest($3::text[], $4::text[], $5::text[]) AS new (account_id, organisation_id, mode)
ON CONFLICT (account_id) DO UPDATE
SET next_mail_at = coalesce(card_links.next_mail_at, greatest($1, card_links.mailed_at + $2::interval))
"""


async def note_problems(tx: Connection, scopes: Iterable[Scope], now: datetime) -> None:
    """Have the payers of these accounts mailed, now or when the pause since the last mail is over."""
    accounts = sorted(set(scopes), key=lambda scope: scope.account_id)
    if accounts:
        rows = [(scope.account_id, scope.organisation_id, scope.mode) for scope in accounts]
        await tx.execute(NOTE_PROBLEMS, now, MAIL_PAUSE, *zip(*rows, strict=True))


class DueCardMail(NamedTuple):
    scope: Scope
    token_box: bytes | None
    # Failed orders of this time and later have not been mailed yet.
    since: datetime


CLAIM_MAILS = """
SELECT organisation_id, account_id, mode, token_box,
       coalesce(mailed_at + interval '1 microsecond', created_at) AS since
FROM card_links WHERE next_mail_at <= $1 ORDER BY next_mail_at LIMIT $2 FOR UPDATE SKIP LOCKED
"""


async def claim_card_mails(tx: Connection, now: datetime, limit: int) -> list[DueCardMail]:
    rows = await tx.fetch(CLAIM_MAILS, now, limit)
    return [DueCardMail(scope_of(row), row["token_box"], row["since"]) for row in rows]


FINISH_MAIL = """
UPDATE card_links SET next_mail_at = NULL, mailed_at = CASE WHEN $3 THEN $2 ELSE mailed_at END WHERE account_id = $1
"""


async def finish_card_mail(tx: Connection, scope: Scope, now: datetime, *, is_mailed: bool) -> None:
    await tx.execute(FINISH_MAIL, scope.account_id, now, is_mailed)


POSTPONE_MAIL = "UPDATE card_links SET next_mail_at = $2 WHERE account_id = $1"


async def postpone_card_mail(tx: Connection, scope: Scope, until: datetime) -> None:
    await tx.execute(POSTPONE_MAIL, scope.account_id, until)


FIND_CARD_LINK_BOX = """
SELECT CASE WHEN token_made_at > $2 OR session_id IS NOT NULL THEN token_box END
FROM card_links WHERE account_id = $1 FOR UPDATE
"""


async def lock_card_link(tx: Connection, scope: Scope, now: datetime) -> bytes | None:
    """The sealed token; None if a new one is due. From the gateway's page the payer comes back with the old one."""
    return optional(bytes, await tx.fetchval(FIND_CARD_LINK_BOX, scope.account_id, now - LINK_RENEWED_AFTER))


STORE_CARD_LINK = """
INSERT INTO card_links (account_id, organisation_id, mode, token_hash, token_box, token_made_at, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $6)
ON CONFLICT (account_id) DO UPDATE SET (token_hash, token_box, token_made_at)
     = (excluded.token_hash, excluded.token_box, excluded.token_made_at)
"""


async def set_card_link_token(
    tx: Connection, scope: Scope, *, token_hash: bytes, token_box: bytes, now: datetime
) -> None:
    await tx.execute(STORE_CARD_LINK, scope.account_id, scope.organisation_id, scope.mode, token_hash, token_box, now)


class CardLink(Struct, frozen=True):
    """`session_id`: a page of the gateway on which the payer may be entering a card."""

    scope: Scope
    currency: str
    account_name: str
    merchant: str
    session_id: str | None
    # The language of the account.
    language: str


FIND_CARD_LINK = """
SELECT link.organisation_id, link.account_id, link.mode, link.session_id, accounts.currency,
       accounts.language, accounts.name AS account_name, organisations.name AS merchant
FROM card_links link
JOIN accounts ON accounts.organisation_id = link.organisation_id AND accounts.id = link.account_id
JOIN organisations ON organisations.id = link.organisation_id
WHERE link.token_hash = $1 AND link.token_made_at > $2
"""


async def find_card_link(connection: Connection, secret_hash: bytes, now: datetime) -> CardLink | None:
    row = await connection.fetchrow(FIND_CARD_LINK, secret_hash, now - LINK_LASTS)
    if row is None:
        return None
    return value_of(CardLink, row, scope=scope_of(row))


RECORD_SETUP = "UPDATE card_links SET session_id = $2, next_check_at = $3 WHERE account_id = $1"


async def record_setup(connection: Connection, scope: Scope, session_id: str, check_at: datetime) -> None:
    """The page that a payer is sent to."""
    await connection.execute(RECORD_SETUP, scope.account_id, session_id, check_at)


FINISH_SETUP = """
UPDATE card_links SET session_id = NULL, next_check_at = NULL WHERE account_id = $1 AND session_id = $2
"""


async def finish_setup(connection: Connection, scope: Scope, session_id: str) -> None:
    """The card of that page is stored, or the page has expired."""
    await connection.execute(FINISH_SETUP, scope.account_id, session_id)


CLAIM_SETUPS = """
UPDATE card_links SET next_check_at = $2
WHERE account_id IN (SELECT account_id FROM card_links WHERE next_check_at <= $1
                     ORDER BY next_check_at LIMIT $3 FOR UPDATE SKIP LOCKED)
RETURNING organisation_id, account_id, mode, session_id
"""


class DueSetup(NamedTuple):
    scope: Scope
    session_id: str


async def claim_setups(connection: Connection, now: datetime, check_again_at: datetime, limit: int) -> list[DueSetup]:
    rows = await connection.fetch(CLAIM_SETUPS, now, check_again_at, limit)
    return [DueSetup(scope_of(row), row["session_id"]) for row in rows]
