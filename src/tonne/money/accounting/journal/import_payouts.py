"""Import the card gateway's report of payouts and fees."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Annotated, ClassVar, NamedTuple

from tonne.money.accounting.journal import payout_store
from tonne.money.accounting.journal.errors import PayoutChanged
from tonne.money.accounting.journal.model import Payout
from tonne.platform.db.database import Connection
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
from tonne.platform.values.amounts import DECIMALS, parse_decimal
from tonne.platform.values.context import Actor, Mode

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


async def import_payouts(tx: Connection, mode: Mode, file: SheetFile, *, actor: Actor, now: datetime) -> PayoutImport:
    """Book every payout once. Raises SheetInvalid with every error, or PayoutChanged if a known payout differs."""
    payouts = _read(file)
    await payout_store.lock_imports(tx)
    known = await payout_store.find_known(tx, GATEWAY, [each.payout_id for each in payouts])
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
        await payout_store.insert_payouts(tx, mode, GATEWAY, new, actor=actor, now=now)
        details = {"file": file.name, "payouts": [each.payout_id for each in new]}
        entry = audit.Entry(action="payout.imported", subject_id=file.name, mode=mode, details=details)
        await audit.record_all(tx, [entry], actor=actor, at=now)
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
