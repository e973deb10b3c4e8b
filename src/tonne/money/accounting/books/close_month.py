"""Close a month, and reopen the last one that is closed.

A closed month does not change: what is found later is booked on the first open day, and its files have the same bytes
whenever they are written.
"""

import contextlib
from datetime import date, datetime, timedelta
from typing import Any, ClassVar

from tonne.money.accounting.books.check_month import check_month
from tonne.money.accounting.books.errors import ChartIncomplete, MonthNotClosable, MonthNotReopenable
from tonne.money.accounting.books.files import FILES, digest_of
from tonne.money.accounting.books.month_store import (
    ClosedMonth,
    find_without_digests,
    insert_closed,
    list_closed,
    list_number_ranges_any_account,
    set_digests,
    set_reopened,
    set_reopening,
)
from tonne.money.accounting.books.post_entries import BATCH_ROWS, lock_books, record_differences, take_due
from tonne.money.accounting.books.revalue import revalue_any_account
from tonne.money.accounting.journal.read_journal import BEGINNING, Period, month_period, sum_turnover
from tonne.platform.db.batches import RowJob
from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import By, Mode, new_id
from tonne.selling.users.approvals import ApprovalKind, Approver, Subject, approve

# No transaction takes this long: what was recorded before is visible.
UNSEEN = timedelta(minutes=5)


async def close_month(tx: Connection, mode: Mode, month: date, *, settings: Settings, by: By) -> ClosedMonth:
    """Book what is due, and close the month, or raise MonthNotClosable with every reason."""
    period = month_period(mode, month)
    await lock_books(tx)
    while rows := await take_due(tx, BATCH_ROWS):
        await record_differences(tx, rows, settings)
    check = await check_month(tx, period, by.at)
    if check.closed is not None:
        raise MonthNotClosable(f"{check.closed.name} is closed already.")
    if check.refusals:
        raise MonthNotClosable(" ".join(check.refusals))
    await revalue_any_account(tx, period)
    closed = ClosedMonth(
        id=new_id("mon"),
        mode=mode,
        month=month,
        closed_at=by.at,
        closed_by=str(by.actor),
        known_until=by.at - UNSEEN,
        number_ranges=tuple(await list_number_ranges_any_account(tx, period)),
        oss_rates=check.oss_rates,
        digests=None,
        reopen_reason=None,
        reopen_requested_by=None,
    )
    await insert_closed(tx, closed, await sum_turnover(tx, Period(mode, BEGINNING, period.end)))
    await audit.record(tx, None, "month.closed", by=by, subject_id=closed.id, mode=mode, month=closed.name)
    return closed


async def request_reopening(tx: Connection, mode: Mode, month: date, reason: str, *, by: By) -> ClosedMonth:
    """Ask another person to approve it. Raises MonthNotReopenable."""
    closed = await _last_closed(tx, mode, month)
    await set_reopening(tx, closed, reason, by=by)
    details: dict[str, Any] = {"month": closed.name, "reason": reason}
    await audit.record(tx, None, "month.reopening_requested", by=by, subject_id=closed.id, mode=mode, **details)
    return closed


async def approve_reopening(tx: Connection, mode: Mode, month: date, *, approver: Approver, now: datetime) -> bool:
    """Reopen the month, unless another person must approve it, too: then false. Raises SecondPersonNeeded."""
    closed = await _last_closed(tx, mode, month)
    subject = reopening_subject(closed)
    if subject is None:
        raise MonthNotReopenable(f"Nobody has asked to reopen {closed.name}.")
    if await approve(tx, subject, approver, now):
        return False
    await set_reopened(tx, closed, now)
    details: dict[str, Any] = {"month": closed.name, "reason": closed.reopen_reason}
    details["requested_by"] = closed.reopen_requested_by
    by = approver.actor.at(now)
    await audit.record(tx, None, "month.reopened", by=by, subject_id=closed.id, mode=mode, **details)
    return True


def reopening_subject(closed: ClosedMonth) -> Subject | None:
    """What is to be approved. None if nobody has asked to reopen the month."""
    if closed.reopen_requested_by is None or closed.reopen_reason is None:
        return None
    return Subject(
        kind=ApprovalKind.REOPENING,
        id=closed.id,
        organisation_id=None,
        mode=closed.mode,
        requested_by=closed.reopen_requested_by,
        terms=(closed.name, closed.reopen_reason),
    )


async def _last_closed(tx: Connection, mode: Mode, month: date) -> ClosedMonth:
    await lock_books(tx)
    found = await list_closed(tx, mode, 1)
    if not found or found[0].month != month:
        last = f" That is {found[0].name}." if found else ""
        raise MonthNotReopenable(f"Only the last closed month can be reopened.{last}")
    return found[0]


class WriteDigests(RowJob, frozen=True):
    """A job: writes the files of closed months once, to store what their bytes must be."""

    EVERY_S: ClassVar[int] = 5

    async def run_once(self) -> bool:
        month = await self.database.run(find_without_digests)
        if month is None:
            return False
        async with self.database.long_snapshot() as tx:
            period = month_period(month.mode, month.month)
            digests = dict[str, str]()
            for name, file in FILES.items():
                # Without a chart of accounts there is no file for DATEV.
                with contextlib.suppress(ChartIncomplete):
                    digests[name] = await digest_of(tx, file, period)
        await self.database.commit(set_digests, month, digests)
        return True


DIGESTS = "the files of closed months have the bytes that they had when the month was closed"
DIGESTS_MEANING = (
    "An entry, a document or a total of a closed month was changed, or a release writes the file differently."
)
DIGESTS_REMEDY = "Compare the file with the one that you gave to your accountant: `tonne books export`."


async def find_changed_files(tx: Connection, since: datetime | None = None) -> list[str]:
    """The files of closed months that have other bytes now. With `since`, only of months that were closed since."""
    found = []
    for mode in Mode:
        for month in await list_closed(tx, mode):
            if month.digests is not None and (since is None or month.closed_at >= since):
                period = month_period(mode, month.month)
                for name, digest in month.digests.items():
                    if name not in FILES or await digest_of(tx, FILES[name], period) != digest:
                        found.append(f"{mode} {month.name} {name}")
    return found
