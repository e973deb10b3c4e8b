"""The sums of a month of the journal, stored because summing reads all records of the month."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime

import msgspec

from tonne.money.accounting.journal.model import LedgerAccount
from tonne.money.accounting.journal.read_journal import Period, sum_turnover_any_account
from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import Actor, Mode


class AccountTurnover(msgspec.Struct, frozen=True):
    """What was debited to and credited to an account in a month, in one currency."""

    account: LedgerAccount
    currency: str
    debit_minor: int
    credit_minor: int

    @property
    def balance_minor(self) -> int:
        """Debits are positive."""
        return self.debit_minor - self.credit_minor


class MonthTotals(msgspec.Struct, frozen=True):
    totals: tuple[AccountTurnover, ...]
    computed_at: datetime
    computed_by: str

    def unbalanced(self) -> Sequence[str]:
        """The currencies in which debits and credits differ: never, unless the records are damaged."""
        sums: Counter[str] = Counter()
        for each in self.totals:
            sums[each.currency] += each.balance_minor
        return sorted(currency for currency, minor in sums.items() if minor)


def month_period(mode: Mode, month: date) -> Period:
    """A calendar month in UTC. `month` is its first day."""
    start = datetime(month.year, month.month, 1, tzinfo=UTC)
    return Period(mode, start, start.replace(year=start.year + start.month // 12, month=start.month % 12 + 1))


async def sum_month_any_account(tx: Connection, mode: Mode, month: date) -> tuple[AccountTurnover, ...]:
    """By currency, in the order of the chart of accounts. Call it in a transaction that reads one snapshot."""
    sums = await sum_turnover_any_account(tx, month_period(mode, month))
    return tuple(
        AccountTurnover(LedgerAccount(name), currency, debit, credit) for name, currency, debit, credit in sums
    )


STORE_TOTALS = """
INSERT INTO month_totals (mode, month, totals, computed_at, computed_by) VALUES ($1, $2, $3::jsonb, $4, $5)
ON CONFLICT (mode, month) DO UPDATE
SET totals = excluded.totals, computed_at = excluded.computed_at, computed_by = excluded.computed_by
"""


async def store_totals(
    tx: Connection, mode: Mode, month: date, totals: Sequence[AccountTurnover], *, actor: Actor, now: datetime
) -> None:
    """Instead of earlier ones. `now` is when they were read."""
    await tx.execute(STORE_TOTALS, mode, month, msgspec.json.encode(totals).decode(), now, str(actor))
    await audit.record(tx, None, "journal.summed", actor=actor, at=now, subject_id=f"{month:%Y-%m}", mode=mode)


FIND_TOTALS = "SELECT totals::text AS totals, computed_at, computed_by FROM month_totals WHERE mode = $1 AND month = $2"


async def find_totals(connection: Connection, mode: Mode, month: date) -> MonthTotals | None:
    """As they were computed last."""
    row = await connection.fetchrow(FIND_TOTALS, mode, month)
    if row is None:
        return None
    totals = msgspec.json.decode(row["totals"], type=tuple[AccountTurnover, ...])
    return MonthTotals(totals, row["computed_at"], row["computed_by"])
