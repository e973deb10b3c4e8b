"""The certificates of an organisation for people: newest first, with a search."""

from collections.abc import Sequence
from datetime import UTC, datetime

import asyncpg
from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Mode
from tonne.platform.values.paging import START, Position
from tonne.supply.certificates.store import STORED, StoredCertificate, stored_certificate

# A page reads at most this many certificates. If too few of them match, it says from where to continue.
SCANNED = 3_000
_EARLIEST = datetime(1, 1, 1, tzinfo=UTC)


class CertificateFilter(Struct, frozen=True, kw_only=True):
    """`since` is included, `until` is not. `text` is a part of what the certificate states: names, serial numbers."""

    mode: Mode
    text: str | None = None
    since: datetime | None = None
    until: datetime | None = None


class ListedCertificates(Struct, frozen=True):
    """`next` is where to continue, None after the last one. `is_short`: more may match than were read."""

    certificates: list[StoredCertificate]
    next: Position | None
    is_short: bool


LIST_OF_ORGANISATION = f"""
SELECT {STORED}, number, issued_at, place, matches FROM (
    SELECT {STORED}, number, issued_at, row_number() OVER () AS place,
           $7::text IS NULL OR strpos(lower(convert_from(record, 'UTF8')), lower($7)) > 0 AS matches
    FROM (SELECT {STORED}, number, issued_at FROM certificates
          WHERE organisation_id = $1 AND mode = $2 AND (issued_at, number) < ($3, $4) AND issued_at >= $5
          ORDER BY issued_at DESC, number DESC LIMIT {SCANNED}) AS newest
) AS scanned WHERE matches OR place = {SCANNED} LIMIT $6
"""  # noqa: S608 - constants


async def list_certificates(
    connection: Connection, organisation_id: str, requested: CertificateFilter, start: Position = START, *, limit: int
) -> ListedCertificates:
    before = start
    if requested.until is not None and requested.until <= start.created_at:
        before = Position(requested.until, "")
    rows = await connection.fetch(
        LIST_OF_ORGANISATION,
        organisation_id,
        requested.mode,
        before.created_at,
        before.id,
        requested.since or _EARLIEST,
        limit + 1,
        requested.text,
    )
    return _page(rows, limit)


def _page(rows: Sequence[asyncpg.Record], limit: int) -> ListedCertificates:
    found = [row for row in rows if row["matches"]]
    shown = [stored_certificate(row) for row in found[:limit]]
    if len(found) > limit:
        last = found[limit - 1]
        return ListedCertificates(shown, Position(last["issued_at"], last["number"]), is_short=False)
    if rows and rows[-1]["place"] == SCANNED:
        return ListedCertificates(shown, Position(rows[-1]["issued_at"], rows[-1]["number"]), is_short=True)
    return ListedCertificates(shown, None, is_short=False)


FIND_NAMED = f"""
SELECT {STORED} FROM certificates WHERE organisation_id = $1 AND mode = $2 AND number = $3
UNION ALL
SELECT {STORED} FROM certificates
WHERE organisation_id = $1 AND mode = $2 AND order_id = $4
  AND account_id IN (SELECT id FROM accounts WHERE accounts.organisation_id = $1 AND accounts.mode = $2)
"""  # noqa: S608 - constants


async def find_certificates(
    connection: Connection, organisation_id: str, mode: Mode, *, number: str, order_id: str
) -> list[StoredCertificate]:
    """Those with this number, or of this order."""
    rows = await connection.fetch(FIND_NAMED, organisation_id, mode, number, order_id)
    return [stored_certificate(row) for row in rows]
