"""A job: books what changed, as the difference between what each business event should book and what is stored.

Triggers note changed rows in `ledger_due`. An entry is booked on the day of its event, or, if that month is closed, on
the first open day. A stored entry never changes: another version adds what is missing of it.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import ClassVar

from msgspec import Struct

from tonne.money.accounting.books.revalue import RATE
from tonne.money.accounting.journal.model import LedgerAccount
from tonne.money.accounting.journal.sources import KINDS_OF_TABLE, TABLES, postings_of_due_rows
from tonne.platform.db.batches import RETRY_AFTER, RowJobWithSettings, run_claimed
from tonne.platform.db.database import Connection
from tonne.platform.settings.settings import Settings
from tonne.selling.catalogue.prices.reference_rates import home_currency_of

BATCH_ROWS = 2_000
# Key of the advisory lock. Any number that no other code uses.
_BOOKS_LOCK = 7_405_610_221


class DueRow(Struct, frozen=True):
    id: int
    table_name: str
    source_id: str


LOCK_BOOKS = "SELECT pg_advisory_xact_lock($1)"


async def lock_books(tx: Connection) -> None:
    """Until the commit nobody else books or closes: two could add the same difference, or book in a closed month."""
    await tx.execute(LOCK_BOOKS, _BOOKS_LOCK)


TAKE_DUE = """
DELETE FROM ledger_due
WHERE id = ANY (ARRAY(SELECT id FROM ledger_due WHERE due_at <= now() ORDER BY id LIMIT $1))
RETURNING id, table_name, source_id
"""


async def take_due(tx: Connection, limit: int) -> list[DueRow]:
    """Call it under the lock, before what the rows should book is read: a later change notes its row again."""
    await lock_books(tx)
    return [DueRow(**row) for row in await tx.fetch(TAKE_DUE, limit)]


POSTPONE = "UPDATE ledger_due SET due_at = now() + $2::interval WHERE id = ANY ($1::bigint[])"


async def postpone_due(tx: Connection, rows: Sequence[DueRow], wait: timedelta = RETRY_AFTER) -> None:
    await tx.execute(POSTPONE, [row.id for row in rows], wait)


# $1 and $2 are the kinds and ids that may have to be booked, $3 is the currency of the seller's country; the others are
# the ids for each table. Postings in another currency are converted at the rate of their document, else of their day.
POST_DIFFERENCES = f"""
WITH due AS MATERIALIZED (
    SELECT kind, source_id FROM unnest($1::text[], $2::text[]) AS due (kind, source_id)
), computed AS MATERIALIZED (
    {postings_of_due_rows(4)}
), latest AS MATERIALIZED (
    SELECT DISTINCT ON (entry.kind, entry.source_id)
           entry.kind, entry.source_id, entry.id, entry.version, entry.mode, entry.event_at, entry.organisation_id,
           entry.subject
    FROM due JOIN ledger_entries entry ON entry.source_id = due.source_id AND entry.kind = due.kind
    ORDER BY entry.kind, entry.source_id, entry.version DESC
), difference AS MATERIALIZED (
    SELECT kind, source_id, account, currency, sum(amount_minor)::bigint AS amount_minor
    FROM (SELECT kind, source_id, account, currency::text AS currency, amount_minor FROM computed
          UNION ALL
          SELECT entry.kind, entry.source_id, posting.account || coalesce(':' || posting.tax_code, ''),
                 posting.currency, -posting.amount_minor
          FROM due
          JOIN ledger_entries entry ON entry.source_id = due.source_id AND entry.kind = due.kind
          JOIN ledger_postings posting ON posting.entry_id = entry.id) AS each
    GROUP BY kind, source_id, account, currency HAVING sum(amount_minor) <> 0
), head AS (
    SELECT DISTINCT ON (kind, source_id) kind, source_id, mode, at, organisation_id, subject FROM computed
    ORDER BY kind, source_id
), changed AS (
    SELECT kind, source_id, coalesce(head.mode, latest.mode) AS mode, coalesce(head.at, latest.event_at) AS event_at,
           coalesce(head.organisation_id, latest.organisation_id) AS organisation_id,
           coalesce(head.subject, latest.subject) AS subject, latest.id AS corrects,
           coalesce(latest.version, 0) + 1 AS version
    FROM (SELECT DISTINCT kind, source_id FROM difference) AS differs
    LEFT JOIN head USING (kind, source_id) LEFT JOIN latest USING (kind, source_id)
), closed AS (
    SELECT mode, (max(month) + interval '1 month')::date AS open_from FROM closed_months
    WHERE reopened_at IS NULL GROUP BY mode
), entry AS (
    INSERT INTO ledger_entries (kind, source_id, version, mode, event_at, booked_on, corrects, organisation_id, subject)
    SELECT changed.kind, changed.source_id, changed.version, changed.mode, changed.event_at,
           greatest((changed.event_at AT TIME ZONE 'UTC')::date, closed.open_from), changed.corrects,
           changed.organisation_id, nullif(changed.subject, changed.source_id)
    FROM changed LEFT JOIN closed ON closed.mode = changed.mode
    ORDER BY changed.event_at, changed.kind, changed.source_id
    RETURNING id, kind, source_id, mode, booked_on
), converted AS MATERIALIZED (
    SELECT kind, source_id, account, currency, amount_minor,
           round(amount_minor * rate.home / rate.abroad
                               * power(10::numeric, decimals_of($3) - decimals_of(currency)))::bigint AS home_minor
    FROM difference JOIN changed USING (kind, source_id) LEFT JOIN LATERAL {RATE} AS rate ON currency <> $3
), posting AS (
    INSERT INTO ledger_postings (entry_id, account, tax_code, currency, amount_minor, home_minor, home_currency)
    SELECT entry.id, (split_part(account, ':', 1) || ':' || split_part(account, ':', 2))::ledger_account,
           nullif(split_part(account, ':', 3), ''), currency, amount_minor, home_minor,
           CASE WHEN home_minor IS NOT NULL THEN $3 END
    FROM (SELECT kind, source_id, account, currency, amount_minor, home_minor FROM converted
          UNION ALL
          SELECT kind, source_id, '{LedgerAccount.CURRENCY_DIFFERENCES}', currency, 0, -sum(home_minor)::bigint
          FROM converted GROUP BY kind, source_id, currency HAVING sum(home_minor) <> 0) AS each
    JOIN entry USING (kind, source_id) ORDER BY entry.id, account, currency
    RETURNING entry_id, account, tax_code, currency, amount_minor, home_minor, home_currency
), total AS (
    INSERT INTO ledger_totals AS total (mode, month, account, tax_code, currency, debit_minor, credit_minor, home_minor,
                                        home_currency)
    SELECT entry.mode, date_trunc('month', entry.booked_on)::date AS month, posting.account,
           coalesce(posting.tax_code, '') AS tax_code, posting.currency,
           coalesce(sum(posting.amount_minor) FILTER (WHERE posting.amount_minor > 0), 0),
           coalesce(-sum(posting.amount_minor) FILTER (WHERE posting.amount_minor < 0), 0),
           coalesce(sum(posting.home_minor), 0), max(posting.home_currency)
    FROM posting JOIN entry ON entry.id = posting.entry_id
    GROUP BY 1, 2, 3, 4, 5
    ON CONFLICT (mode, month, account, tax_code, currency) DO UPDATE
    SET debit_minor = total.debit_minor + excluded.debit_minor,
        credit_minor = total.credit_minor + excluded.credit_minor,
        home_minor = total.home_minor + excluded.home_minor,
        home_currency = coalesce(excluded.home_currency, total.home_currency)
)
SELECT count(*) FROM entry
"""  # noqa: S608 - our own constants


async def record_differences(tx: Connection, rows: Sequence[DueRow], settings: Settings) -> int:
    """Book what is missing of these rows. Returns the number of new entries. Call it under the lock."""
    ids = _ids_by_table(rows)
    due = [(kind, source_id) for table, found in ids.items() for kind in KINDS_OF_TABLE[table] for source_id in found]
    kinds, sources = [kind for kind, _ in due], [source_id for _, source_id in due]
    home = home_currency_of(settings)
    count: int = await tx.fetchval(POST_DIFFERENCES, kinds, sources, home, *(ids[table] for table in TABLES))
    return count


def _ids_by_table(rows: Sequence[DueRow]) -> Mapping[str, list[str]]:
    """Each id once. Of each table, also of those without one."""
    found: dict[str, dict[str, None]] = {table: {} for table in TABLES}
    for row in rows:
        found[row.table_name][row.source_id] = None
    return {table: list(ids) for table, ids in found.items()}


class PostEntries(RowJobWithSettings, frozen=True):
    # Reports say what is not booked yet.
    EVERY_S: ClassVar[int] = 5

    async def run_once(self) -> bool:
        """Book one batch. True when there were due rows."""
        return await run_claimed(
            self.database,
            take_due,
            self._record,
            postpone_due,
            limit=BATCH_ROWS,
            failure_event="entry_not_booked",
            describe=lambda row: {"table": row.table_name, "source_id": row.source_id},
        )

    async def _record(self, tx: Connection, rows: Sequence[DueRow]) -> None:
        await record_differences(tx, rows, self.settings)
