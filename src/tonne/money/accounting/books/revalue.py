"""The books in the currency of the seller's country: rates of postings, and what is found when a month is closed.

Each posting is converted at the rate of its document, or of its day. What is owed, and what is in the bank, is worth
something else at the end of a month: the difference is booked, in the currency of the country alone.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta

from msgspec import Struct

from tonne.money.accounting.journal.model import LedgerAccount
from tonne.money.accounting.journal.read_journal import REVALUED, Period
from tonne.platform.db.database import Connection, columns
from tonne.selling.catalogue.prices.reference_rates import find_home_rates

# One row at most: `home` units of $3 are `abroad` units of `currency`. A document was issued with its rate, at which
# its tax is owed. Other events have the last rate of 31 days: an old one is better than none.
RATE = """(
    SELECT home, abroad FROM (
        SELECT 1 AS choice, document.issued_on AS day,
               CASE stated.home ->> 'base' WHEN currency THEN (stated.home ->> 'rate')::numeric ELSE 1 END AS home,
               CASE stated.home ->> 'base' WHEN currency THEN 1 ELSE (stated.home ->> 'rate')::numeric END AS abroad
        FROM tax_documents document
        CROSS JOIN LATERAL (SELECT convert_from(document.record, 'UTF8')::jsonb -> 'home' AS home) AS stated
        WHERE document.id = source_id AND stated.home ->> 'currency' = $3
        UNION ALL
        SELECT 2, known.day, coalesce(ours.rate, 1), coalesce(theirs.rate, 1)
        FROM reference_rates known
        LEFT JOIN reference_rates ours ON ours.currency = $3 AND ours.day = known.day
        LEFT JOIN reference_rates theirs ON theirs.currency = difference.currency AND theirs.day = known.day
        WHERE known.currency IN ($3, difference.currency) AND ($3 = 'EUR' OR ours.rate IS NOT NULL)
          AND (difference.currency = 'EUR' OR theirs.rate IS NOT NULL)
          AND known.day BETWEEN (event_at AT TIME ZONE 'UTC')::date - 31 AND (event_at AT TIME ZONE 'UTC')::date
    ) AS rate ORDER BY choice, day DESC LIMIT 1
)"""
# Taxes are owed at the rate of their documents, and the stock was paid for.
_ACCOUNTS = (
    *(LedgerAccount.BANK, LedgerAccount.CARD_CLEARING, LedgerAccount.PAYOUTS, LedgerAccount.DISPUTED),
    *(LedgerAccount.RECEIVABLES, LedgerAccount.SETTLED_BY_HAND, LedgerAccount.UNALLOCATED, LedgerAccount.DEFERRED),
)


class Revaluation(Struct, frozen=True):
    """What a balance in a foreign currency is worth more, in the currency of the country. None without a rate."""

    account: LedgerAccount
    currency: str
    home_currency: str
    home_minor: int | None


SUM_FOREIGN = """
SELECT account::text AS account, currency, sum(debit_minor - credit_minor)::bigint AS amount_minor,
       sum(home_minor)::bigint AS home_minor, max(home_currency) AS home_currency
FROM ledger_totals WHERE mode = $1 AND month < $2 AND account = ANY ($3::ledger_account[])
GROUP BY ledger_totals.account, currency HAVING max(home_currency) IS NOT NULL ORDER BY currency, ledger_totals.account
"""


async def find_revaluations(connection: Connection, period: Period) -> list[Revaluation]:
    """At the rates of the last day of the month."""
    end = period.end.date()
    rows = await connection.fetch(SUM_FOREIGN, period.mode, end, list(_ACCOUNTS))
    found = []
    for row in rows:
        home, currency = row["home_currency"], row["currency"]
        rates = await find_home_rates(connection, {currency}, home, end - timedelta(days=1))
        worth = rates[currency].convert(row["amount_minor"], currency) if rates else None if row["amount_minor"] else 0
        difference = None if worth is None else worth - row["home_minor"]
        if difference != 0:
            found.append(Revaluation(LedgerAccount(row["account"]), currency, home, difference))
    return found


# As in `post_entries.py`, but in the currency of the country alone. A month that is closed again adds another version.
INSERT_REVALUED = """
WITH entry AS (
    INSERT INTO ledger_entries (kind, source_id, version, mode, event_at, booked_on, corrects)
    SELECT $1, $2, coalesce(max(version), 0) + 1, $3, $4::timestamptz - interval '1 s', $4::date - 1, max(id)
    FROM ledger_entries WHERE kind = $1 AND source_id = $2
    RETURNING id, mode, booked_on
), posting AS (
    INSERT INTO ledger_postings (entry_id, account, currency, amount_minor, home_minor, home_currency)
    SELECT entry.id, account::ledger_account, currency, 0, home_minor, home_currency
    FROM entry, unnest($5::text[], $6::text[], $7::text[], $8::bigint[]) AS new (account, currency, home_currency,
                                                                                home_minor)
    RETURNING account, currency, home_minor, home_currency
)
INSERT INTO ledger_totals AS total (mode, month, account, tax_code, currency, debit_minor, credit_minor, home_minor,
                                    home_currency)
SELECT entry.mode, date_trunc('month', entry.booked_on)::date, account, '', currency, 0, 0, home_minor, home_currency
FROM entry, posting
ON CONFLICT (mode, month, account, tax_code, currency) DO UPDATE
SET home_minor = total.home_minor + excluded.home_minor, home_currency = excluded.home_currency
"""


async def revalue_any_account(tx: Connection, period: Period) -> None:
    """Book what balances in foreign currencies are worth at the end of the month. Call it under the lock."""
    by_currency: dict[str, list[Revaluation]] = defaultdict(list)
    for each in await find_revaluations(tx, period):
        by_currency[each.currency].append(each)
    for currency, found in by_currency.items():
        source_id = f"{period.mode}-{period.start:%Y-%m}-{currency}"
        rest = -sum(each.home_minor or 0 for each in found)
        if rest:
            found.append(Revaluation(LedgerAccount.CURRENCY_DIFFERENCES, currency, found[0].home_currency, rest))
        values = columns(found, "account, currency, home_currency, home_minor")
        await tx.execute(INSERT_REVALUED, REVALUED, source_id, period.mode, period.end, *values)


def missing_rates(revaluations: Sequence[Revaluation]) -> list[str]:
    """The currencies that cannot be converted."""
    return sorted({each.currency for each in revaluations if each.home_minor is None})
