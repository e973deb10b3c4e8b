"""SQL of audit packs and of the certificates in them."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta

from tonne.platform.db.database import Connection, optional, parameters_of, value_of, value_or_none
from tonne.platform.values.amounts import format_tonnes
from tonne.platform.values.context import Scope, Tenant
from tonne.supply.certificates.packs.model import AuditPack
from tonne.supply.certificates.record import CertificateRecord, decode_record
from tonne_verify.pack_tables import PlannedOrder

_COLUMNS = (
    "organisation_id, mode, id, first_day, last_day, status, done, total, bytes, failures, created_at, expires_at"
)

LIST_NUMBERS = """
SELECT number FROM certificates
WHERE organisation_id = $1 AND mode = $2 AND state = 'valid'
  AND issued_at >= $3::date::timestamp AT TIME ZONE 'UTC'
  AND issued_at < ($4::date + 1)::timestamp AT TIME ZONE 'UTC'
ORDER BY issued_at, number LIMIT $5
"""


async def list_numbers(connection: Connection, tenant: Tenant, days: tuple[date, date], *, limit: int) -> list[str]:
    """The valid certificates that were issued from the first to the last of two days, oldest first."""
    rows = await connection.fetch(LIST_NUMBERS, *tenant, *days, limit)
    return [row["number"] for row in rows]


LIST_RECORDS = """
SELECT record FROM certificates
WHERE number = ANY ($3) AND organisation_id = $1 AND mode = $2 AND state = 'valid' ORDER BY issued_at, number
"""


async def list_records(connection: Connection, tenant: Tenant, numbers: Sequence[str]) -> list[CertificateRecord]:
    """A certificate that was replaced meanwhile is left out."""
    rows = await connection.fetch(LIST_RECORDS, *tenant, numbers)
    return [decode_record(row["record"]) for row in rows]


LIST_PLANNED = """
SELECT id AS "order", status, quantity_grams FROM orders
WHERE organisation_id = $1 AND mode = $2 AND status IN ('paid', 'retiring') ORDER BY created_at, id
"""


async def list_planned(connection: Connection, tenant: Tenant) -> list[PlannedOrder]:
    """Orders whose credits are paid for, or on credit, and not certified yet."""
    rows = await connection.fetch(LIST_PLANNED, *tenant)
    return [PlannedOrder(row["order"], row["status"], format_tonnes(row["quantity_grams"])) for row in rows]


COUNT_WAITING = """
SELECT count(*) FROM audit_packs WHERE organisation_id = $1 AND mode = $2 AND status = 'waiting'
"""


async def count_waiting(tx: Connection, tenant: Tenant) -> int:
    return int(await tx.fetchval(COUNT_WAITING, *tenant))


INSERT_PACK = """
INSERT INTO audit_packs (organisation_id, mode, id, first_day, last_day, status, created_at, next_attempt_at,
                         expires_at, requested_by)
VALUES ($1, $2, $3, $4, $5, 'waiting', $6, $6, $7, $8)
"""


async def insert_pack(tx: Connection, pack: AuditPack, requested_by: str) -> None:
    names = "organisation_id, mode, id, first_day, last_day, created_at, expires_at"
    await tx.execute(INSERT_PACK, *parameters_of(pack, names), requested_by)


LIST_PACKS = f"""
SELECT {_COLUMNS} FROM audit_packs WHERE organisation_id = $1 AND mode = $2 ORDER BY created_at DESC, id DESC LIMIT 50
"""  # noqa: S608 - only the constant above is inserted


async def list_packs(connection: Connection, tenant: Tenant) -> list[AuditPack]:
    return [value_of(AuditPack, row) for row in await connection.fetch(LIST_PACKS, *tenant)]


FIND_PACK = f"""
SELECT {_COLUMNS} FROM audit_packs WHERE organisation_id = $1 AND mode = $2 AND id = $3
"""  # noqa: S608 - only the constant above is inserted


async def find_pack(connection: Connection, tenant: Tenant, pack_id: str) -> AuditPack | None:
    return value_or_none(AuditPack, await connection.fetchrow(FIND_PACK, *tenant, pack_id))


READ_PART = "SELECT content FROM audit_pack_parts WHERE organisation_id = $1 AND pack_id = $2 AND number = $3"


async def read_part(connection: Connection, pack: AuditPack, number: int) -> bytes | None:
    return optional(bytes, await connection.fetchval(READ_PART, pack.organisation_id, pack.id, number))


DELETE_PACK = "DELETE FROM audit_packs WHERE organisation_id = $1 AND mode = $2 AND id = $3"


async def delete_pack(tx: Connection, pack: AuditPack) -> None:
    await tx.execute(DELETE_PACK, pack.organisation_id, pack.mode, pack.id)


# The clock of the database: workers on several machines agree on it.
CLAIM_PACK = f"""
UPDATE audit_packs SET next_attempt_at = now() + $1
WHERE (organisation_id, id) = (
    SELECT organisation_id, id FROM audit_packs WHERE next_attempt_at <= now()
    ORDER BY next_attempt_at LIMIT 1 FOR UPDATE SKIP LOCKED
)
RETURNING {_COLUMNS}
"""  # noqa: S608 - only the constant above is inserted


async def claim_pack(connection: Connection, lease: timedelta) -> AuditPack | None:
    return value_or_none(AuditPack, await connection.fetchrow(CLAIM_PACK, lease))


NOTE_PROGRESS = """
UPDATE audit_packs SET done = $3, total = $4, next_attempt_at = now() + $5
WHERE organisation_id = $1 AND id = $2 AND status = 'waiting' RETURNING true
"""


async def note_progress(connection: Connection, pack: AuditPack, done: int, total: int, lease: timedelta) -> bool:
    """Extends the lease. False if the pack was deleted or finished by another worker."""
    found = await connection.fetchval(NOTE_PROGRESS, pack.organisation_id, pack.id, done, total, lease)
    return found is True


FINISH_PACK = """
UPDATE audit_packs SET status = 'ready', next_attempt_at = NULL, bytes = $3, done = $4, total = $4, expires_at = $5
WHERE organisation_id = $1 AND id = $2 AND status = 'waiting' RETURNING true
"""


async def finish_pack(tx: Connection, pack: AuditPack, size: int, done: int, expires_at: datetime) -> bool:
    return await tx.fetchval(FINISH_PACK, pack.organisation_id, pack.id, size, done, expires_at) is True


INSERT_PART = "INSERT INTO audit_pack_parts (organisation_id, pack_id, number, content) VALUES ($1, $2, $3, $4)"


async def insert_part(tx: Connection, pack: AuditPack, number: int, content: bytes) -> None:
    await tx.execute(INSERT_PART, pack.organisation_id, pack.id, number, content)


NOTE_FAILURE = """
UPDATE audit_packs
SET failures = failures + 1, status = CASE WHEN failures + 1 >= $3 THEN 'failed' ELSE status END,
    next_attempt_at = CASE WHEN failures + 1 >= $3 THEN NULL ELSE now() + $4 END
WHERE organisation_id = $1 AND id = $2 AND status = 'waiting'
"""


async def note_failure(connection: Connection, pack: AuditPack, most: int, pause: timedelta) -> None:
    await connection.execute(NOTE_FAILURE, pack.organisation_id, pack.id, most, pause)


DELETE_EXPIRED = """
DELETE FROM audit_packs WHERE (organisation_id, id) IN (
    SELECT organisation_id, id FROM audit_packs WHERE expires_at <= $1 LIMIT $2)
"""


async def delete_expired(connection: Connection, now: datetime, limit: int) -> int:
    """How many were deleted, with their files."""
    return int((await connection.execute(DELETE_EXPIRED, now, limit)).rsplit(" ", 1)[1])


DELETE_PACKS = "DELETE FROM audit_packs WHERE organisation_id = $1 AND mode = $2"


async def delete_packs(tx: Connection, scope: Scope) -> None:
    """When a person is erased: packs contain names. They can be made again."""
    await tx.execute(DELETE_PACKS, scope.organisation_id, scope.mode)
