"""Payouts and fees of the card gateway: importing its report, and matching a payout with a line of a bank statement."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Annotated, ClassVar, NamedTuple

from msgspec import Struct

from tonne.money.accounting.journal.errors import PayoutChanged, PayoutNotFound, PayoutNotMatched
from tonne.money.accounting.journal.model import Payout
from tonne.money.bank.return_store import reopen_transfer, resolve_transfer
from tonne.money.bank.transfer_model import Transfer
from tonne.platform.db.database import Connection, columns
from tonne.platform.documents.sheets.columns import (
    CellError,
    Column,
    Currency,
    Date,
    Label,
    SheetInvalid,
    precision_error,
    quoted,
)
from tonne.platform.documents.sheets.read_sheet import Row, SheetFile, Values, read_sheet
from tonne.platform.events.audit import record as audit
from tonne.platform.values.amounts import DECIMALS, format_money, parse_decimal
from tonne.platform.values.context import By, Mode, new_id

# Key of the advisory lock. Any number that no other code uses.
_IMPORT_LOCK = 7_405_610_218

LOCK_IMPORTS = "SELECT pg_advisory_xact_lock($1)"


async def lock_imports(tx: Connection) -> None:
    """Serialises imports: two reports may contain the same payouts."""
    await tx.execute(LOCK_IMPORTS, _IMPORT_LOCK)


FIND_KNOWN_PAYOUTS = """
SELECT payout_id, paid_on, currency, amount_minor, fee_minor FROM gateway_payouts
WHERE gateway = $1 AND payout_id = ANY ($2::text[])
"""


async def find_known_payouts(tx: Connection, gateway: str, payout_ids: Sequence[str]) -> dict[tuple[str, str], Payout]:
    """The payouts that were imported before, by id and currency."""
    rows = await tx.fetch(FIND_KNOWN_PAYOUTS, gateway, payout_ids)
    return {(row["payout_id"], row["currency"]): Payout(**row) for row in rows}


INSERT_PAYOUTS = """
INSERT INTO gateway_payouts (id, mode, gateway, payout_id, paid_on, currency, amount_minor, fee_minor, imported_at,
                             imported_by)
SELECT new.id, $1, $2, new.payout_id, new.paid_on, new.currency, new.amount_minor, new.fee_minor, $3, $4
FROM unnest($5::text[], $6::text[], $7::date[], $8::text[], $9::bigint[], $10::bigint[])
     AS new (id, payout_id, paid_on, currency, amount_minor, fee_minor)
"""


async def insert_payouts(tx: Connection, mode: Mode, gateway: str, payouts: Sequence[Payout], *, by: By) -> None:
    ids = [new_id("pyo") for _ in payouts]
    rows = columns(payouts, "payout_id, paid_on, currency, amount_minor, fee_minor")
    await tx.execute(INSERT_PAYOUTS, mode, gateway, by.at, str(by.actor), ids, *rows)


class ListedPayout(Struct, frozen=True):
    """`transfer_id` is the line of a bank statement that shows it, once it is matched."""

    id: str
    payout_id: str
    paid_on: date
    currency: str
    amount_minor: int
    fee_minor: int
    transfer_id: str | None


LIST_PAYOUTS = """
SELECT id, payout_id, paid_on, currency, amount_minor, fee_minor, transfer_id FROM gateway_payouts
WHERE mode = $1 ORDER BY paid_on DESC, id DESC LIMIT $2
"""


async def list_payouts(connection: Connection, mode: Mode, limit: int) -> list[ListedPayout]:
    """Newest first."""
    return [ListedPayout(**row) for row in await connection.fetch(LIST_PAYOUTS, mode, limit)]


LIST_OPEN_PAYOUTS = """
SELECT id, payout_id, paid_on, currency, amount_minor, fee_minor, transfer_id FROM gateway_payouts
WHERE mode = $1 AND currency = $2 AND amount_minor = $3 AND transfer_id IS NULL ORDER BY paid_on, id LIMIT 10
"""


async def list_open_payouts(connection: Connection, mode: Mode, currency: str, amount_minor: int) -> list[ListedPayout]:
    """Payouts of this amount that no transfer was matched with, oldest first."""
    rows = await connection.fetch(LIST_OPEN_PAYOUTS, mode, currency, amount_minor)
    return [ListedPayout(**row) for row in rows]


LOCK_PAYOUT = """
SELECT id, payout_id, paid_on, currency, amount_minor, fee_minor, transfer_id FROM gateway_payouts
WHERE id = $1 OR payout_id = $1 ORDER BY id FOR UPDATE
"""


async def lock_payouts(tx: Connection, name: str) -> list[ListedPayout]:
    """By our id, or by the gateway's, which several currencies share."""
    return [ListedPayout(**row) for row in await tx.fetch(LOCK_PAYOUT, name)]


SET_TRANSFER = "UPDATE gateway_payouts SET transfer_id = $2 WHERE id = $1"


async def set_transfer(tx: Connection, payout_id: str, transfer_id: str) -> None:
    await tx.execute(SET_TRANSFER, payout_id, transfer_id)


CLEAR_TRANSFER = "UPDATE gateway_payouts SET transfer_id = NULL WHERE transfer_id = $1"


async def clear_transfer(tx: Connection, transfer_id: str) -> None:
    """The payout that was matched with the transfer, if any, waits for its transfer again."""
    await tx.execute(CLEAR_TRANSFER, transfer_id)


# The only gateway that pays out.
GATEWAY = "stripe"


def _parse_amount(cell: str) -> Decimal:
    number = parse_decimal(cell.removeprefix("-"))
    if number is None:
        raise CellError(f"{quoted(cell)} is not an amount: write digits, with a point before the decimals.")
    return -number if cell.startswith("-") else number


Amount = Annotated[Decimal, Column(_parse_amount)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PayoutRow(Row):
    """`amount` is what arrived at the bank, `fee` what the gateway kept."""

    KEY: ClassVar[tuple[str, ...]] = ("payout_id", "currency")

    payout_id: Label
    paid_on: Date
    currency: Currency
    amount: Amount
    fee: Amount


class PayoutImport(NamedTuple):
    added: int
    known: int


async def import_payouts(tx: Connection, mode: Mode, file: SheetFile, *, by: By) -> PayoutImport:
    """Book every payout once. Raises SheetInvalid with every error, or PayoutChanged if a known payout differs."""
    payouts = _read(file)
    await lock_imports(tx)
    known = await find_known_payouts(tx, GATEWAY, [each.payout_id for each in payouts])
    new = []
    for payout in payouts:
        booked = known.get((payout.payout_id, payout.currency))
        if booked is None:
            new.append(payout)
        elif booked != payout:
            raise PayoutChanged(
                f"The payout {payout.payout_id} was imported before with another date, amount or fee: check the file. "
                "An imported payout is in the journal and cannot change."
            )
    if new:
        await insert_payouts(tx, mode, GATEWAY, new, by=by)
        details = {"file": file.name, "payouts": [each.payout_id for each in new]}
        entry = audit.Entry(action="payout.imported", subject_id=file.name, mode=mode, details=details)
        await audit.record_all(tx, [entry], by=by)
    return PayoutImport(len(new), len(payouts) - len(new))


def _read(file: SheetFile) -> Sequence[Payout]:
    sheet = read_sheet(file, PayoutRow, _check_decimals)
    if sheet.errors:
        raise SheetInvalid(sheet.errors)
    return [
        Payout(
            payout_id=row.payout_id,
            paid_on=row.paid_on,
            currency=row.currency,
            amount_minor=int(row.amount.scaleb(DECIMALS[row.currency])),
            fee_minor=int(row.fee.scaleb(DECIMALS[row.currency])),
        )
        for row in sheet.rows
    ]


def _check_decimals(values: Values) -> Iterator[tuple[str, str]]:
    for name in ("amount", "fee"):
        if {name, "currency"} <= values.keys():
            message = precision_error(values[name], DECIMALS[values["currency"]])
            if message is not None:
                yield name, message


async def match_payout(tx: Connection, name: str, transfer_id: str, *, by: By) -> ListedPayout:
    """`name` is our id of the payout, or the gateway's. The transfer then no longer waits for a decision."""
    note = f"Payout {name} of the card gateway"
    transfer = await resolve_transfer(tx, transfer_id, note, by=by, is_payout=True)
    # Several payouts can share the gateway's id, in different currencies.
    found = [each for each in await lock_payouts(tx, name) if each.currency == transfer.currency]
    if not found:
        raise PayoutNotFound
    [payout] = found
    if payout.transfer_id is not None:
        raise PayoutNotMatched(f"The payout {payout.payout_id} is already matched with transfer {payout.transfer_id}.")
    if payout.amount_minor != transfer.rest_minor:
        amount = f"{format_money(payout.amount_minor, payout.currency)} {payout.currency}"
        raise PayoutNotMatched(
            f"The payout {payout.payout_id} is {amount}, transfer {transfer.id} has {transfer.rest} left."
        )
    await set_transfer(tx, payout.id, transfer.id)
    details = {"payout": payout.payout_id, "transfer_id": transfer.id}
    entry = audit.Entry(action="payout.matched", subject_id=payout.id, mode=transfer.mode, details=details)
    await audit.record_all(tx, [entry], by=by)
    return payout


async def reopen_and_unmatch(tx: Connection, transfer_id: str, note: str, *, by: By) -> Transfer:
    """Undo `resolve_transfer` and `match_payout`."""
    transfer = await reopen_transfer(tx, transfer_id, note, by=by)
    await clear_transfer(tx, transfer.id)
    return transfer
