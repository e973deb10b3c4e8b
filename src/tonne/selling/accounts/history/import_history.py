"""Import the orders of a former provider as the history of an account, and undo such an import."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Annotated, ClassVar

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.documents.sheets.columns import (
    Column,
    Currency,
    Date,
    HttpsUrl,
    Label,
    RowError,
    SheetInvalid,
    decimal,
    precision_error,
)
from tonne.platform.documents.sheets.read_sheet import Row, SheetFile, Values, read_sheet
from tonne.platform.events.audit import record as audit
from tonne.platform.values.amounts import DECIMALS, MassUnit, to_grams
from tonne.platform.values.context import Actor, Scope, new_id
from tonne.selling.accounts.errors import HistoryImportNotFound
from tonne.selling.accounts.history.history_store import (
    HistoryImport,
    HistoryOrder,
    delete_import,
    find_known,
    insert_history,
    list_imports_any_account,
)
from tonne.selling.accounts.store import lock_account


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow(Row):
    """`quantity` is in tonnes."""

    KEY: ClassVar[tuple[str, ...]] = ("provider", "external_id")

    date: Date
    external_id: Label
    quantity: Annotated[Decimal, Column(decimal(6, 1_000_000_000))]
    provider: Label
    amount: Annotated[Decimal, Column(decimal(4, 1_000_000_000_000))] | None = None
    currency: Currency | None = None
    link: HttpsUrl | None = None


class HistoryReport(Struct, frozen=True):
    """`import_id` is None if nothing was imported. `errors` are those of the rows that were refused."""

    import_id: str | None
    orders_count: int
    errors: list[RowError]

    @property
    def refused_count(self) -> int:
        return len({each.line for each in self.errors})


async def import_history(
    tx: Connection, scope: Scope, file: SheetFile, *, actor: Actor, now: datetime, apply: bool = True
) -> HistoryReport:
    """Import the valid rows and report the others. Raises SheetInvalid if the file cannot be read to its end."""
    # Another import of the same orders waits, and then finds them.
    await lock_account(tx, scope)
    # Local time is up to 14 hours ahead of UTC.
    sheet = read_sheet(file, HistoryRow, partial(_check, (now + timedelta(hours=14)).date()))
    if not sheet.complete:
        raise SheetInvalid(sheet.errors)
    known = await find_known(tx, scope, {row.provider for row in sheet.rows})
    for row in sheet.rows:
        if row.key in known:
            message = f"the import {known[row.key]} has an order of this provider with this id: remove the line."
            sheet.add_error(row.line, "external_id", message)
    new = [_order(scope, row) for row in sheet.rows if row.key not in known]
    import_id = new_id("hst") if new and apply else None
    if import_id is not None:
        await insert_history(tx, scope, import_id, new, now=now)
        values = {"orders": len(new), "file": file.name}
        await audit.record(tx, scope, "history.imported", actor=actor, at=now, after=values, import_id=import_id)
    return HistoryReport(import_id, len(new), sorted(sheet.errors, key=lambda error: error.line or 0))


async def undo_import_any_account(tx: Connection, import_id: str, *, actor: Actor, now: datetime) -> HistoryImport:
    """Remove the orders of an import."""
    found = next(iter(await list_imports_any_account(tx, import_id)), None)
    if found is None or not await delete_import(tx, found.scope, import_id):
        raise HistoryImportNotFound
    values = {"orders": found.orders_count}
    await audit.record(tx, found.scope, "history.undone", actor=actor, at=now, before=values, import_id=import_id)
    return found


def _check(latest: date, values: Values) -> Iterator[tuple[str, str]]:
    if values.get("date") is not None and values["date"] > latest:
        yield "date", f"{values['date']} is in the future: write the day on which the order was placed."
    if "amount" in values and "currency" in values:
        amount, currency = values["amount"], values["currency"]
        if (amount is None) != (currency is None):
            yield "currency", "amount and currency belong together: fill in both cells, or leave both empty."
        elif amount is not None and (message := precision_error(amount, DECIMALS[currency])):
            yield "amount", message


def _order(scope: Scope, row: HistoryRow) -> HistoryOrder:
    amount = None
    if row.amount is not None and row.currency is not None:
        amount = int(row.amount.scaleb(DECIMALS[row.currency]))
    return HistoryOrder(
        id=new_id("his"),
        account_id=scope.account_id,
        provider=row.provider,
        external_id=row.external_id,
        ordered_on=row.date,
        quantity_grams=to_grams(row.quantity, MassUnit.T),
        amount_minor=amount,
        currency=row.currency,
        link=row.link,
    )
