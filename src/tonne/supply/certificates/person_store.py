"""Finds and overwrites certificates in the name of a person who is erased."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Scope
from tonne.supply.certificates.pdf_store import forget_pdf_any_account
from tonne.supply.certificates.record import CertificateRecord, decode_record, encode_record
from tonne.supply.transparency.record_statements import erase_names


class OwnCertificate(NamedTuple):
    record: CertificateRecord
    state_reason: str | None
    is_public: bool
    # When the customer is mailed about a replacement or withdrawal.
    next_mail_at: datetime | None


LOCK_OF_ORDER = """
SELECT record, state_reason, is_public, next_mail_at FROM certificates
WHERE account_id = $1 AND order_id = $2 ORDER BY number FOR UPDATE
"""


async def lock_certificates(tx: Connection, scope: Scope, order_id: str) -> list[OwnCertificate]:
    """Those of an order, also the replaced ones."""
    return [
        OwnCertificate(
            decode_record(row["record"]),
            row["state_reason"],
            row["is_public"],
            row["next_mail_at"],
        )
        for row in await tx.fetch(LOCK_OF_ORDER, scope.account_id, order_id)
    ]


# The hashes of the PDFs stay: a file that the person has kept still verifies.
OVERWRITE = """
UPDATE certificates SET record = $3, state_reason = $4, is_public = $5 WHERE account_id = $1 AND number = $2
"""


async def overwrite_certificate(tx: Connection, scope: Scope, certificate: OwnCertificate) -> None:
    """In the transparency log, too."""
    await tx.execute(
        OVERWRITE,
        scope.account_id,
        certificate.record.number,
        encode_record(certificate.record),
        certificate.state_reason,
        certificate.is_public,
    )
    await forget_pdf_any_account(tx, certificate.record.number)
    await erase_names(tx, scope.mode, msgspec.to_builtins(certificate.record))


LIST_UNFINISHED_CASES = """
SELECT order_id FROM lot_cases
WHERE account_id = $1 AND order_id = ANY ($2::text[]) AND done_at IS NULL ORDER BY order_id
"""


async def list_unfinished_cases(connection: Connection, scope: Scope, order_ids: Sequence[str]) -> list[str]:
    """Those of the orders that hold credits of an invalid lot, about which nothing was decided or done yet."""
    return [row["order_id"] for row in await connection.fetch(LIST_UNFINISHED_CASES, scope.account_id, order_ids)]
