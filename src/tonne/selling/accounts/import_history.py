"""The orders of a former provider as the history of an account: importing them, and undoing an import.

They are as the account states them: nobody has verified them, and nothing of ours counts them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Annotated, ClassVar

from msgspec import Struct, structs

from tonne.platform.db.database import Connection, json_rows, parameters_of, value_of
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
from tonne.platform.process.progress import progress
from tonne.platform.values.amounts import DECIMALS, MassUnit, to_grams
from tonne.platform.values.context import By, Mode, Scope, Tenant, new_id, same_named
from tonne.platform.values.paging import START, Position
from tonne.selling.accounts.errors import HistoryImportNotFound
from tonne.selling.accounts.store import lock_account

# Rows per statement, so that the progress is seen.
BATCH = 1_000


class HistoryOrder(Struct, frozen=True, kw_only=True):
    """Amount and currency are both None if the file does not state them."""

    id: str
    account_id: str
    provider: str
    external_id: str
    ordered_on: date
    quantity_grams: int
    amount_minor: int | None = None
    currency: str | None = None
    link: str | None = None


class HistoryImport(Struct, frozen=True, kw_only=True):
    import_id: str
    organisation_id: str
    account_id: str
    mode: Mode
    imported_at: datetime
    orders_count: int
    first_on: date
    last_on: date
    providers: tuple[str, ...]

    @property
    def scope(self) -> Scope:
        return Scope(self.organisation_id, self.account_id, self.mode)


FIND_KNOWN = """
SELECT provider, external_id, import_id FROM history_orders
WHERE organisation_id = $1 AND mode = $2 AND account_id = $3 AND provider = ANY ($4)
"""


async def find_known(tx: Connection, scope: Scope, providers: set[str]) -> dict[tuple[str, str], str]:
    """The import of each order that the account has of these providers, by provider and external id."""
    rows = await tx.fetch(FIND_KNOWN, scope.organisation_id, scope.mode, scope.account_id, list(providers))
    return {(row["provider"], row["external_id"]): row["import_id"] for row in rows}


INSERT_HISTORY = """
INSERT INTO history_orders (organisation_id, mode, account_id, import_id, imported_at, id, provider, external_id,
                            ordered_on, quantity_grams, amount_minor, currency, link)
SELECT $1, $2, $3, $4, $5, id, provider, external_id, ordered_on, quantity_grams, amount_minor, currency, link
FROM jsonb_populate_recordset(NULL::history_orders, $6)
"""


async def insert_history(
    tx: Connection, scope: Scope, import_id: str, rows: Sequence[HistoryOrder], *, now: datetime
) -> None:
    owner = parameters_of(scope, "organisation_id, mode, account_id")
    with progress("Saving", len(rows)) as advance:
        for start in range(0, len(rows), BATCH):
            batch = rows[start : start + BATCH]
            await tx.execute(INSERT_HISTORY, *owner, import_id, now, json_rows(map(structs.asdict, batch)))
            advance(len(batch))


DELETE_IMPORT = """
DELETE FROM history_orders WHERE organisation_id = $1 AND mode = $2 AND account_id = $3 AND import_id = $4
"""


async def delete_import(tx: Connection, scope: Scope, import_id: str) -> bool:
    """Whether there were any rows."""
    done = await tx.execute(DELETE_IMPORT, scope.organisation_id, scope.mode, scope.account_id, import_id)
    return done != "DELETE 0"


LIST_IMPORTS = """
SELECT import_id, organisation_id, account_id, mode, imported_at, count(*) AS orders_count,
       min(ordered_on) AS first_on, max(ordered_on) AS last_on, array_agg(DISTINCT provider) AS providers
FROM history_orders WHERE $1::text IS NULL OR import_id = $1
GROUP BY import_id, organisation_id, account_id, mode, imported_at ORDER BY imported_at DESC, import_id DESC
"""


async def list_imports_any_account(connection: Connection, import_id: str | None = None) -> list[HistoryImport]:
    """The newest first; with an id, this one, if there is such an import."""
    return [value_of(HistoryImport, row) for row in await connection.fetch(LIST_IMPORTS, import_id)]


_HISTORY = "id, account_id, provider, external_id, ordered_on, quantity_grams, amount_minor, currency, link"
LIST_OF_ACCOUNT = f"""
SELECT {_HISTORY} FROM history_orders
WHERE organisation_id = $1 AND mode = $2 AND account_id = $3 ORDER BY ordered_on DESC, id DESC LIMIT $4
"""  # noqa: S608 - columns above


async def list_of_account(connection: Connection, scope: Scope, *, limit: int) -> list[HistoryOrder]:
    """The newest first."""
    found = await connection.fetch(LIST_OF_ACCOUNT, scope.organisation_id, scope.mode, scope.account_id, limit)
    return [value_of(HistoryOrder, row) for row in found]


LIST_OF_ORGANISATION = f"""
SELECT {_HISTORY} FROM history_orders
WHERE organisation_id = $1 AND mode = $2 AND (ordered_on, id) < ($3, $4) ORDER BY ordered_on DESC, id DESC LIMIT $5
"""  # noqa: S608 - columns above


async def list_of_organisation(
    connection: Connection, tenant: Tenant, start: Position = START, *, limit: int
) -> list[HistoryOrder]:
    """The newest first, of all accounts."""
    after = (start.created_at.date(), start.id)
    found = await connection.fetch(LIST_OF_ORGANISATION, *tenant, *after, limit)
    return [value_of(HistoryOrder, row) for row in found]


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


async def import_history(tx: Connection, scope: Scope, file: SheetFile, *, by: By, apply: bool = True) -> HistoryReport:
    """Import the valid rows and report the others. Raises SheetInvalid if the file cannot be read to its end."""
    # Another import of the same orders waits, and then finds them.
    await lock_account(tx, scope)
    # Local time is up to 14 hours ahead of UTC.
    sheet = read_sheet(file, HistoryRow, partial(_check, (by.at + timedelta(hours=14)).date()))
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
        await insert_history(tx, scope, import_id, new, now=by.at)
        values = {"orders": len(new), "file": file.name}
        await audit.record(tx, scope, "history.imported", by=by, after=values, import_id=import_id)
    return HistoryReport(import_id, len(new), sorted(sheet.errors, key=lambda error: error.line or 0))


async def undo_import_any_account(tx: Connection, import_id: str, *, by: By) -> HistoryImport:
    """Remove the orders of an import."""
    found = next(iter(await list_imports_any_account(tx, import_id)), None)
    if found is None or not await delete_import(tx, found.scope, import_id):
        raise HistoryImportNotFound
    values = {"orders": found.orders_count}
    await audit.record(tx, found.scope, "history.undone", by=by, before=values, import_id=import_id)
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
    return same_named(
        HistoryOrder,
        row,
        id=new_id("his"),
        account_id=scope.account_id,
        ordered_on=row.date,
        quantity_grams=to_grams(row.quantity, MassUnit.T),
        amount_minor=amount,
    )
