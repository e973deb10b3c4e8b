"""Orders of former providers, as an account states them. Nobody has verified them, and nothing of ours counts them."""

from collections.abc import Sequence
from datetime import date, datetime

from msgspec import Struct, structs

from tonne.platform.db.database import Connection, json_rows, parameters_of, value_of
from tonne.platform.process.progress import progress
from tonne.platform.values.context import Mode, Scope
from tonne.platform.values.paging import START, Position

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
    connection: Connection, organisation_id: str, mode: Mode, start: Position = START, *, limit: int
) -> list[HistoryOrder]:
    """The newest first, of all accounts."""
    after = (start.created_at.date(), start.id)
    found = await connection.fetch(LIST_OF_ORGANISATION, organisation_id, mode, *after, limit)
    return [value_of(HistoryOrder, row) for row in found]
