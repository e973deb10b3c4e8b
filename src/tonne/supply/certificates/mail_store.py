"""The queue of mails about certificates that were replaced or withdrawn (`next_mail_at`)."""

from datetime import datetime
from typing import NamedTuple

from tonne.platform.db.database import Connection, scope_of
from tonne.platform.values.context import Scope
from tonne.supply.certificates.record import CertificateRecord, decode_record


class DueCertificate(NamedTuple):
    """A new certificate, or a withdrawn one; then `withdrawn_reason` says why.

    `leased_until` is the fencing token of the lease.
    """

    scope: Scope
    order_id: str
    email: str
    record: CertificateRecord
    withdrawn_reason: str | None
    leased_until: datetime


CLAIM_CHANGED = """
UPDATE certificates SET next_mail_at = $2
FROM (
    SELECT certificate.account_id, certificate.number, orders.email
    FROM certificates certificate
    JOIN orders ON orders.account_id = certificate.account_id AND orders.id = certificate.order_id
    WHERE certificate.next_mail_at <= $1
    ORDER BY certificate.next_mail_at LIMIT $3 FOR UPDATE OF certificate SKIP LOCKED) due
WHERE certificates.account_id = due.account_id AND certificates.number = due.number
RETURNING certificates.organisation_id, certificates.account_id, certificates.mode, certificates.order_id, due.email,
          certificates.record, certificates.state_reason, certificates.next_mail_at
"""


async def claim_changed(
    connection: Connection, now: datetime, leased_until: datetime, limit: int
) -> list[DueCertificate]:
    """Lease changed certificates until `leased_until`."""
    return [
        DueCertificate(
            scope=scope_of(row),
            order_id=row["order_id"],
            email=row["email"] or "",
            record=decode_record(row["record"]),
            withdrawn_reason=row["state_reason"],
            leased_until=row["next_mail_at"],
        )
        for row in await connection.fetch(CLAIM_CHANGED, now, leased_until, limit)
    ]


FINISH_CHANGED = (
    "UPDATE certificates SET next_mail_at = NULL WHERE account_id = $1 AND number = $2 AND next_mail_at = $3"
)


async def finish_changed(tx: Connection, scope: Scope, due: DueCertificate) -> bool:
    """False when the lease has expired, or the certificate has been replaced meanwhile."""
    done = await tx.execute(FINISH_CHANGED, scope.account_id, due.record.number, due.leased_until)
    return done == "UPDATE 1"
