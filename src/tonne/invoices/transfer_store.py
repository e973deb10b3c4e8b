"""SQL of bank transfers."""

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import NamedTuple

import asyncpg

from tonne.banking.statement import StatementLine
from tonne.base.actor import Actor
from tonne.base.ids import new_id
from tonne.base.money import format_money
from tonne.base.scope import Mode
from tonne.db.pool import Connection
from tonne.invoices.model import Invoice

# Transfers that need a person. The parts of an open invoice do not: the rest may still arrive. What is not an incoming
# payment was never expected to match.
UNRESOLVED = """
FROM bank_transfers transfer
LEFT JOIN invoices ON invoices.id = transfer.invoice_id
WHERE transfer.resolved_at IS NULL AND transfer.outcome <> 'matched' AND transfer.amount_minor > 0
  AND (transfer.outcome <> 'under' OR invoices.status = 'cancelled')
"""
# Key of the advisory lock. Any number that no other code uses.
_IMPORT_LOCK = 7_405_610_217


class TransferOutcome(StrEnum):
    """The result of importing a transfer. All but KNOWN are stored."""

    MATCHED = "matched"
    OVER = "over"
    UNDER = "under"
    UNKNOWN = "unknown"
    NOT_OPEN = "not_open"
    KNOWN = "known"


def line_digests(mode: Mode, lines: Sequence[StatementLine]) -> list[bytes]:
    """Equal for the same line of overlapping statements, so that it is booked once. Equal lines are numbered."""
    seen: Counter[str] = Counter()
    digests = []
    for line in lines:
        facts = (mode, line.booked_on.isoformat(), line.amount_minor, line.currency, line.payer, line.reference)
        text = json.dumps([*facts])
        digests.append(hashlib.sha256(json.dumps([*facts, seen[text]]).encode()).digest())
        seen[text] += 1
    return digests


class Transfer(NamedTuple):
    """`invoice_id` is the invoice that it pays, if known."""

    line: StatementLine
    outcome: TransferOutcome
    invoice_id: str | None
    digest: bytes = b""


LOCK_IMPORTS = "SELECT pg_advisory_xact_lock($1)"


async def lock_imports(tx: Connection) -> None:
    """Serialises imports: two statements may contain the same lines."""
    await tx.execute(LOCK_IMPORTS, _IMPORT_LOCK)


FIND_KNOWN = "SELECT digest FROM bank_transfers WHERE digest = ANY ($1::bytea[])"


async def find_known_any_account(tx: Connection, digests: Sequence[bytes]) -> set[bytes]:
    """Those of the digests that were imported before."""
    return {row["digest"] for row in await tx.fetch(FIND_KNOWN, digests)}


SUM_RECEIVED = """
SELECT invoice_id, sum(amount_minor)::bigint AS received_minor FROM bank_transfers
WHERE invoice_id = ANY ($1::text[]) AND outcome = 'under' GROUP BY invoice_id
"""


async def sum_received_any_account(tx: Connection, invoice_ids: Sequence[str]) -> dict[str, int]:
    """The amounts received so far for partly paid invoices, by id."""
    rows = await tx.fetch(SUM_RECEIVED, invoice_ids)
    return {row["invoice_id"]: row["received_minor"] for row in rows}


INSERT_TRANSFERS = """
INSERT INTO bank_transfers (id, digest, mode, booked_on, amount_minor, currency, payer, reference, outcome, invoice_id,
                            imported_at, imported_by)
SELECT transfer.id, transfer.digest, $1, transfer.booked_on, transfer.amount_minor, transfer.currency, transfer.payer,
       transfer.reference, transfer.outcome, transfer.invoice_id, $2, $3
FROM unnest($4::text[], $5::bytea[], $6::date[], $7::bigint[], $8::text[], $9::text[], $10::text[], $11::text[],
            $12::text[])
     AS transfer (id, digest, booked_on, amount_minor, currency, payer, reference, outcome, invoice_id)
"""


async def insert_transfers_any_account(
    tx: Connection, mode: Mode, transfers: Sequence[Transfer], *, actor: Actor, now: datetime
) -> None:
    """Insert transfers, at least one."""
    rows = [
        (
            *(new_id("trf"), digest, line.booked_on, line.amount_minor, line.currency, line.payer),
            *(line.reference, outcome, invoice_id),
        )
        for line, outcome, invoice_id, digest in transfers
    ]
    await tx.execute(INSERT_TRANSFERS, mode, now, str(actor), *zip(*rows, strict=True))


LIST_TRANSFERS = """
SELECT booked_on, amount_minor, currency, payer, reference, outcome FROM bank_transfers
WHERE invoice_id = $1 ORDER BY booked_on, id
"""


async def list_transfers(connection: Connection, invoice: Invoice) -> list[Transfer]:
    """The transfers for an invoice. Their line numbers in the statements are not stored."""
    transfers = []
    for row in await connection.fetch(LIST_TRANSFERS, invoice.id):
        values = dict(row)
        outcome = TransferOutcome(values.pop("outcome"))
        transfers.append(Transfer(StatementLine(line=0, **values), outcome, invoice.id))
    return transfers


@dataclass(frozen=True, slots=True)
class UnresolvedTransfer:
    """`invoice_reference` is the invoice that it names, if any."""

    id: str
    organisation_id: str | None
    mode: Mode
    booked_on: date
    amount_minor: int
    currency: str
    payer: str
    reference: str
    outcome: TransferOutcome
    invoice_reference: str | None

    @property
    def amount(self) -> str:
        return f"{format_money(self.amount_minor, self.currency)} {self.currency}"


_UNRESOLVED_COLUMNS = """
transfer.id, invoices.organisation_id, transfer.mode, transfer.booked_on, transfer.amount_minor, transfer.currency,
transfer.payer, transfer.reference, transfer.outcome, invoices.reference AS invoice_reference
"""


def _unresolved(row: asyncpg.Record) -> UnresolvedTransfer:
    return UnresolvedTransfer(**{**row, "mode": Mode(row["mode"]), "outcome": TransferOutcome(row["outcome"])})


LIST_UNRESOLVED = f"""
SELECT {_UNRESOLVED_COLUMNS} {UNRESOLVED} AND ($1::text IS NULL OR transfer.mode = $1)
ORDER BY transfer.imported_at, transfer.id
"""


async def list_unresolved_any_account(connection: Connection, mode: Mode | None) -> list[UnresolvedTransfer]:
    """Oldest first."""
    return [_unresolved(row) for row in await connection.fetch(LIST_UNRESOLVED, mode)]


LOCK_UNRESOLVED = f"""
SELECT {_UNRESOLVED_COLUMNS} {UNRESOLVED} AND transfer.id = $1 FOR UPDATE OF transfer
"""


async def lock_unresolved_any_account(tx: Connection, transfer_id: str) -> UnresolvedTransfer | None:
    row = await tx.fetchrow(LOCK_UNRESOLVED, transfer_id)
    return None if row is None else _unresolved(row)


RESOLVE = "UPDATE bank_transfers SET resolved_at = $2, resolution = $3 WHERE id = $1"


async def mark_resolved_any_account(tx: Connection, transfer_id: str, now: datetime, note: str) -> None:
    await tx.execute(RESOLVE, transfer_id, now, note)
