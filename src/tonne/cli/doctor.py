"""tonne doctor"""

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import click
import msgspec

from tonne.base.clock import utc_now
from tonne.base.progress import progress
from tonne.base.secret_box import SecretBox, SecretKeyMissing
from tonne.base.settings import Settings, load_settings
from tonne.cards.invariants import INVARIANTS as PAYMENTS
from tonne.cards.waiting import WAITING as PAYMENTS_WAITING
from tonne.catalog.waiting import WAITING as CATALOGUE_WAITING
from tonne.checkout.invariants import INVARIANTS as CHECKOUTS
from tonne.checkout.waiting import WAITING as CHECKOUTS_WAITING
from tonne.cli.database import SnapshotServer, read_one_snapshot, run_in_snapshot
from tonne.cli.table import printable
from tonne.db.clock_drift import WAITING as CLOCK_WAITING
from tonne.db.hold import WAITING as HOLD_WAITING
from tonne.db.pool import Connection
from tonne.events.invariants import INVARIANTS as EVENTS
from tonne.gateways.waiting import WAITING as MAILS_WAITING
from tonne.invoices.card_invariants import INVARIANTS as CARD_INVOICES
from tonne.invoices.invariants import INVARIANTS as INVOICES
from tonne.invoices.waiting import WAITING as INVOICES_WAITING
from tonne.journal.invariants import INVARIANTS as JOURNAL
from tonne.orders.invariants import INVARIANTS as ORDERS
from tonne.orders.waiting import WAITING as ORDERS_WAITING
from tonne.refunds.invariants import INVARIANTS as REFUNDS
from tonne.refunds.waiting import WAITING as REFUNDS_WAITING
from tonne.retirements.invariants import INVARIANTS as RETIREMENTS
from tonne.retirements.waiting import WAITING as RETIREMENTS_WAITING
from tonne.webhooks.check_secret_key import find_unreadable_any_account
from tonne.webhooks.invariants import INVARIANTS as WEBHOOKS
from tonne.webhooks.waiting import WAITING as WEBHOOKS_WAITING

ALL_INVARIANTS = (
    *(*EVENTS, *ORDERS, *PAYMENTS, *INVOICES, *CARD_INVOICES, *REFUNDS, *CHECKOUTS),
    *(*RETIREMENTS, *WEBHOOKS, *JOURNAL),
)
ALL_WAITING = (
    *HOLD_WAITING,
    *CLOCK_WAITING,
    *CATALOGUE_WAITING,
    *MAILS_WAITING,
    *ORDERS_WAITING,
    *PAYMENTS_WAITING,
    *INVOICES_WAITING,
    *REFUNDS_WAITING,
    *RETIREMENTS_WAITING,
    *WEBHOOKS_WAITING,
    *CHECKOUTS_WAITING,
)
SECRETS = "all secrets can be opened"
ALL_NAMES = (*(each.name for each in ALL_INVARIANTS), SECRETS, *(each.name for each in ALL_WAITING))
SECRETS_MEANING = "Their webhooks deliver nothing, and their offset links refuse signed queries."
SECRETS_REMEDY = "Add the key to TONNE_SECRET_KEYS_OLD, or have the secret rotated."
# Objects listed per check.
SHOWN = 10
# The exit code if nothing is broken but something needs the operator. 2 is for a wrong command line.
WARNINGS_CODE = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. `status` is ok, broken or warning; `found` names the objects."""

    name: str
    status: str
    meaning: str
    remedy: str
    found: Sequence[str]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with all checks and all objects.")
@click.option(
    "--only", "words", multiple=True, metavar="TEXT", help="Only checks whose name contains this. May be repeated."
)
def doctor(as_json: bool, words: tuple[str, ...]) -> None:
    """Check the data, and list what waits too long.

    The exit code is 0 if all is well, 1 if an invariant is broken (or the check could not be made), and 3 if there are
    only warnings: something waits for the operator, or a setting is missing. Each warning says which command deals with
    it.

    It only reads, from one snapshot, so it is safe to run on a busy service.
    """
    if not any(_is_wanted(name, words) for name in ALL_NAMES):
        raise click.BadParameter(f"no check is named so: {', '.join(words)}", param_hint="--only")
    findings, server = run_in_snapshot(lambda tx, server: _examine_all(tx, server, words))
    broken = [each for each in findings if each.status == "broken"]
    warnings = [each for each in findings if each.status == "warning"]
    if as_json:
        status = "broken" if broken else "warning" if warnings else "ok"
        click.echo(msgspec.json.encode({"status": status, "server": server, "checks": findings}))
    else:
        for each in findings:
            _print(each)
        if not broken:
            click.echo(f"{_count(warnings)} See above." if warnings else "All checks passed.")
    if broken and not as_json:
        also = f" {_count(warnings)}" if warnings else ""
        raise click.ClickException(f"{len(broken)} of {len(findings)} checks failed.{also} See above.")
    sys.exit(1 if broken else WARNINGS_CODE if warnings else 0)


def _count(warnings: Sequence[Finding]) -> str:
    return f"{len(warnings)} {'warning' if len(warnings) == 1 else 'warnings'}."


def _print(finding: Finding) -> None:
    marks = {"ok": "ok    ", "broken": "BROKEN", "warning": "WARN  "}
    click.echo(f"{marks[finding.status]}  {finding.name}")
    if finding.status == "ok":
        return
    click.echo(f"        {finding.meaning} {finding.remedy}".rstrip())
    for place in finding.found[:SHOWN]:
        click.echo(f"        - {printable(place)}")
    if len(finding.found) > SHOWN:
        click.echo(f"        - and {len(finding.found) - SHOWN} more")


def _is_wanted(name: str, words: Sequence[str]) -> bool:
    return not words or any(word.casefold() in name.casefold() for word in words)


EXPORT_SNAPSHOT = "SELECT pg_export_snapshot()"


async def _examine_all(tx: Connection, server: SnapshotServer, words: Sequence[str]) -> tuple[list[Finding], str]:
    settings = load_settings(os.environ)
    snapshot: str = await tx.fetchval(EXPORT_SNAPSHOT)
    async with server.join(snapshot) as second:
        breaches = await examine(tx, second, words=words)
    unreadable = await find_unreadable(tx, settings)
    waiting = await find_waiting(tx, settings, utc_now())
    found = [
        *(_finding(each.name, "broken", each.meaning, "", breaches) for each in ALL_INVARIANTS),
        _finding(SECRETS, "broken", SECRETS_MEANING, SECRETS_REMEDY, {SECRETS: unreadable}),
        *(_finding(each.name, "warning", each.meaning, each.remedy, waiting) for each in ALL_WAITING),
    ]
    return [finding for finding in found if _is_wanted(finding.name, words)], server.name


def _finding(name: str, status: str, meaning: str, remedy: str, found: Mapping[str, Sequence[str]]) -> Finding:
    places = found.get(name, ())
    return Finding(name, status if places else "ok", meaning, remedy, places)


async def find_unreadable(tx: Connection, settings: Settings) -> list[str]:
    """The secrets that cannot be opened with the configured keys. A missing key is not created."""
    try:
        box: SecretBox | None = SecretBox.from_settings(settings)
    except SecretKeyMissing:
        box = None
    unreadable = await find_unreadable_any_account(tx, box)
    return [f"{secret.owner} {secret.id}: {secret.reason}" for secret in unreadable]


async def broken_checks(tx: Connection, settings: Settings) -> list[str]:
    """The names of the checks that find an inconsistency. What only waits is not looked for."""
    breaches = await examine(tx)
    return [*breaches, *([SECRETS] if await find_unreadable(tx, settings) else ())]


async def examine(tx: Connection, *others: Connection, words: Sequence[str] = ()) -> dict[str, list[str]]:
    """The rows that violate each invariant, by the name of the invariant.

    `others` are connections with the same snapshot: each takes the next check when it has finished one.
    """
    await read_one_snapshot(tx)
    breaches: dict[str, list[str]] = {}
    wanted = [each for each in ALL_INVARIANTS if _is_wanted(each.name, words)]
    waiting = iter(wanted)
    with progress("Checking the data", len(wanted)) as advance:

        async def take_checks(connection: Connection) -> None:
            for invariant in waiting:
                if found := [row["where"] for row in await connection.fetch(invariant.sql)]:
                    breaches[invariant.name] = found
                advance(1)

        try:
            async with asyncio.TaskGroup() as tasks:
                for connection in (tx, *others):
                    tasks.create_task(take_checks(connection))
        except ExceptionGroup as group:
            raise group.exceptions[0] from group
    return breaches


async def find_waiting(tx: Connection, settings: Settings, now: datetime) -> dict[str, list[str]]:
    """What needs the operator, by the name of the check."""
    waiting = {}
    with progress("Looking for what waits", len(ALL_WAITING)) as advance:
        for check in ALL_WAITING:
            if found := [row["where"] for row in await tx.fetch(check.sql, *check.parameters(settings, now))]:
                waiting[check.name] = found
            advance(1)
    return waiting
