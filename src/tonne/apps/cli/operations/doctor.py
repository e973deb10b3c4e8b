"""tonne doctor"""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Sequence
from datetime import datetime
from functools import partial
from typing import TypeVar

import click
import msgspec

from tonne.apps.cli.database import ACTOR, Readers, read_one_snapshot, run_with_readers
from tonne.apps.cli.parameters import PAST
from tonne.apps.cli.table import printable
from tonne.apps.lookup.doctor.doctor_checks import ALL_WAITING
from tonne.apps.lookup.doctor.doctor_run_store import DoctorFinding, DoctorRun, record_run
from tonne.apps.privacy.retention.check_archives import ARCHIVES, ARCHIVES_MEANING, ARCHIVES_REMEDY, find_incomplete
from tonne.apps.privacy.retention.removal_store import list_archived
from tonne.apps.wiring.sealed import ALL_SEALED
from tonne.channels.checkout.invariants import INVARIANTS as CHECKOUTS
from tonne.channels.webhooks.invariants import INVARIANTS as WEBHOOKS
from tonne.money.accounting.books.close_month import DIGESTS, DIGESTS_MEANING, DIGESTS_REMEDY, find_changed_files
from tonne.money.accounting.journal.invariants import INVARIANTS as JOURNAL
from tonne.money.accounting.matching.invariants import INVARIANTS as MATCHES
from tonne.money.bank.invariants import INVARIANTS as TRANSFERS
from tonne.money.cards.invariants import INVARIANTS as PAYMENTS
from tonne.money.invoices.invariants import INVARIANTS as INVOICES
from tonne.money.invoices.originals.invariants import INVARIANTS as ORIGINALS
from tonne.money.refunds.card_invoice_invariants import INVARIANTS as CARD_INVOICES
from tonne.money.refunds.invariants import INVARIANTS as REFUNDS
from tonne.platform.db.database import Connection
from tonne.platform.db.errors import DATABASE_ERRORS, is_database_unavailable
from tonne.platform.db.invariant import FOR_CHECKS, AnyCheck, AnyInvariant, group_by_scan
from tonne.platform.db.operation_runs import record_run as record_operation
from tonne.platform.events.invariants import INVARIANTS as EVENTS
from tonne.platform.keys.check_secret_key import find_unreadable_secrets
from tonne.platform.keys.secret_box import SecretBox, SecretKeyMissing
from tonne.platform.process.progress import progress
from tonne.platform.settings.load_settings import load_settings
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import utc_now
from tonne.selling.orders.invariants import INVARIANTS as ORDERS
from tonne.selling.users.invariants import INVARIANTS as GUARDED
from tonne.supply.certificates.credentials.invariants import INVARIANTS as CREDENTIALS
from tonne.supply.certificates.proofs.log_invariants import INVARIANTS as LOG
from tonne.supply.registries.invariants import INVARIANTS as REGISTRIES
from tonne.supply.retirements.invariants import INVARIANTS as RETIREMENTS
from tonne.supply.stock.holds.quote_invariants import INVARIANTS as QUOTES
from tonne.supply.transparency.check_tree import TREE, TREE_MEANING, TREE_REMEDY, find_broken_trees

T = TypeVar("T")
ALL_INVARIANTS = (
    *(*EVENTS, *GUARDED, *ORDERS, *PAYMENTS, *TRANSFERS, *INVOICES, *CARD_INVOICES, *REFUNDS, *MATCHES, *CHECKOUTS),
    *(*LOG, *RETIREMENTS, *REGISTRIES, *CREDENTIALS, *QUOTES, *WEBHOOKS, *JOURNAL, *ORIGINALS),
)
SECRETS = "all secrets can be opened"
ALL_NAMES = (
    *(each.name for each in ALL_INVARIANTS),
    SECRETS,
    TREE,
    DIGESTS,
    *(each.name for each in ALL_WAITING),
    ARCHIVES,
)
SECRETS_MEANING = "Their webhooks deliver nothing, and their offset links refuse signed queries."
SECRETS_REMEDY = "Add the key to TONNE_SECRET_KEYS_OLD, or have the secret rotated."
# Objects listed per check.
SHOWN = 10
# The exit codes if nothing is broken but something needs the operator, and if a check could not be made. 2 is for a
# wrong command line.
WARNINGS_CODE = 3
FAILED_CODE = 4
_CODES = {"ok": 0, "broken": 1, "warning": WARNINGS_CODE, "failed": FAILED_CODE}
FAILED_MEANING = "The check could not be made."
FAILED_REMEDY = "Run it again alone with --only. If it fails again, the log of PostgreSQL says more."
# Checks that are made at the same time.
CONNECTIONS = 2


class Finding(msgspec.Struct, frozen=True):
    """The result of one check. `status` is ok, broken, warning or failed (not made); `found` names the objects.

    `limited` says whether only changes since the given time were checked, `seconds` how long the statement took, which
    may have made several checks.
    """

    name: str
    status: str
    meaning: str
    remedy: str
    found: Sequence[str]
    limited: bool = False
    seconds: float | None = None


class Examination(msgspec.Struct):
    """What violates each invariant, by its name, and how long each statement took."""

    breaches: dict[str, list[str]] = msgspec.field(default_factory=dict)
    timings: list[tuple[float, AnyCheck]] = msgspec.field(default_factory=list)
    # Why a check could not be made.
    failures: dict[str, str] = msgspec.field(default_factory=dict)

    async def attempt(self, names: Sequence[str], made: Awaitable[T], otherwise: T) -> T:
        """A check that the database cancels or refuses is a result like any other. Not if the database is away."""
        try:
            return await made
        except DATABASE_ERRORS as error:
            if is_database_unavailable(error):
                raise
            self.failures |= dict.fromkeys(names, " ".join(str(error).split()) or type(error).__name__)
            return otherwise

    def seconds(self, name: str) -> float | None:
        return next((round(taken, 3) for taken, check in self.timings if name in check.names), None)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with all checks and all objects.")
@click.option(
    "--only", "words", multiple=True, metavar="TEXT", help="Only checks whose name contains this. May be repeated."
)
@click.option(
    "--since", type=PAST, metavar="TIME", help="Only what changed since a time, or for how long: 36h, 2d. See below."
)
@click.option("--timings", is_flag=True, help="Also print how long each statement took, the slowest first.")
def doctor(as_json: bool, words: tuple[str, ...], since: datetime | None, timings: bool) -> None:
    """Check the data, and list what waits too long.

    The exit code is 0 if all is well, 1 if an invariant is broken (or the database cannot be reached), 4 if a check
    could not be made, and 3 if there are only warnings: something waits for the operator, or a setting is missing. Each
    warning says which command deals with it.

    With --since, checks that can be limited read only events, certificates and orders from that time on. The output
    says which were limited. The others, mostly sums, read all data.

    Each check reads in a short transaction of its own, so it is safe to run on a busy service. The result of a run with
    all checks is stored: the operator's page Today shows when the last one was, and what it found.
    """
    if not any(_is_wanted(name, words) for name in ALL_NAMES):
        raise click.BadParameter(f"no check is named so: {', '.join(words)}", param_hint="--only")
    found, examination, server = run_with_readers(lambda readers: _examine_all(readers, words, since))
    broken = [each for each in found if each.status == "broken"]
    warnings = [each for each in found if each.status == "warning"]
    failed = [each for each in found if each.status == "failed"]
    if as_json:
        click.echo(msgspec.json.encode({"status": _status(found), "server": server, "since": since, "checks": found}))
    else:
        for each in found:
            _print(each, since)
        if timings:
            _print_timings(examination)
        if failed:
            click.echo(f"{len(failed)} of {len(found)} checks could not be made. See above.", err=True)
        elif not broken:
            click.echo(f"{_count(warnings)} See above." if warnings else "All checks passed.")
    if broken and not as_json:
        also = f" {_count(warnings)}" if warnings else ""
        raise click.ClickException(f"{len(broken)} of {len(found)} checks failed.{also} See above.")
    sys.exit(_CODES[_status(found)])


def _count(warnings: Sequence[Finding]) -> str:
    return f"{len(warnings)} {'warning' if len(warnings) == 1 else 'warnings'}."


def _print(finding: Finding, since: datetime | None) -> None:
    marks = {"ok": "ok    ", "broken": "BROKEN", "warning": "WARN  ", "failed": "FAILED"}
    extent = ""
    if since is not None and finding.seconds is not None:
        extent = f" (since {since:%Y-%m-%d %H:%M} UTC)" if finding.limited else " (all data)"
    click.echo(f"{marks[finding.status]}  {finding.name}{extent}")
    if finding.status == "ok":
        return
    click.echo(f"        {finding.meaning} {finding.remedy}".rstrip())
    for place in finding.found[:SHOWN]:
        click.echo(f"        - {printable(place)}")
    if len(finding.found) > SHOWN:
        click.echo(f"        - and {len(finding.found) - SHOWN} more")


def _print_timings(examination: Examination) -> None:
    for seconds, check in sorted(examination.timings, key=lambda timing: -timing[0]):
        others = len(check.names) - 1
        also = f", and {others} more in the same statement" if others else ""
        click.echo(f"{seconds:8.2f} s  {check.names[0]}{also}")


def _is_wanted(name: str, words: Sequence[str]) -> bool:
    return not words or any(word.casefold() in name.casefold() for word in words)


async def _examine_all(
    readers: Readers, words: Sequence[str], since: datetime | None
) -> tuple[list[Finding], Examination, str]:
    settings = load_settings(os.environ)
    examination = await examine_in_parallel(readers, words, since)
    unreadable = await examination.attempt(
        [SECRETS], readers.run(0, lambda tx: find_unreadable(tx, settings)), list[str]()
    )
    trees = list[str]()
    if _is_wanted(TREE, words):
        trees = await examination.attempt([TREE], readers.run(0, lambda tx: find_broken_trees(tx, since)), trees)
    files = list[str]()
    if _is_wanted(DIGESTS, words):
        files = await examination.attempt([DIGESTS], readers.run(0, lambda tx: find_changed_files(tx, since)), files)
    names = [*(each.name for each in ALL_WAITING), ARCHIVES]
    looking = readers.run(0, lambda tx: find_waiting(tx, settings, utc_now()))
    waiting = await examination.attempt(names, looking, dict[str, list[str]]())
    archives = waiting.get(ARCHIVES, ())
    found = [
        *(_result(each, examination, since) for each in ALL_INVARIANTS),
        Finding(SECRETS, "broken" if unreadable else "ok", SECRETS_MEANING, SECRETS_REMEDY, unreadable),
        Finding(TREE, "broken" if trees else "ok", TREE_MEANING, TREE_REMEDY, trees),
        Finding(DIGESTS, "broken" if files else "ok", DIGESTS_MEANING, DIGESTS_REMEDY, files),
        *(
            Finding(each.name, status if each.name in waiting else "ok", each.meaning, each.remedy, places)
            for each in ALL_WAITING
            for status in ("broken" if each.is_broken else "warning",)
            for places in (waiting.get(each.name, ()),)
        ),
        Finding(ARCHIVES, "warning" if archives else "ok", ARCHIVES_MEANING, ARCHIVES_REMEDY, archives),
    ]
    found = [_failed(each, examination) if each.name in examination.failures else each for each in found]
    if not words:
        await _record(readers, found, since)
    return [finding for finding in found if _is_wanted(finding.name, words)], examination, readers.server


async def _record(readers: Readers, found: Sequence[Finding], since: datetime | None) -> None:
    """For the operator's page. A database that accepts no writes is examined all the same."""
    findings = [
        DoctorFinding(each.name, each.status, each.meaning, each.remedy, len(each.found))
        for each in found
        if each.status != "ok"
    ]
    run = DoctorRun(utc_now(), str(ACTOR.unbound), since, _status(found), len(found), findings)
    try:
        await readers.write(partial(record_run, run=run))
        await readers.write(
            partial(record_operation, operation="doctor", status=_CODES[run.status], at=run.finished_at)
        )
    except DATABASE_ERRORS as error:
        click.echo(f"The result was not stored for the operator's page ({error}).", err=True)


def _failed(finding: Finding, examination: Examination) -> Finding:
    return Finding(finding.name, "failed", FAILED_MEANING, FAILED_REMEDY, [examination.failures[finding.name]])


def _status(found: Sequence[Finding]) -> str:
    statuses = {each.status for each in found}
    return next((status for status in ("broken", "failed", "warning") if status in statuses), "ok")


def _result(invariant: AnyInvariant, examination: Examination, since: datetime | None) -> Finding:
    places = examination.breaches.get(invariant.name, ())
    return Finding(
        invariant.name,
        "broken" if places else "ok",
        invariant.meaning,
        "",
        places,
        limited=since is not None and invariant.can_be_limited,
        seconds=examination.seconds(invariant.name),
    )


async def find_unreadable(tx: Connection, settings: Settings) -> list[str]:
    """The secrets that cannot be opened with the configured keys. A missing key is not created."""
    try:
        box: SecretBox | None = SecretBox.from_settings(settings)
    except SecretKeyMissing:
        box = None
    unreadable = await find_unreadable_secrets(tx, box, ALL_SEALED)
    return [f"{secret.owner} {secret.id}: {secret.reason}" for secret in unreadable]


async def broken_checks(tx: Connection, settings: Settings) -> list[str]:
    """The names of the checks that find an inconsistency. What only waits is not looked for."""
    breaches = await examine(tx)
    unreadable, trees = await find_unreadable(tx, settings), await find_broken_trees(tx)
    files = await find_changed_files(tx)
    parts = ((SECRETS, unreadable), (TREE, trees), (DIGESTS, files))
    return [*breaches, *(name for name, found in parts if found)]


async def examine(tx: Connection, words: Sequence[str] = (), since: datetime | None = None) -> dict[str, list[str]]:
    """The rows that violate each invariant, by the name of the invariant, in one snapshot."""
    await read_one_snapshot(tx)
    return await find_breaches(tx, words, since)


async def find_breaches(
    tx: Connection, words: Sequence[str] = (), since: datetime | None = None
) -> dict[str, list[str]]:
    """Like `examine`, also for a transaction that has already changed something."""
    examination = Examination()
    for check in _wanted_checks(words):
        await _make(check, since, examination, tx)
    return examination.breaches


async def examine_in_parallel(
    readers: Readers, words: Sequence[str] = (), since: datetime | None = None
) -> Examination:
    """Like `examine`, on two connections, each of which takes the next check when it has finished one."""
    examination = Examination()
    checks = _wanted_checks(words)
    waiting = iter(checks)
    with progress("Checking the data", len(checks)) as advance:

        async def take_checks(place: int) -> None:
            for check in waiting:
                made = readers.run(place, partial(_make, check, since, examination))
                await examination.attempt(check.names, made, None)
                advance(1)

        try:
            async with asyncio.TaskGroup() as tasks:
                for place in range(CONNECTIONS):
                    tasks.create_task(take_checks(place))
        except ExceptionGroup as group:
            raise group.exceptions[0] from group
    return examination


def _wanted_checks(words: Sequence[str]) -> list[AnyCheck]:
    return group_by_scan(each for each in ALL_INVARIANTS if _is_wanted(each.name, words))


async def _make(check: AnyCheck, since: datetime | None, examination: Examination, tx: Connection) -> None:
    started = time.monotonic()
    await tx.execute(FOR_CHECKS)
    for name, where in [each async for each in check.find(tx, since)]:
        examination.breaches.setdefault(name, []).append(where)
    examination.timings.append((time.monotonic() - started, check))


async def find_waiting(tx: Connection, settings: Settings, now: datetime) -> dict[str, list[str]]:
    """What needs the operator, by the name of the check."""
    waiting = {}
    with progress("Looking for what waits", len(ALL_WAITING)) as advance:
        for check in ALL_WAITING:
            if found := [row["where"] for row in await tx.fetch(check.sql, *check.parameters(settings, now))]:
                waiting[check.name] = found
            advance(1)
    if incomplete := find_incomplete(await list_archived(tx), settings.archive_path):
        waiting[ARCHIVES] = incomplete
    return waiting
